"""Where acceptance tests play: the session's broker, hosts in this process, workers, and the journal at the end.

A stage has a tenant of its own, so that every test may call its profile and runs as it likes. When
the test is over, everything its profiles wrote is read back and held against the invariants.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import lessor
from lessor.actors.clock import BootClock
from lessor.broker.connection import Connection
from lessor.broker.embedded import Endpoint
from lessor.broker.journal import StreamJournal
from lessor.broker.jetstream import Stream
from lessor.broker.stream import open_stream
from lessor.broker.subjects import Shard
from lessor.client import Client
from lessor.config import Config
from lessor.errors import Code, LessorError, Problem
from lessor.limits import Limits
from lessor.messages.ids import ProfileKey
from lessor.messages.record import AnyRecord, Entry
from lessor.ports import Browser, Chain
from lessor.runtime import BrowserMaker, Host, chromium
from tests.model.browser import ModelBrowser
from tests.support.broker import connect, fresh

R = TypeVar("R", bound=AnyRecord)

QUICK = Limits(session_ttl_s=3, beat_s=0.5, margin_s=0.5, outage_s=1, reconnect_s=0.5)
"""Everything that waits for a lost host waits for at most 3 s."""
ORIGIN = "http://127.0.0.1:1"
URL = f"{ORIGIN}/page"


@dataclass
class Stage:
    """One tenant's world. `host()` opens hosts; `worker()` gives clients."""

    endpoint: Endpoint
    directory: Path
    limits: Limits
    browser: ModelBrowser | None
    connection: Connection
    stream: Stream
    stack: AsyncExitStack
    tenant: str = field(default_factory=lambda: fresh("t"))
    hosts: dict[str, Host] = field(default_factory=dict[str, Host])

    # -- hosts

    async def open_host(self, word: str = "h") -> Host:
        """A host of this process; opened again under the same word, it is the same host restarted."""
        name = f"{self.tenant}-{word}"
        config = Config(
            data_dir=self.directory / word,
            nats_url=self.endpoint.url,
            nats_token=self.endpoint.token,
            host=name,
            limits=self.limits,
        )
        host = Host(config, None, self._maker())
        await host.open()
        self.hosts[word] = host
        return host

    def _maker(self) -> BrowserMaker:
        model = self.browser
        if model is None:
            return chromium

        async def make(config: Config) -> Browser | Problem:
            return model

        return make

    async def leave(self, word: str = "h") -> None:
        """The host's actors are gone, its pages stay with their keepers."""
        await self.hosts.pop(word).close()

    # -- workers

    async def worker(self, worker: str = "a", principal: str = "me") -> Client:
        made = lessor.connect(
            self.endpoint.url,
            token=self.endpoint.token,
            tenant=self.tenant,
            principal=principal,
            worker=worker,
            limits=self.limits,
        )
        return await self.stack.enter_async_context(made)

    # -- what was written

    @property
    def model(self) -> ModelBrowser:
        assert self.browser is not None
        return self.browser

    def key(self, profile: str = "shop") -> ProfileKey:
        return ProfileKey(self.tenant, profile)

    async def chain(self, profile: str = "shop") -> Chain:
        return await StreamJournal(self.stream, Shard()).replay(self.key(profile), 0)

    async def entries(self, profile: str = "shop") -> list[Entry]:
        return [entry for _, entry in (await self.chain(profile)).entries]

    async def written(self, kind: type[R], profile: str = "shop") -> list[R]:
        records = [record for entry in await self.entries(profile) for record in entry.records]
        return [record for record in records if isinstance(record, kind)]


@asynccontextmanager
async def staged(
    endpoint: Endpoint, directory: Path, limits: Limits, *, model: bool, check: Callable[[Stage], object]
) -> AsyncIterator[Stage]:
    connection = await connect(endpoint)
    stream = await open_stream(connection, Shard())
    assert not isinstance(stream, Problem), stream
    browser = ModelBrowser(BootClock()) if model else None
    async with AsyncExitStack() as stack:
        stage = Stage(endpoint, directory, limits, browser, connection, stream, stack)
        try:
            yield stage
        finally:
            await stack.aclose()
            for host in stage.hosts.values():
                await host.drain(10)
                await host.close()
            await connection.close()


@contextlib.contextmanager
def refused(*codes: Code) -> "contextlib._GeneratorContextManager[LessorError]":
    raise NotImplementedError
