"""One connection to NATS, with the client's sharp edges covered (facts, NATS and nats-py).

Nothing is buffered while the broker is away, a half-open peer is noticed after 6 s, a forbidden
publish is told as such instead of running into its timeout, and no caller's cancellation is lost.
"""

import asyncio
import random
import re
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeVar

import nats.errors
import structlog
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription

from lessor.broker.credentials import Credentials, read
from lessor.errors import Code, Problem, problem
from lessor.ports import Silence

CONNECT_S_MAX: Final = 5.0
CLOSE_S_MAX: Final = 2.0
FLUSH_S_MAX: Final = 2
PING_S: Final = 2
PINGS_MAX: Final = 2
RECONNECT_S: Final = (0.1, 0.4)
"""Drawn once per connection, so that hosts do not come back in step; contract: reconnect within 4 s."""

T = TypeVar("T")
Deliver = Callable[[Msg], Awaitable[None]]
log: Final[structlog.stdlib.BoundLogger] = structlog.get_logger("lessor.broker")

_UNWELCOME: Final = "authorization violation"
_REFUSED: Final = re.compile(r'permissions violation for (publish|subscription) to "([^"]+)"')
"""The client hands the server's words on in lower case."""
_AWAY: Final = (
    nats.errors.OutboundBufferLimitError,
    nats.errors.ConnectionClosedError,
    nats.errors.ConnectionReconnectingError,
    nats.errors.ConnectionDrainingError,
)


@dataclass(frozen=True, slots=True)
class Settings:
    """Where the broker is and who we are there. Credentials come from configuration, never from argv.

    `inbox_prefix`: where replies arrive; one per user, so that the broker's permissions keep users apart.
    """

    servers: tuple[str, ...]
    name: str
    inbox_prefix: str = "_INBOX"
    token: str | None = field(default=None, repr=False)
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    credentials: Path | None = None
    """A credentials file: one of ours, or an operator's `.creds`."""

    def options(self, entering: Credentials | None = None) -> dict[str, Any]:
        """What nats-py takes, without the callbacks. `entering` is what the credentials file holds."""
        signed = entering.signed if entering is not None else None
        return {
            "servers": list(self.servers),
            "name": self.name,
            "inbox_prefix": self.inbox_prefix,
            "token": self.token,
            "user": self.user,
            "password": self.password,
            "user_credentials": str(signed) if signed is not None else None,
            "nkeys_seed_str": entering.seed if entering is not None and signed is None else None,
            "ping_interval": PING_S,
            "max_outstanding_pings": PINGS_MAX,
            "max_reconnect_attempts": -1,
            "reconnect_time_wait": random.uniform(*RECONNECT_S),
            "pending_size": 0,
            "flush_timeout": FLUSH_S_MAX,
            "connect_timeout": 2,
            "drain_timeout": 2,
        }


