"""From subject to mailbox and back: decode, hand over, answer (architecture, One action, steps 1 and 2).

Handlers run on the event loop one after another and only enqueue. Payloads are never logged.
"""

import asyncio
import time
from collections.abc import Callable, Coroutine, Hashable
from dataclasses import dataclass
from typing import Final

import structlog
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription

from lessor.broker import subjects
from lessor.broker.connection import Connection
from lessor.broker.service import Registration
from lessor.broker.slot import Pace, Room, Slot, bounded
from lessor.broker.subjects import Asked, ToHost, ToList, ToProfile, ToRun
from lessor.errors import Code, Problem, problem
from lessor.messages import wire
from lessor.messages.ids import ProfileKey
from lessor.messages.reply import Refused, Reply
from lessor.messages.request import LIST_VERBS, RUN_VERBS, VERBS, Act, PageRequest, RenewAll, Request
from lessor.ports import Answer, Call, Clock, HostCall, RunCall

HOPS_MAX: Final = 3
PATIENCE_S_MAX: Final = 120.0
STOP_S_MAX: Final = 5.0
_HOPS: Final = "Lessor-Hops"
_HOPS_KNOWN: Final = tuple(str(hops) for hops in range(HOPS_MAX + 1))
"""Anybody can set a header: whatever is not one of ours counts as enough."""

Deliver = Callable[[Call], None]
log: Final[structlog.stdlib.BoundLogger] = structlog.get_logger("lessor.broker")


@dataclass(frozen=True, slots=True)
class Limits:
    """How many requests may be in hand at once; what comes above is `overloaded`."""

    inflight_max: int = 1024
    per_profile_max: int = 64
    """Per profile or run and caller, so that nobody can crowd the holder out."""
    tenant_acts_per_s: float = 500.0
    """Acts of one tenant; so many may come at once."""
    per_caller_max: int = 512
    """Of one tenant's principal, so that it cannot take the host's whole room under many names."""
    grace_s: float = 5.0
    """How long behind its caller's patience an unanswered request still counts."""


