"""The worker's supervisor: watches its run actors, and renews all their leases with one message per host and tick."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pykka

from lessor.actors.bridge import Io, Timer
from lessor.actors.process import ChildFailed, Process, Stop
from lessor.actors.run import LeaseGone, RunActor, RunOver
from lessor.actors.talk import Talk
from lessor.limits import Limits, ms
from lessor.messages.reply import RenewedAll
from lessor.messages.request import RenewAll
from lessor.trust import Heard


@dataclass(frozen=True, slots=True)
class Begin:
    """Start a run actor; `started` gets its ref, in a turn of this actor."""

    run: str
    attempt: int
    started: "Callable[[pykka.ActorRef[RunActor]], None]"


@dataclass(frozen=True, slots=True)
class Forget:
    """The run is over in this worker."""

    ref: "pykka.ActorRef[RunActor]"


@dataclass(frozen=True, slots=True)
class _Holding:
    ref: "pykka.ActorRef[Any]"
    lease: str
    host: str | None


@dataclass(frozen=True, slots=True)
class _TickDue:
    pass


@dataclass(slots=True)
class _Child:
    leases: dict[str, str] = field(default_factory=dict[str, str])
    """Lease -> host."""


class WorkerSupervisor(Process):
    """One per client connection. Ticks only while there are leases."""

    def __init__(
        self,
        io: Io,
        talk: Talk,
        worker: str,
        limits: Limits,
        parent: Callable[[ChildFailed], None],
        runs: type[RunActor] = RunActor,
    ) -> None:
        super().__init__(io, f"worker {worker}", parent)
        self._talk, self._worker, self._limits, self._up, self._runs = talk, worker, limits, parent, runs
        self._children: dict[pykka.ActorRef[Any], _Child] = {}
        self._timer: Timer | None = None

    def __repr__(self) -> str:
        leases = sum(len(child.leases) for child in self._children.values())
        return f"<WorkerSupervisor {self._worker}: {len(self._children)} runs, {leases} leases>"

    def receive(self, message: object) -> None:
        match message:
            case Begin():
                self._begin(message)
            case Forget(ref=ref):
                self._children.pop(ref, None)
                self._tell(ref, Stop())
            case _Holding():
                self._holding(message)
            case RunOver():
                for ref in self._children:
                    self._tell(ref, message)
            case _TickDue():
                self._tick()
            case ChildFailed(ref=ref):
                # Its leases lapse; the run's next worker finds the page. The client hears of it from its slot.
                self._children.pop(ref, None)
                self._up(message)
            case _:
                raise AssertionError(message)

    def _begin(self, begin: Begin) -> None:
        box: list[pykka.ActorRef[Any]] = []

        def held(lease: str, host: str | None) -> None:
            self.post(_Holding(box[0], lease, host))

        ref = self._runs.start(self.io, self._talk, begin.run, begin.attempt, self._worker, held, self.post)
        box.append(ref)
        self._children[ref] = _Child()
        begin.started(ref)

    def _holding(self, holding: _Holding) -> None:
        child = self._children.get(holding.ref)
        if child is None:
            return
        if holding.host is None:
            child.leases.pop(holding.lease, None)
        else:
            child.leases[holding.lease] = holding.host
        self._arm()

    def _arm(self) -> None:
        if self._timer is None and any(child.leases for child in self._children.values()):
            self._timer = self.later(ms(self._limits.tick_s), _TickDue())

    def _tick(self) -> None:
        """One message per host; a host that does not answer is asked again on the next tick."""
        self._timer = None
        for host in sorted({host for child in self._children.values() for host in child.leases.values()}):
            self._renew(host)
        self._arm()

    def _renew(self, host: str) -> None:
        request = RenewAll(id=self._talk.fresh(), worker=self._worker)
        self.perform(lambda: self._talk.line.ask(self._talk.to.renew(host), request, 5.0), self._renewed)

    def _renewed(self, heard: Heard) -> None:
        if not isinstance(heard, RenewedAll):
            return
        for exception in heard.exceptions:
            for ref, child in self._children.items():
                if exception.lease in child.leases:
                    self._tell(ref, LeaseGone(exception.lease, exception.error))

    def _tell(self, ref: "pykka.ActorRef[Any]", message: object) -> None:
        if ref.is_alive():
            ref.tell(message)

    def ended(self) -> None:
        for ref in self._children:
            self._tell(ref, Stop())
