"""Where acceptance tests play: the session's broker, hosts in this process, workers, and the journal at the end.

A stage has a tenant of its own, so that every test may call its profile and runs as it likes. When
the test is over, everything its profiles wrote is read back and held against the invariants.
"""

import asyncio
import contextlib
import tempfile
from collections.abc import AsyncGenerator, Generator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import msgspec
import pytest

import lessor
from lessor.actors.clock import BootClock
from lessor.broker.connection import Connection
from lessor.broker.embedded import Endpoint
from lessor.broker.jetstream import Stream
from lessor.broker.journal import StreamJournal
from lessor.broker.runs import StreamRuns
from lessor.broker.stream import open_stream
from lessor.broker.subjects import Shard
from lessor.client import Client, Run
from lessor.config import Config
from lessor.errors import Code, LessorError, Problem
from lessor.limits import Limits
from lessor.messages import wire
from lessor.messages.ids import Caller, ProfileKey, RunKey
from lessor.messages.record import AnyRecord, Entry, HostSession, LeaseClosed, LeaseGranted
from lessor.messages.run import Approval, RunReading, RunStatus
from lessor.ports import Browser, Chain, Journal
from lessor.runtime import BrowserMaker, Host, chromium
from tests.model.browser import Hit, ModelBrowser
from tests.support.broker import connect, fresh
from tests.support.check import check
from tests.support.held import HeldJournal, Holds
from tests.support.keepers import Tree, tree_of
from tests.support.wire import Wire

R = TypeVar("R", bound=AnyRecord)