class Gateway:
    """One host's doors. `to_profile`, `to_runs`, `to_host` take a call and return at once: they only enqueue.

    `open` and `shut` are `ports.Doors` and may be called from any thread; the rest belongs to the loop.
    """

    def __init__(
        self,
        connection: Connection,
        host: str,
        clock: Clock,
        to_profile: Deliver,
        to_runs: Callable[[RunCall], None],
        to_host: Callable[[HostCall], None],
        limits: Limits = Limits(),  # immutable
    ) -> None:
        self._connection = connection
        self._host = host
        self._clock = clock
        self._to_profile = to_profile
        self._to_runs = to_runs
        self._to_host = to_host
        self._grace_s = limits.grace_s
        self._pace = Pace(limits.tenant_acts_per_s)
        self._room = Room(limits.inflight_max, limits.per_profile_max, limits.per_caller_max)
        self._loop = asyncio.get_running_loop()
        served = subjects.ANY_HOST | {"renew": subjects.renewals_of(host)}
        self._registration = Registration(connection, host, served)
        self._shared: list[Subscription] = []
        self._own: list[Subscription] = []
        self._routes: dict[tuple[ProfileKey, int], asyncio.Task[Subscription]] = {}
        self._shutting: set[asyncio.Task[None]] = set()

    def __repr__(self) -> str:
        return f"Gateway({self._host}, {len(self._routes)} routes, {self._room.inflight} in hand)"

    async def start(self) -> None:
        """Serve; returns when the broker knows all subscriptions."""
        subscribe = self._connection.subscribe
        self._own.append(await subscribe(subjects.renewals_of(self._host), self._arrived))
        self._own.append(await subscribe(subjects.forwarded_to(self._host), self._forwarded))
        for subject in subjects.ANY_HOST.values():
            self._shared.append(await subscribe(subject, self._arrived, subjects.QUEUE))
        self._shared += await self._registration.start()
        await self._connection.flush()

    async def drain(self) -> None:
        """Take no more questions on any-host subjects; routes, renewals and forwarded requests go on."""
        await self._unsubscribe(self._shared)

    async def stop(self) -> bool:
        """Close all doors, wait 5 s at most for what is in hand; False when something was left unanswered."""
        ends = self._loop.time() + STOP_S_MAX
        for key, epoch in list(self._routes):
            self._shut(key, epoch)
        closing = {asyncio.ensure_future(self._unsubscribe(doors)) for doors in (self._shared, self._own)}
        await asyncio.wait(closing | self._shutting, timeout=STOP_S_MAX)
        emptied = await self._room.emptied(ends - self._loop.time())
        await self._connection.flush()
        return emptied

    def open(self, key: ProfileKey, principal: str, epoch: int, deliver: Deliver) -> str:
        """The subscription goes out before any answer that names the route: they take the same way."""
        route = subjects.route(key, principal, epoch)
        self._loop.call_soon_threadsafe(self._open, key, epoch, f"{route}.*", deliver)
        return route

    def shut(self, key: ProfileKey, epoch: int) -> None:
        self._loop.call_soon_threadsafe(self._shut, key, epoch)

    def _open(self, key: ProfileKey, epoch: int, subject: str, deliver: Deliver) -> None:
        async def arrived(message: Msg) -> None:
            self._take(message, message.subject, deliver)

        if (key, epoch) not in self._routes:
            opening = asyncio.ensure_future(self._connection.subscribe(subject, arrived))
            self._routes[key, epoch] = opening

    def _shut(self, key: ProfileKey, epoch: int) -> None:
        opening = self._routes.pop((key, epoch), None)
        if opening is not None:
            shutting = asyncio.ensure_future(self._close_route(opening))
            self._shutting.add(shutting)
            shutting.add_done_callback(self._shutting.discard)

    async def _close_route(self, opening: asyncio.Task[Subscription]) -> None:
        await self._unsubscribe([await opening])

    async def _unsubscribe(self, subscriptions: list[Subscription]) -> None:
        """With what has already arrived delivered; a connection that is away forgets them by itself."""
        drain: Callable[[Subscription], Coroutine[None, None, None]] = Subscription.drain
        work = {asyncio.ensure_future(drain(subscription)) for subscription in subscriptions}
        subscriptions.clear()
        if work:
            done, late = await asyncio.wait(work, timeout=STOP_S_MAX)
            for task in late:
                task.cancel()
            for task in done:
                task.exception()

    async def _arrived(self, message: Msg) -> None:
        self._take(message, message.subject, self._to_profile)

    async def _forwarded(self, message: Msg) -> None:
        if len(message.subject.split(".", 3)) == 4:
            self._take(message, subjects.unforward(message.subject), self._to_profile)

    def _take(self, message: Msg, subject: str, deliver: Deliver) -> None:
        if message.reply and not subjects.may_answer(subject, message.reply):
            log.warning("a request was dropped: the answer would not go to its asker", subject=subject[:200])
            return
        asked = subjects.parse(subject)
        request = _decode(asked, message.data)
        if asked is None or isinstance(request, Problem):
            assert isinstance(request, Problem)
            self._refuse(message, asked, request)
            return
        if isinstance(request, Act) and not self._pace.take(asked.caller.tenant, self._loop.time()):
            told = problem(Code.OVERLOADED, "The tenant acts too often: send fewer acts a second.", retry_after_s=1.0)
            self._refuse(message, asked, told)
            return
        key = _key(asked)
        if not self._room.take(asked.caller, key):
            told = problem(Code.OVERLOADED, "Too many requests are in hand: ask again later.", retry_after_s=0.5)
            self._refuse(message, asked, told)
            return
        slot = self._slot(message, asked, key, request)
        try:
            self._hand_over(asked, request, slot.answer, self._forwarder(message, subject, slot), deliver)
        except Exception as error:  # noqa: BLE001 -- a dead mailbox is its supervisor's matter; nobody waits for it
            # No traceback: renderers print locals, and the request is one.
            why = type(error).__name__
            log.error("a request could not be handed over", subject=subject, error=why)  # noqa: TRY400
            told = problem(Code.MOVED, "The profile is being moved: ask any host again.", retry_after_s=0.5)
            slot.answer(Refused(error=told))

    def _hand_over(
        self,
        asked: Asked,
        request: object,
        answer: Answer,
        forward: Callable[[str], None],
        deliver: Deliver,
    ) -> None:
        now = self._clock.now_ms()
        match asked:
            case ToProfile(caller, key, verb):
                assert isinstance(request, VERBS[verb])
                deliver(Call(caller, key, request, now, answer, forward))
            case ToRun(caller, key, verb):
                assert isinstance(request, RUN_VERBS[verb])
                self._to_runs(RunCall(caller, key, request, now, answer))
            case ToHost(caller):
                assert isinstance(request, RenewAll)
                self._to_host(HostCall(caller, request, now, answer))
            case ToList(caller, verb):
                assert isinstance(request, LIST_VERBS[verb])
                self._to_host(HostCall(caller, request, now, answer))

    def _slot(self, message: Msg, asked: Asked, key: Hashable, request: object) -> Slot:
        counts = self._registration.counts[_endpoint(asked)]
        began_ns = time.monotonic_ns()

        def done(error: str | None) -> None:
            self._room.give_back(asked.caller, key)
            counts.answered(time.monotonic_ns() - began_ns, error)

        return Slot(self._connection, message.reply, self._patience_s(request) + self._grace_s, done)

    def _patience_s(self, request: object) -> float:
        """How long the caller waits at most, by its budget or by its deadline on our clock."""
        patience_s = request.budget_s if isinstance(request, Request) else 0.0
        if isinstance(request, PageRequest):
            patience_s = max(patience_s, (request.deadline_ms - self._clock.now_ms()) / 1000)
        return min(PATIENCE_S_MAX, patience_s)

    def _forwarder(self, message: Msg, subject: str, slot: Slot) -> Callable[[str], None]:
        """Two hosts that each take the other for the owner must not play ball for ever."""
        word = (message.headers or {}).get(_HOPS, "0")
        hops = int(word) if word in _HOPS_KNOWN else HOPS_MAX

        def forward(host: str) -> None:
            if hops >= HOPS_MAX:
                told = problem(Code.MOVED, "The profile is changing hands: ask again.", retry_after_s=0.5)
                slot.answer(Refused(error=told))
            else:
                slot.pass_on(subjects.forward(host, subject), message.data, {_HOPS: str(hops + 1)})

        return forward

    def _refuse(self, message: Msg, asked: Asked | None, told: Problem) -> None:
        if asked is not None:
            self._registration.counts[_endpoint(asked)].answered(0, str(told.code))
        if message.reply:
            self._connection.send(message.reply, bounded(Refused(error=told)))


