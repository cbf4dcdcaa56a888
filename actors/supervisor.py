"""The host's supervisor: routes what any host may answer, starts and restarts owners, beats, sweeps.

It asks nobody and never blocks: children are told, I/O comes back as messages. Restart intensity
is data: at most `restarts_max` in `restarts_s`, with backoff; then the profile is quarantined.
"""

import random
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import msgspec
import pykka

from lessor.actors.bridge import Io, Timer
from lessor.actors.process import ChildFailed, Process, Stop
from lessor.actors.profile import ProfileActor
from lessor.actors.quarantine import quarantine
from lessor.actors.runs import serve
from lessor.actors.words import (
    Beat,
    DrainAll,
    MayStart,
    Ports,
    RenewNow,
    RenewTick,
    Rested,
    Standing,
    Sweep,
    WantBrowser,
)
from lessor.errors import Code, problem
from lessor.lease.capacity import Capacity
from lessor.lease.verdict import Drain
from lessor.limits import ms
from lessor.messages.ids import ProfileKey
from lessor.messages.reply import (
    Listed,
    Refused,
    RenewalException,
    RenewedAll,
    RunsListed,
    RunTold,
)
from lessor.messages.request import Acquire, CreateProfile, ListProfiles, ListRuns, RenewAll
from lessor.messages.run import ApprovalState, RunReading, RunRecord
from lessor.ports import BrokerAway, Call, HostCall, RunCall

BACKOFF_MS_FIRST = 50
BACKOFF_MS_MAX = 5000
RENEWALS_AT_ONCE = 128
RENEWALS_APART_MS = 250


@dataclass(slots=True)
class Child:
    """An owner under supervision. `ref` is None while it waits to be started again."""

    ref: "pykka.ActorRef[Any] | None"
    failures_ms: deque[int] = field(default_factory=deque[int])
    waiting: list[Call] = field(default_factory=list[Call])
    standing: Standing | None = None


@dataclass(frozen=True, slots=True)
class Wake:
    """Activate these profiles: their `own` names this host."""

    keys: tuple[ProfileKey, ...]


@dataclass(frozen=True, slots=True)
class SessionLost:
    """Told upwards: this host's session lapsed; every page is fenced, a new incarnation must begin."""


@dataclass(frozen=True, slots=True)
class _BeatDue:
    pass


@dataclass(frozen=True, slots=True)
class _SweepDue:
    pass


@dataclass(frozen=True, slots=True)
class _Restart:
    key: ProfileKey


@dataclass(slots=True)
class _Tick:
    """A worker's tick in hand: answered when every owner has said its part."""

    call: HostCall
    left: int
    exceptions: list[RenewalException] = field(default_factory=list[RenewalException])
    low: "list[pykka.ActorRef[Any]]" = field(default_factory=list["pykka.ActorRef[Any]"])
    """Owners whose lease has little time left."""


