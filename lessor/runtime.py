"""The one Main: opens and closes the whole tree, for `lessor up`, `lessor host`, tests and embedders alike.

Order: settings checked, data directory locked, broker reached and verified, session begun, actors
started, doors opened, and only then the profiles that this host still owns are activated. Closing
goes the other way round. Linux only; it lives on the event loop it was opened on.
"""

import asyncio
import contextlib
import fcntl
import os
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

import structlog

from lessor.actors.bridge import LoopIo
from lessor.actors.clock import BootClock
from lessor.actors.process import ChildFailed, Stop
from lessor.actors.ref import Ref, tell
from lessor.actors.supervisor import SessionLost, SupervisorActor, Wake
from lessor.actors.words import DrainAll, Ports
from lessor.broker.connection import Connection, Settings, open_connection
from lessor.broker.embedded import Embedded, Endpoint
from lessor.broker.gateway import Gateway
from lessor.broker.gateway import Limits as GatewayLimits
from lessor.broker.highwater import HighWater, WatchedHosts
from lessor.broker.hosts import StreamHosts
from lessor.broker.jetstream import Stream
from lessor.broker.journal import StreamJournal
from lessor.broker.runs import StreamRuns
from lessor.broker.server_check import check_server
from lessor.broker.stream import open_stream
from lessor.broker.subjects import HOST_INBOX, Shard
from lessor.broker.vault import ObjectVault, open_vault
from lessor.config import Config
from lessor.errors import Code, LessorError, Problem, error_of, problem
from lessor.http_source import HttpSource
from lessor.ids import fresh_id
from lessor.messages.record import HostSession
from lessor.messages.reply import Refused
from lessor.ports import BrokerAway, Browser, Call, HostCall, Journal, RunCall, Runs
from lessor.sources import RunSource, SourcedRuns

log = structlog.get_logger("lessor.runtime")
T = TypeVar("T")

DRAIN_S_MAX = 45.0
BrowserMaker = Callable[[Config], Awaitable[Browser | Problem]]


async def chromium(config: Config) -> Browser | Problem:
    """The real engine: needs the `host` extra."""
    try:
        from lessor.browser.engine import Engine, Settings
        from lessor.browser.live import live_directory
    except ImportError as error:
        return problem(Code.SETUP_FAILED, f"A host needs more than a worker ({error}): pip install 'lessor[host]'.")
    sandbox = os.geteuid() != 0 if config.sandbox is None else config.sandbox
    settings = Settings(
        live=config.live_dir or live_directory(config.host, config.data_dir),
        keys=config.data_dir / "keys",
        secrets=config.data_dir / "secrets",
        chromium=config.chromium,
        sandbox=sandbox,
        warm_max=config.limits.warm_max,
        warm_s=config.limits.warm_s,
    )
    engine = Engine(settings)
    engine.prepare()
    return engine


def settings_of(config: Config, endpoint: Endpoint | None, name: str) -> Settings:
    """How to reach the broker: the embedded one's endpoint, or the configured URL."""
    if endpoint is not None:
        return Settings(servers=(endpoint.url,), name=name, credentials=endpoint.credentials, inbox_prefix=HOST_INBOX)
    assert config.nats_url is not None
    return Settings(
        servers=tuple(config.nats_url.split(",")),
        name=name,
        inbox_prefix=HOST_INBOX,
        token=config.nats_token,
        user=config.nats_user,
        password=config.nats_password,
        credentials=config.nats_credentials,
    )


@dataclass(slots=True)
class _Broker:
    connection: Connection
    stream: Stream
    vault: ObjectVault
    unverified: tuple[str, ...]