def _decode(asked: Asked | None, body: bytes) -> Request[Reply] | Problem:
    match asked:
        case None:
            return problem(Code.INVALID_REQUEST, "A name in the subject is not a valid name.")
        case ToProfile(verb=verb) if verb in VERBS:
            return wire.decode_request(body, VERBS[verb])
        case ToRun(verb=verb) if verb in RUN_VERBS:
            return wire.decode_request(body, RUN_VERBS[verb])
        case ToHost():
            return wire.decode_request(body, RenewAll)
        case ToList(verb=verb):
            return wire.decode_request(body, LIST_VERBS[verb])
        case ToProfile() | ToRun():
            known = ", ".join(VERBS if isinstance(asked, ToProfile) else RUN_VERBS)
            return problem(Code.INVALID_REQUEST, f"The last word of the subject must be one of {known}.")


def _endpoint(asked: Asked) -> str:
    match asked:
        case ToProfile():
            return "profile"
        case ToRun():
            return "run"
        case ToHost():
            return "renew"
        case ToList(verb=verb):
            return verb


def _key(asked: Asked) -> Hashable:
    """Whose share of the room a request takes."""
    match asked:
        case ToProfile(caller=caller, key=key) | ToRun(caller=caller, key=key):
            return caller, key
        case ToHost(caller=caller) | ToList(caller=caller):
            return caller, None