class SupervisorActor(Process):
    """One per host incarnation."""

    def __init__(
        self,
        io: Io,
        ports: Ports,
        began_ms: int,
        parent: Callable[[ChildFailed | SessionLost], None],
        owner: type[ProfileActor] = ProfileActor,
    ) -> None:
        super().__init__(io, f"supervisor {ports.host}", parent)
        self.ports, self._up, self._owner = ports, parent, owner
        self._until_ms = began_ms + ms(ports.limits.keeper_s)
        self._children: dict[ProfileKey, Child] = {}
        self._capacity = Capacity(ports.limits)
        self._sweep_timer: Timer | None = None
        self._drained: Callable[[], None] | None = None
        self._draining = False

    def __repr__(self) -> str:
        return f"<SupervisorActor {self.ports.host}: {len(self._children)} profiles>"

    def begin(self) -> None:
        self.later(ms(self.ports.limits.beat_s), _BeatDue())

    def receive(self, message: object) -> None:
        match message:
            case Call():
                self._route(message)
            case RunCall():
                self.perform(lambda: serve(self.ports, message), lambda told: self._run_told(message, told))
            case HostCall():
                self._host_call(message)
            case Rested():
                self._rested(message)
            case WantBrowser(key=key, ref=ref, instance=instance):
                refused = self._capacity.ask(key, self.ports.clock.now_ms())
                self._tell(ref, MayStart(instance, refused))
            case Standing():
                self._stands(message)
            case ChildFailed():
                self._child_failed(message)
            case Wake(keys=keys):
                for key in keys:
                    if key not in self._children:
                        self._start(key, Child(None))
            case _Restart(key=key):
                self._restart(key)
            case DrainAll(done=done):
                self._drained, self._draining = done, True
                for child in self._children.values():
                    if child.ref is not None:
                        self._tell(child.ref, Drain())
                self._if_drained()
            case _BeatDue():
                self.perform(self.ports.hosts.beat, self._beaten)
            case _SweepDue():
                self._sweep()
            case _TickPart():
                self._tick_part(message)
            case _RenewGroup():
                self._renew_group(message)
            case _:
                raise AssertionError(message)

    # -- children

    def _route(self, call: Call) -> None:
        child = self._children.get(call.key)
        if child is None and self._draining:
            # Calls of a profile that was just given back come up again: they must not bring it back here.
            stopping = problem(Code.MOVED, "The host is stopping: ask again.", retry_after_s=0.5)
            call.answer(Refused(error=stopping, effect=stopping.effect))
            return
        if child is None:
            child = Child(None)
            self._start(call.key, child, None if isinstance(call.request, CreateProfile) else call.caller.principal)
        if isinstance(call.request, Acquire) and self._queues_full(call.key, child, call.request):
            full = problem(Code.OVERLOADED, "Too many runs of the tenant wait here: try later.", retry_after_s=5)
            call.answer(Refused(error=full, effect=full.effect))
            return
        if child.ref is None:
            child.waiting.append(call)
            return
        self._tell(child.ref, call)

    def _queues_full(self, key: ProfileKey, child: Child, acquire: Acquire) -> bool:
        """Whether this acquire would take one place more than the tenant may have; who has one keeps it."""
        here = child.standing
        if here is None or here.run in (None, acquire.run) or acquire.run in here.waiting:
            return False
        standings = (one.standing for other, one in self._children.items() if other.tenant == key.tenant)
        waiting = sum(len(one.waiting) for one in standings if one is not None)
        return waiting >= self.ports.limits.tenant_queue_max

    def _stands(self, standing: Standing) -> None:
        child = self._children.get(standing.key)
        if child is not None:
            child.standing = standing
        if standing.live is True:
            self._capacity.found(standing.key)
        elif standing.live is False:
            self._capacity.free(standing.key)

    def _tell(self, ref: "pykka.ActorRef[Any]", message: object) -> None:
        try:
            ref.tell(message)
        except pykka.ActorDeadError:
            match message:
                case Call():
                    gone = problem(Code.MOVED, "The profile's owner is being restarted: ask again.", retry_after_s=0.2)
                    message.answer(Refused(error=gone, effect=gone.effect))
                case RenewTick():
                    message.answer(None, None)
                case _:
                    pass

    def _start(self, key: ProfileKey, child: Child, asker: str | None = None) -> None:
        child.ref = self._owner.start(self.io, self.ports, key, self._until_ms, self.post, asker)
        self._children[key] = child
        waiting, child.waiting = child.waiting, []
        for call in waiting:
            self._tell(child.ref, call)
        if self._draining:
            self._tell(child.ref, Drain())
        self._arm_sweep()

    def _rested(self, rested: Rested) -> None:
        """Calls that were told before this reach us again, through the actor; then it may go."""
        child = self._children.get(rested.key)
        if child is not None and child.ref == rested.ref:
            del self._children[rested.key]
            self._capacity.free(rested.key)
        self._tell(rested.ref, Stop())
        self._if_drained()

    def _if_drained(self) -> None:
        if self._drained is not None and not self._children:
            done, self._drained = self._drained, None
            done()

    def _child_failed(self, failed: ChildFailed) -> None:
        found = next(((key, child) for key, child in self._children.items() if child.ref == failed.ref), None)
        if found is None:
            return
        key, child = found
        child.ref = None
        now_ms, limits = self.ports.clock.now_ms(), self.ports.limits
        child.failures_ms.append(now_ms)
        while child.failures_ms and child.failures_ms[0] < now_ms - ms(limits.restarts_s):
            child.failures_ms.popleft()
        if len(child.failures_ms) > limits.restarts_max:
            self._give_up(key, child)
            return
        backoff_ms = min(BACKOFF_MS_FIRST * 2 ** (len(child.failures_ms) - 1), BACKOFF_MS_MAX)
        # The first restart is at once: a single crash must not cost its callers a wait.
        delay_ms = 0 if len(child.failures_ms) == 1 else round(backoff_ms * random.uniform(0.8, 1.2))
        self.later(delay_ms, _Restart(key))

    def _restart(self, key: ProfileKey) -> None:
        child = self._children.get(key)
        if child is not None and child.ref is None:
            self._start(key, child)

    def _give_up(self, key: ProfileKey, child: Child) -> None:
        """A crash loop of one profile never touches another; its end is written where the next host reads it."""

        def written(_: None) -> None:
            del self._children[key]
            self._capacity.free(key)
            self._if_drained()
            for call in child.waiting:
                # Answered from what is written, by an activation that sees who may hear of it.
                self._route(call)

        # Until it is on record the profile stays in the table without an owner: a call must not start another one.
        self.perform(lambda: quarantine(self.ports, key), written)

    # -- runs and host calls

    def _run_told(self, call: RunCall, told: tuple[Refused | RunTold, RunReading | None]) -> None:
        reply, seen = told
        call.answer(reply)
        if seen is not None:
            # An ended run's lease is torn down at once in the same process (contract, numbers).
            for key, child in self._children.items():
                if key.tenant == call.key.tenant and child.ref is not None:
                    self._tell(child.ref, seen)

    def _host_call(self, call: HostCall) -> None:
        match call.request:
            case RenewAll() as renew:
                self._renew_all(call, renew)
            case ListProfiles():
                self.perform(lambda: self._listed(call), call.answer)
            case ListRuns() as asked:
                self.perform(lambda: self._runs(call, asked), call.answer)

    async def _listed(self, call: HostCall) -> Listed | Refused:
        try:
            owned = await self.ports.journal.profiles(call.caller.tenant)
        except BrokerAway:
            return Refused(error=problem(Code.BROKER_UNAVAILABLE, "The broker does not answer: ask again."))
        there = [(key, own) for key, own in owned if own.state != "deleted"]
        mine = [(key.profile, own.state) for key, own in there if own.principal == call.caller.principal]
        return Listed(
            profiles=tuple(sorted(profile for profile, _ in mine)),
            active=tuple(sorted(profile for profile, state in mine if state == "active")),
        )

    async def _runs(self, call: HostCall, asked: ListRuns) -> RunsListed | Refused:
        try:
            readings = await self.ports.runs.of_tenant(call.caller.tenant)
        except BrokerAway:
            return Refused(error=problem(Code.BROKER_UNAVAILABLE, "The broker does not answer: ask again."))
        mine = [
            RunTold(run=reading.run, revision=reading.revision, record=_brief(reading.record))
            for reading in readings
            if reading.record is not None and reading.record.principal == call.caller.principal
            if not (asked.open_only and reading.record.status.ended)
        ]
        return RunsListed(runs=tuple(mine[: asked.limit]), more=len(mine) > asked.limit)

    def _renew_all(self, call: HostCall, renew: RenewAll) -> None:
        refs = [
            child.ref
            for key, child in self._children.items()
            if key.tenant == call.caller.tenant and child.ref is not None
        ]
        tick = _Tick(call, len(refs) + 1)
        message = RenewTick(
            worker=renew.worker,
            principal=call.caller.principal,
            tenant=call.caller.tenant,
            excepted=renew.except_,
            answer=lambda exception, low: self.post(_TickPart(tick, exception, low)),
        )
        for ref in refs:
            self._tell(ref, message)
        self._tick_part(_TickPart(tick, None, None))

    def _tick_part(self, part: "_TickPart") -> None:
        tick = part.tick
        tick.left -= 1
        if part.exception is not None:
            tick.exceptions.append(part.exception)
        if part.low is not None:
            tick.low.append(part.low)
        if tick.left:
            return
        tick.call.answer(RenewedAll(clock_ms=self.ports.clock.now_ms(), exceptions=tuple(tick.exceptions)))
        # Thousands may be due at once: in groups, since nothing else of this host is appended behind all of them.
        assert isinstance(tick.call.request, RenewAll)
        for number, first in enumerate(range(0, len(tick.low), RENEWALS_AT_ONCE)):
            group = _RenewGroup(tick.call.request.worker, tuple(tick.low[first : first + RENEWALS_AT_ONCE]))
            if number:
                self.later(number * RENEWALS_APART_MS, group)
            else:
                self._renew_group(group)

    def _renew_group(self, group: "_RenewGroup") -> None:
        for ref in group.refs:
            self._tell(ref, RenewNow(group.worker))

    # -- beats and sweeps

    def _beaten(self, sent_ms: int | None) -> None:
        if sent_ms is None:
            self._up(SessionLost())
            return
        self.later(ms(self.ports.limits.beat_s), _BeatDue())
        self._until_ms = sent_ms + ms(self.ports.limits.keeper_s)
        for child in self._children.values():
            if child.ref is not None:
                self._tell(child.ref, Beat(self._until_ms))

    def _arm_sweep(self) -> None:
        """One tick a minute, armed only while there are owners."""
        if self._sweep_timer is None and self._children:
            self._sweep_timer = self.later(ms(self.ports.limits.tick_s), _SweepDue())

    def _sweep(self) -> None:
        self._sweep_timer = None
        for child in self._children.values():
            if child.ref is not None:
                self._tell(child.ref, Sweep())
        self._arm_sweep()

    def unheard(self, message: object) -> None:
        if isinstance(message, Call | RunCall | HostCall):
            message.answer(Refused(error=problem(Code.MOVED, "The host is stopping: ask again.", retry_after_s=0.5)))

    def ended(self) -> None:
        """Stop the owners without touching their pages: keepers outlive the host."""
        for child in self._children.values():
            if child.ref is not None:
                self._tell(child.ref, Stop())


def _brief(record: RunRecord) -> RunRecord:
    """For a list: the open questions, not the answered ones nor the grants."""
    pending = tuple(one for one in record.approvals if one.state is ApprovalState.PENDING)
    return msgspec.structs.replace(record, approvals=pending, grants=())


@dataclass(frozen=True, slots=True)
class _TickPart:
    tick: _Tick
    exception: RenewalException | None
    low: "pykka.ActorRef[Any] | None"


@dataclass(frozen=True, slots=True)
class _RenewGroup:
    worker: str
    refs: "tuple[pykka.ActorRef[Any], ...]"
