"""A pykka runtime for simulated actors: one message per event, on one thread.

lessor's actors never block and never ask, so no second stack is needed: a mailbox is a queue, and
handling its first message is an event of the actor's process. The actors themselves are the real ones.
"""

from collections import deque
from collections.abc import Callable
from typing import Any, Protocol

import pykka
from pykka import ActorRegistry

from lessor.actors.bridge import LoopIo
from lessor.actors.process import Process as Actor
from lessor.actors.profile import ProfileActor
from lessor.actors.run import RunActor
from lessor.actors.supervisor import SupervisorActor
from lessor.actors.worker import WorkerSupervisor
from lessor.journal import LeaseState
from lessor.lease.verdict import Desk
from tests.simulation.clockwork import Loop, Process


class Killed(Exception):
    """The bug that an injected crash stands for."""


class Steps(Protocol):
    """Watches every message that an actor handles; may kill the actor before or after it."""

    def crashes(self, actor: Actor, message: object, when: str) -> bool: ...
    def broken(self, error: BaseException) -> None: ...


class SimulatedIo(LoopIo):
    """`Io` of a simulated process: the real one, over a loop in virtual time."""

    def __init__(self, loop: Loop, steps: Steps) -> None:
        super().__init__(loop)
        self.process: Process = loop.process
        self.steps = steps


class Mailbox:
    """`pykka`'s inbox: a queue that wakes its actor."""

    def __init__(self, wake: Callable[[], None]) -> None:
        self._queue: deque[Any] = deque()
        self._wake = wake

    def put(self, envelope: Any, /) -> None:
        self._queue.append(envelope)
        self._wake()

    def get(self) -> Any:
        return self._queue.popleft()

    def empty(self) -> bool:
        return not self._queue


class Stepped(Actor):
    """The mix-in: what `ThreadingActor` does with a thread, done with events."""

    _sim_began = False
    _sim_turning = False

    def _create_actor_inbox(self) -> Any:  # type: ignore[override]  # static there; here it needs its actor
        return Mailbox(self._sim_wake)

    def _start_actor_loop(self) -> None:
        assert isinstance(self.io, SimulatedIo)
        self._sim_process, self._sim_steps = self.io.process, self.io.steps
        self._sim_process.at_end.append(self._sim_die)
        self._sim_process.at(self._sim_moment_s(), self._sim_begin)

    def _sim_moment_s(self) -> float:
        return self._sim_process.scheduler.random.random() * 0.0002

    def _sim_begin(self) -> None:
        self._actor_loop_setup()
        self._sim_began = True
        self._sim_wake()

    def _sim_wake(self) -> None:
        if (
            self._sim_began
            and not self._sim_turning
            and not self.actor_inbox.empty()
            and not self.actor_stopped.is_set()
        ):
            self._sim_turning = True
            self._sim_process.at(self._sim_moment_s(), self._sim_turn)

    def _sim_turn(self) -> None:
        self._sim_turning = False
        if self.actor_stopped.is_set():
            return
        message = self.actor_inbox.get().message
        if self._sim_steps.crashes(self, message, "before"):
            self._fail(Killed())
        try:
            self._handle_receive(message)
        except BaseException as error:  # noqa: BLE001 -- pykka would log it and forget it
            self._sim_steps.broken(error)
        if not self.actor_stopped.is_set() and self._sim_steps.crashes(self, message, "after"):
            self._fail(Killed())
        self._sim_wake()

    def _fail(self, error: BaseException) -> None:
        """An invariant that broke is a finding, unless it was broken on purpose."""
        if not isinstance(error, Killed):
            self._sim_steps.broken(error)
        super()._fail(error)

    def _sim_die(self) -> None:
        """Killed with its process: no hook runs."""
        self.actor_stopped.set()
        ActorRegistry.unregister(self.actor_ref)


# Pyright: the inbox is made by an instance here, by the class in pykka.
class SteppedProfile(Stepped, ProfileActor):  # pyright: ignore[reportIncompatibleMethodOverride]
    @property
    def mind(self) -> tuple[Desk, LeaseState | None, bool]:
        """Desk, lease, and whether an append is under way: for whoever aims a fault at a step."""
        return self._desk, self._ledger.lease, self._busy


class SteppedSupervisor(Stepped, SupervisorActor):  # pyright: ignore[reportIncompatibleMethodOverride]
    pass


class SteppedRun(Stepped, RunActor):  # pyright: ignore[reportIncompatibleMethodOverride]
    pass


class SteppedWorker(Stepped, WorkerSupervisor):  # pyright: ignore[reportIncompatibleMethodOverride]
    pass


def alive() -> list["pykka.ActorRef[Any]"]:
    return ActorRegistry.get_all()