class Connection:
    """Requests, publishes and subscriptions on the loop. What can be expected is a `Silence`."""

    def __init__(self, client: Client, settings: Settings) -> None:
        self.client = client
        self.settings = settings
        self.closed = asyncio.Event()
        """Set when the client has given up for good (credentials withdrawn): open a new connection."""
        self._abandoned: set[asyncio.Task[Any]] = set()
        self._forbidden: dict[str, set[asyncio.Future[None]]] = {}
        self._complained: set[type[Exception]] = set()
        self._deaf = False
        self._unwelcome = False

    def __repr__(self) -> str:
        state = "closed" if self.client.is_closed else "connected" if self.connected else "away"
        return f"Connection({self.settings.name}, {state})"

    @property
    def connected(self) -> bool:
        return self.client.is_connected

    async def request(
        self, subject: str, payload: bytes, timeout_s: float, headers: dict[str, str] | None = None
    ) -> Msg | Silence:
        """Ask once. TIMEOUT: it was sent, and may still be executed; DISCONNECTED: it was not sent."""
        if self._deaf or self._unwelcome:
            return Silence.FORBIDDEN
        refused = asyncio.get_running_loop().create_future()
        told_as = subject.lower()
        waiting = self._forbidden.setdefault(told_as, set())
        waiting.add(refused)
        asking = self._start(self.client.request(subject, payload, timeout=timeout_s, headers=headers))
        try:
            await asyncio.wait({asking, refused}, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
            if refused.done():
                return Silence.FORBIDDEN
            return _outcome(asking) if asking.done() else Silence.TIMEOUT
        finally:
            asking.cancel()
            refused.cancel()
            waiting.discard(refused)
            if not waiting:
                self._forbidden.pop(told_as, None)

    async def publish(
        self, subject: str, payload: bytes, reply: str = "", headers: dict[str, str] | None = None
    ) -> Silence | None:
        """Send without waiting for anything; None when it went into the socket's buffer."""
        try:
            await self.client.publish(subject, payload, reply=reply, headers=headers)
        except _AWAY:
            return Silence.DISCONNECTED
        return None

    def send(self, subject: str, payload: bytes, reply: str = "", headers: dict[str, str] | None = None) -> None:
        """Publish from a callback on the loop, in the order of the calls. What cannot leave is dropped."""
        self._start(self.publish(subject, payload, reply, headers))

    async def flush(self) -> bool:
        """Whether the broker has seen all that was sent before; 2 s at most."""
        flushing = self._start(self.client.flush(FLUSH_S_MAX))
        await asyncio.wait({flushing}, timeout=FLUSH_S_MAX + 0.5)
        return flushing.done() and not flushing.cancelled() and flushing.exception() is None

    async def subscribe(self, subject: str, deliver: Deliver, queue: str = "") -> Subscription:
        """`deliver` gets one message after another: it must only enqueue. Survives reconnects."""
        return await self.client.subscribe(  # pyright: ignore[reportUnknownMemberType]  # a parameter of no use here
            subject, queue=queue, cb=deliver
        )

    async def close(self) -> None:
        """Within 2 s: what is in the buffer is flushed when the broker is there."""
        closing = self._start(self.client.close())
        await asyncio.wait({closing}, timeout=CLOSE_S_MAX)

    def _start(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """As a task of its own: the client swallows cancellations, so the caller never awaits it directly."""
        task = asyncio.ensure_future(work)
        self._abandoned.add(task)
        task.add_done_callback(self._settle)
        return task

    def _settle(self, task: asyncio.Task[Any]) -> None:
        self._abandoned.discard(task)
        if not task.cancelled():
            task.exception()

    async def on_error(self, error: Exception) -> None:
        """The client's error callback: names types and subjects, never payloads."""
        if _UNWELCOME in str(error).lower():
            self._leave()
            return
        told = _REFUSED.search(str(error).lower())
        if told is None:
            self._complain(error)
            return
        kind, subject = told.groups()
        log.error("forbidden by the broker", kind=kind, subject=subject)
        if kind == "publish":
            self._tell(self._forbidden.get(subject, set()))
        elif subject.startswith(f"{self.settings.inbox_prefix.lower()}."):
            self._deaf = True
            for waiting in self._forbidden.values():
                self._tell(waiting)

    def _leave(self) -> None:
        """What the broker had accepted and refuses now was withdrawn: what waits is told, nobody knocks again."""
        if not self._unwelcome:
            self._unwelcome = True
            log.error("the broker has withdrawn these credentials", name=self.settings.name)
            for waiting in self._forbidden.values():
                self._tell(waiting)
            self._start(self.client.close())

    def _tell(self, waiting: set[asyncio.Future[None]]) -> None:
        for refused in waiting:
            if not refused.done():
                refused.set_result(None)

    def _complain(self, error: Exception) -> None:
        """Once per outage and kind: a client that reconnects for ever would say it three times a second."""
        if type(error) not in self._complained:
            self._complained.add(type(error))
            log.warning("broker connection", error=type(error).__name__, detail=str(error)[:200])

    async def on_reconnected(self) -> None:
        self._complained.clear()
        log.info("broker is back", name=self.settings.name)

    async def on_closed(self) -> None:
        self.closed.set()


async def open_connection(settings: Settings, within_s: float = CONNECT_S_MAX) -> Connection | Problem:
    """Connect in time, or say why not. Afterwards the client reconnects by itself for ever."""
    entering = await asyncio.to_thread(read, settings.credentials) if settings.credentials is not None else None
    if isinstance(entering, Problem):
        return entering
    client = Client()
    connection = Connection(client, settings)
    refused = asyncio.get_running_loop().create_future()
    last: list[Exception] = []

    async def on_error(error: Exception) -> None:
        last[:] = [error]
        if connecting.done():
            await connection.on_error(error)
        elif _UNWELCOME in str(error).lower() and not refused.done():
            refused.set_result(None)

    connecting = asyncio.ensure_future(
        client.connect(
            error_cb=on_error,
            closed_cb=connection.on_closed,
            reconnected_cb=connection.on_reconnected,
            **settings.options(entering),
        )
    )
    try:
        await asyncio.wait({connecting, refused}, timeout=within_s, return_when=asyncio.FIRST_COMPLETED)
    finally:
        arrived = connecting.done() and not refused.done()
        if not arrived:
            connecting.cancel()
            await connection.close()
    if refused.done():
        return problem(Code.FORBIDDEN, "The broker refuses these credentials: correct them in the configuration.")
    if not arrived:
        cause = f" ({type(last[0]).__name__})" if last else ""
        return problem(
            Code.BROKER_UNAVAILABLE,
            f"No broker answers at {', '.join(map(_without_secret, settings.servers))}{cause}:"
            " start it, or correct the address.",
        )
    if failure := connecting.exception():
        return problem(Code.BROKER_UNAVAILABLE, f"Cannot connect to the broker: {failure}. Correct the settings.")
    return connection


def _outcome(asking: asyncio.Task[Msg]) -> Msg | Silence:
    try:
        return asking.result()
    except nats.errors.NoRespondersError:
        return Silence.NO_RESPONDERS
    except (nats.errors.TimeoutError, asyncio.CancelledError):
        return Silence.TIMEOUT
    except _AWAY:
        return Silence.DISCONNECTED


def _without_secret(url: str) -> str:
    return re.sub(r"//[^@/]*@", "//", url)
