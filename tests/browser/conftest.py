"""One engine and one site for the browser tests; what needs a browser of its own starts one."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest
import pytest_asyncio

from lessor.browser.find import find_chromium
from lessor.browser.session import LiveSession
from tests.support.engines import Rig
from tests.support.web import Web


@pytest.fixture(scope="session")
def web() -> Iterator[Web]:
    with Web() as web:
        yield web


@pytest_asyncio.fixture(loop_scope="session", scope="session")
async def shared(web: Web) -> AsyncIterator[LiveSession]:
    """A session for tests that leave nothing behind but their document."""
    if find_chromium() is None:
        pytest.fail("There is no Chromium on this machine: `make browser` sees to one.")
    rig = Rig()
    yield await rig.start(rig.engine(), rig.spec(web.origin, until_ms=rig.later_ms()))
    await rig.end()


@pytest_asyncio.fixture(loop_scope="session")
async def rig() -> AsyncIterator[Rig]:
    if find_chromium() is None:
        pytest.fail("There is no Chromium on this machine: `make browser` sees to one.")
    rig = Rig()
    yield rig
    await rig.end()


@pytest.fixture
def session(shared: LiveSession, web: Web) -> LiveSession:
    web.log.clear()
    web.bodies.clear()
    return shared
