"""Fixtures of the keeper's tests; what they are made of is in `bench`."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio
from playwright.async_api import Playwright, async_playwright

from lessor.browser.find import find_chromium
from tests.browser.keeper.bench import Bench, Site


@pytest.fixture(scope="session")
def chromium() -> Path:
    found = find_chromium()
    if found is None:
        pytest.fail("There is no Chromium on this machine: `make browser` sees to one.")
    return found


@pytest.fixture
def root() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="lessor-") as folder:  # tmp_path is too long for a socket
        yield Path(folder)


@pytest_asyncio.fixture(loop_scope="session")
async def bench(root: Path, chromium: Path) -> AsyncIterator[Bench]:
    bench = Bench(root, chromium)
    yield bench
    await bench.end()


@pytest_asyncio.fixture(loop_scope="session", scope="session")
async def playwright() -> AsyncIterator[Playwright]:
    async with async_playwright() as driver:
        yield driver


@pytest_asyncio.fixture(loop_scope="session")
async def site() -> AsyncIterator[Site]:
    site = Site()
    server = await asyncio.start_server(site.serve, "127.0.0.1", 0)
    site.port = server.sockets[0].getsockname()[1]
    yield site
    server.close()