class Host:
    """One host: session, actors, doors, browser engine, over a broker that runs already."""

    def __init__(
        self,
        config: Config,
        endpoint: Endpoint | None,
        browser: BrowserMaker = chromium,
        journal: Callable[[Stream, Shard], Journal] = StreamJournal,
        source: RunSource | None = None,
    ) -> None:
        self.config, self._endpoint, self._make_browser = config, endpoint, browser
        self._make_journal = journal
        self._source = source
        self.clock = BootClock()
        self.failed = asyncio.Event()
        """Set when the host cannot go on: a broken supervisor, or a store that went back in time."""
        self.why: Problem | None = None
        self.warnings: tuple[str, ...] = ()
        self._stack = contextlib.AsyncExitStack()
        self._supervisor: Ref | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._again: asyncio.Task[None] | None = None
        self._watch: asyncio.Task[None] | None = None
        self._closing = False
        self._drained = False
        """No profile is owned here and nothing new is: only then may the session end early."""

    def __repr__(self) -> str:
        return f"<Host {self.config.host} {'closing' if self._closing else 'open' if self._supervisor else 'new'}>"

    async def open(self) -> None:
        """Raises LessorError with a remedy; then nothing is left half-started."""
        try:
            await self._open()
        except BaseException:
            await self._stack.aclose()
            raise

    async def _open(self) -> None:
        contradictions = self.config.limits.contradictions()
        if contradictions:
            raise error_of(problem(Code.SETUP_FAILED, " ".join(contradictions)))
        self._loop = asyncio.get_running_loop()
        self._stack.callback(_lock(self.config))
        self._browser = _value(await self._make_browser(self.config))
        self._stack.push_async_callback(self._browser.close)
        self._broker = await self._reach()
        await self._begin()
        self._watch = asyncio.get_running_loop().create_task(self._watch_connection())

    async def _watch_connection(self) -> None:
        """The client reconnects by itself; it gives up only when its credentials are withdrawn."""
        await self._broker.connection.closed.wait()
        if not self._closing:
            self.why = problem(Code.FORBIDDEN, "The broker has withdrawn the host's credentials: mend them, restart.")
            self.failed.set()

    async def _reach(self) -> _Broker:
        connection = _value(await open_connection(settings_of(self.config, self._endpoint, f"host {self.config.host}")))
        self._stack.push_async_callback(connection.close)
        monitoring = self._endpoint.monitoring if self._endpoint is not None else None
        report = _value(await check_server(connection, monitoring))
        shard, replicas = Shard(), self.config.nats_replicas
        stream = _value(await open_stream(connection, shard, replicas))
        vault = _value(await open_vault(connection, shard, replicas))
        self.warnings = report.unverified
        self._water = HighWater(self.config.data_dir / f"{self.config.host}.high-water", stream)
        behind = await self._water.check()
        if behind is not None:
            raise error_of(behind)
        return _Broker(connection, stream, vault, report.unverified)

    async def _begin(self) -> None:
        """One incarnation: session, actors, doors, and the profiles that are ours."""
        broker, limits, shard = self._broker, self.config.limits, Shard()
        inner = StreamHosts(broker.stream, shard, self.clock, ttl_s=limits.session_ttl_s, watch_s=2 * limits.beat_s)
        hosts = WatchedHosts(inner, self._water)
        session = HostSession(
            host=self.config.host,
            incarnation=fresh_id(),
            nonce=fresh_id(),
            boot=self.clock.boot,
            state="serving",
        )
        began_ms = self.clock.now_ms()
        if not await hosts.begin(session):
            taken = f"A host named {self.config.host!r} lives on another machine: choose another name (LESSOR_HOST)."
            raise error_of(problem(Code.SETUP_FAILED, taken))
        self._hosts = hosts
        self._io = LoopIo(asyncio.get_running_loop())
        gateway = Gateway(
            broker.connection,
            self.config.host,
            self.clock,
            self._hand_in,
            self._hand_in,
            self._hand_in,
            GatewayLimits(inflight_max=limits.inflight_max, tenant_acts_per_s=limits.tenant_acts_per_s),
        )
        ports = Ports(
            clock=self.clock,
            journal=self._make_journal(broker.stream, shard),
            vault=broker.vault,
            runs=self._runs(StreamRuns(broker.stream, shard, self.clock)),
            hosts=hosts,
            browser=self._browser,
            doors=gateway,
            fresh=fresh_id,
            limits=limits,
            host=self.config.host,
            incarnation=session.incarnation,
        )
        self._gateway = gateway
        self._supervisor = SupervisorActor.start(self._io, ports, began_ms, self._told)
        # What is ours is awake before anybody can ask for it, so that a page is found again at once.
        self._tell(Wake(await ports.journal.owned_by(self.config.host)))
        await gateway.start()
        await self._water.keep()

    def _runs(self, records: Runs) -> Runs:
        source = self._source
        if source is None and self.config.runs_url is not None:
            source = HttpSource(self.config.runs_url, self.config.runs_token)
        return records if source is None else SourcedRuns(records, source, self.clock)

    def _tell(self, message: object) -> None:
        tell(self._supervisor, message)

    def _hand_in(self, call: Call | RunCall | HostCall) -> None:
        """From the gateway. Without a supervisor nobody would ever answer."""
        if not tell(self._supervisor, call):
            call.answer(Refused(error=problem(Code.MOVED, "The host is stopping: ask again.", retry_after_s=0.5)))

    def _told(self, message: ChildFailed | SessionLost) -> None:
        """From the supervisor's thread."""
        assert self._loop is not None
        self._loop.call_soon_threadsafe(self._heard, message)

    def _heard(self, message: ChildFailed | SessionLost) -> None:
        if self._closing:
            return
        if isinstance(message, ChildFailed):
            self.why = problem(
                Code.SETUP_FAILED, f"The host's supervisor failed ({message.error!r}): restart the host."
            )
            self.failed.set()
            return
        log.warning("the host's session lapsed; its pages are fenced; beginning a new one", host=self.config.host)
        self._again = asyncio.get_running_loop().create_task(self._begin_again())

    async def _begin_again(self) -> None:
        """A lapsed session is never revived: everything is dropped and found again, as after a crash."""
        await self._stop_actors()
        try:
            behind = await self._water.check()
            if behind is not None:
                raise error_of(behind)
            await self._begin()
        except (LessorError, BrokerAway) as error:
            self.why = error.problem if isinstance(error, LessorError) else problem(Code.BROKER_UNAVAILABLE, str(error))
            self.failed.set()

    async def _stop_actors(self) -> None:
        supervisor, self._supervisor = self._supervisor, None
        if supervisor is not None and supervisor.is_alive():
            supervisor.tell(Stop())
        # The actors answer what they still hold; then the doors close behind it.
        await self._gateway.stop()
        await self._io.close()

    async def drain(self, timeout_s: float = DRAIN_S_MAX) -> bool:
        """Settle, seal and close every lease and give the profiles back; False when time ran out."""
        done = asyncio.Event()
        loop = asyncio.get_running_loop()
        await self._gateway.drain()
        self._tell(DrainAll(lambda: _call(loop, done.set)))
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(done.wait(), timeout_s)
        self._drained = done.is_set()
        return self._drained

    async def close(self) -> None:
        """Stop serving. Pages that were not drained stay with their keepers, until a host or their deadline."""
        self._closing = True
        for task in (self._again, self._watch):
            if task is not None:
                task.cancel()
        if self._supervisor is not None:
            await self._stop_actors()
            if self._drained:
                # Pages that are left keep their keepers' deadline: until then nobody may take their profiles
                # over, so the session must lapse by itself.
                with contextlib.suppress(BrokerAway, TimeoutError):
                    await asyncio.wait_for(self._hosts.end(), 2)
        await self._stack.aclose()


