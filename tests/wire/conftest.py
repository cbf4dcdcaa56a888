"""A whole host over a fake browser, and callers who speak nothing but NATS and JSON."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Protocol

import pytest
from nats.aio.client import Client

from lessor.broker.credentials import Credentials, read
from lessor.broker.embedded import Endpoint
from lessor.config import Config
from lessor.runtime import Runtime
from tests.wire.fake import Fake
from tests.wire.page import requests
from tests.wire.plain import Plain


class Speak(Protocol):
    """A caller of any tenant and principal."""

    def __call__(self, tenant: str = "local", principal: str = "me") -> Plain: ...


@pytest.fixture
async def fake() -> Fake:
    return Fake()


@pytest.fixture
async def runtime(tmp_path: Path, fake: Fake) -> AsyncIterator[Runtime]:
    async def browser(config: Config) -> Fake:
        return fake

    async with Runtime(Config(data_dir=tmp_path), browser=browser) as runtime:
        yield runtime
        fake.gate.set()


def seed_of(endpoint: Endpoint) -> str:
    assert endpoint.credentials is not None
    kept = read(endpoint.credentials)
    assert isinstance(kept, Credentials), kept
    return kept.seed


async def connection_to(endpoint: Endpoint) -> Client:
    async def quiet(error: Exception) -> None:
        """What goes wrong is told by the test."""

    client = Client()
    await client.connect(endpoint.url, nkeys_seed_str=seed_of(endpoint), error_cb=quiet, pending_size=0)
    return client


@pytest.fixture
async def connection(runtime: Runtime) -> AsyncIterator[Client]:
    assert runtime.endpoint is not None
    opened = await connection_to(runtime.endpoint)
    yield opened
    await opened.close()


@pytest.fixture
def speak(connection: Client) -> Speak:
    """The embedded broker takes anybody's word for who they are."""

    def caller(tenant: str = "local", principal: str = "me") -> Plain:
        return Plain(connection, requests(), tenant, principal)

    return caller


@pytest.fixture
async def plain(speak: Speak) -> Plain:
    """The principal `me`, with a profile `shop`."""
    caller = speak()
    made = await caller.profile("shop", "create")
    assert made["type"] == "profile", made
    return caller