QUICK = Limits(session_ttl_s=3, beat_s=0.5, margin_s=0.5, outage_s=1, reconnect_s=0.5)
"""Everything that waits for a lost host waits for at most 3 s."""
CLOCKS_APART_MS = 50
"""The wall clock may be slewed against the boot clock while a test runs."""
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
    live: Path
    """Where browsers live: short, since sockets lie below it."""
    tenant: str = field(default_factory=lambda: fresh("t"))
    hosts: dict[str, Host] = field(default_factory=dict[str, Host])
    holds: Holds = field(default_factory=Holds)
    """Where appends of the hosts of this process are held."""

    # -- hosts

    async def open_host(self, word: str = "h") -> Host:
        """A host of this process; opened again under the same word, it is the same host restarted."""
        name = f"{self.tenant}-{word}"
        config = Config(
            data_dir=self.directory / word,
            nats_url=self.endpoint.url,
            nats_credentials=self.endpoint.credentials,
            host=name,
            limits=self.limits,
            live_dir=self.live / word,
        )
        host = Host(config, None, self._maker(), self._journal)
        await host.open()
        self.hosts[word] = host
        return host

    def _journal(self, stream: Stream, shard: Shard) -> Journal:
        return HeldJournal(StreamJournal(stream, shard), self.holds)

    def _maker(self) -> BrowserMaker:
        model = self.browser
        if model is None:
            return chromium

        async def make(config: Config) -> Browser | Problem:
            return model

        return make

    async def leave(self, word: str = "h", *, drained: bool = False) -> None:
        """The host's actors are gone, its pages stay with their keepers; `drained`: it has given everything back."""
        host = self.hosts.pop(word)
        if drained:
            assert await host.drain(20)
        await host.close()

    # -- workers

    async def worker(self, worker: str = "a", principal: str = "me") -> Client:
        made = lessor.connect(
            self.endpoint.url,
            credentials=self.endpoint.credentials,
            tenant=self.tenant,
            principal=principal,
            worker=worker,
            limits=self.limits,
        )
        return await self.stack.enter_async_context(made)

    async def take(self, client: Client, run: str, *, attempt: int = 1) -> Run:
        """Take a run that stays open until somebody reports it."""
        taken = client.run(run, attempt=attempt)
        await taken.__aenter__()
        return taken

    def wire(self, run: str, *, profile: str = "shop", principal: str = "me", tenant: str | None = None) -> Wire:
        """A worker that says what the test says."""
        return Wire(self.connection, Caller(tenant or self.tenant, principal), run, profile)

    # -- what was written

    @property
    def model(self) -> ModelBrowser:
        assert self.browser is not None
        return self.browser

    def key(self, profile: str = "shop") -> ProfileKey:
        return ProfileKey(self.tenant, profile)

    async def write_run(self, run: str, *, status: RunStatus) -> None:
        """Write the run's status as another host would: the hosts of this stage are not told."""
        runs, key = StreamRuns(self.stream, Shard(), BootClock()), RunKey(self.tenant, run)
        reading = await runs.read(key)
        assert isinstance(reading, RunReading)
        assert reading.record is not None
        asked = Approval(id=fresh("a"), question="?", asked_unix_ms=0, until_unix_ms=reading.record.deadline_unix_ms)
        approvals = (asked,) if status is RunStatus.PARKED else ()
        record = msgspec.structs.replace(reading.record, status=status, approvals=approvals)
        written = await runs.write(key, record, reading.revision)
        assert isinstance(written, int), written

    async def chain(self, profile: str = "shop") -> Chain:
        return await StreamJournal(self.stream, Shard()).replay(self.key(profile), 0)

    async def entries(self, profile: str = "shop") -> list[Entry]:
        return [entry for _, entry in (await self.chain(profile)).entries]

    async def written(self, kind: type[R], profile: str = "shop") -> list[R]:
        records = [record for entry in await self.entries(profile) for record in entry.records]
        return [record for record in records if isinstance(record, kind)]

    async def hosted(self, worker: str = "a", origin: str = ORIGIN) -> Client:
        """The usual beginning: a host, a worker, and the profile `shop`."""
        await self.open_host()
        client = await self.worker(worker)
        await client.create_profile("shop", origins=[origin], settle_s=0)
        return client

    async def awaited(self, kind: type[R], count: int, profile: str = "shop") -> list[R]:
        """Wait until the journal holds that many of a kind."""
        async with asyncio.timeout(10):
            while len(found := await self.written(kind, profile)) < count:  # noqa: ASYNC110  # nobody is told
                await asyncio.sleep(0.01)
        return found

    async def closed(self, leases: int, profile: str = "shop") -> list[LeaseClosed]:
        """Wait until that many leases have ended: a receipt is given before the browser is gone."""
        return await self.awaited(LeaseClosed, leases, profile)

    async def new_session(self, before: str | None, word: str) -> None:
        """Wait until that host has begun another session."""
        async with asyncio.timeout(10):
            while await self.session(word) in (None, before):  # noqa: ASYNC110  # nobody is told
                await asyncio.sleep(0.01)

    async def session(self, word: str = "h") -> str | None:
        """The incarnation of that host's session, while it has one."""
        stored = await self.stream.last(Shard().host(f"{self.tenant}-{word}"))
        return None if stored is None else wire.decode(stored.data, HostSession).incarnation

    async def tree(self, profile: str = "shop", word: str = "h") -> Tree:
        """The processes of the profile's latest lease."""
        return tree_of(self.live / word, (await self.written(LeaseGranted, profile))[-1].instance)

    async def verify(self) -> None:
        """Every profile of the tenant, read back and held against the invariants."""
        clock = BootClock()
        unix_ms = clock.unix_ms() - clock.now_ms() - CLOCKS_APART_MS
        for key, _ in await StreamJournal(self.stream, Shard()).profiles(self.tenant):
            check((await self.chain(key.profile)).entries, self._hits(), unix_ms)

    def _hits(self) -> tuple[Hit, ...] | None:
        return tuple(self.browser.hits) if self.browser is not None else None


@asynccontextmanager
async def staged(endpoint: Endpoint, directory: Path, limits: Limits, *, model: bool) -> AsyncGenerator[Stage, None]:
    """A stage; at its end workers leave, hosts drain and close, and the journal is checked."""
    connection = await connect(endpoint)
    stream = await open_stream(connection, Shard())
    assert not isinstance(stream, Problem), stream
    browser = ModelBrowser(BootClock()) if model else None
    async with AsyncExitStack() as stack:
        live = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="lessor-", ignore_cleanup_errors=True)))
        stage = Stage(endpoint, directory, limits, browser, connection, stream, stack, live)
        stack.push_async_callback(connection.close)
        stack.push_async_callback(_end, stage)
        yield stage
        await stage.verify()


async def _end(stage: Stage) -> None:
    for host in stage.hosts.values():
        await host.drain(10)
        await host.close()


@contextlib.contextmanager
def refused(*codes: Code) -> Generator[list[Problem], None, None]:
    """The block must raise a LessorError with one of these codes; the problem is put into the list."""
    told: list[Problem] = []
    with pytest.raises(LessorError) as caught:
        yield told
    told.append(caught.value.problem)
    assert caught.value.code in codes, caught.value.problem