def _call(loop: asyncio.AbstractEventLoop, then: Callable[[], object]) -> None:
    loop.call_soon_threadsafe(then)


def _value(value: T | Problem) -> T:
    if isinstance(value, Problem):
        raise error_of(value)
    return value


def _lock(config: Config) -> Callable[[], None]:
    """One process per host name and data directory; the first is named to the second."""
    path = config.data_dir / f"{config.host}.lock"
    try:
        config.data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock_fd = os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise error_of(
            problem(Code.SETUP_FAILED, f"The data directory {config.data_dir} cannot be used ({error.strerror}).")
        ) from error
    try:
        fcntl.flock(lock_fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        first = os.pread(lock_fd, 32, 0).decode(errors="replace").strip()
        os.close(lock_fd)
        raise error_of(
            problem(
                Code.SETUP_FAILED,
                f"Host {config.host!r} runs already in {config.data_dir} (pid {first}): stop it, or choose another"
                " directory.",
            )
        ) from error
    os.ftruncate(lock_fd, 0)
    os.pwrite(lock_fd, f"{os.getpid()}\n".encode(), 0)
    return lambda: os.close(lock_fd)


class Runtime:
    """Broker, host and actors inside a program of yours: `async with lessor.Runtime(config) as runtime:`.

    `source` is the application's own word on its runs (`lessor.sources`).
    `endpoint` says how workers connect. Leaving the block drains the host (at most 45 s) and ends the broker.
    """

    def __init__(self, config: Config, *, browser: BrowserMaker = chromium, source: RunSource | None = None) -> None:
        self.config, self._source = config, source
        self._browser = browser
        self._embedded: Embedded | None = None
        self.endpoint: Endpoint | None = None
        self.host: Host | None = None

    async def __aenter__(self) -> Self:
        if self.config.nats_url is None:
            self._embedded = Embedded(broker_directory(self.config))
            started = await asyncio.to_thread(self._embedded.start)
            self.endpoint = _value(started)
        try:
            self.host = Host(self.config, self.endpoint, self._browser, source=self._source)
            await self.host.open()
        except BaseException:
            await self._stop_broker()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self.host is not None
        try:
            await self.host.drain()
            await self.host.close()
        finally:
            await self._stop_broker()

    async def _stop_broker(self) -> None:
        if self._embedded is not None:
            await asyncio.to_thread(self._embedded.stop)


def broker_directory(config: Config) -> Path:
    return config.data_dir / "broker"
