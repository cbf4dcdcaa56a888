"""The base of every actor here: what a crash means, how I/O comes back, how timers work.

An exception while a message is handled means that an invariant broke: the actor stops and its
parent hears `ChildFailed`. pykka alone would keep it alive after a failing `ask`, kill it after a
failing `tell`, and say nothing of a failing `on_start`.
"""

import traceback
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import pykka
import structlog

from lessor.actors.bridge import Io, Timer

T = TypeVar("T")
log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class ChildFailed:
    """Told to the parent, last thing before the actor is gone."""

    name: str
    error: BaseException
    ref: "pykka.ActorRef[Any]"


@dataclass(frozen=True, slots=True)
class Done:
    """The completion of I/O, run in a turn of the actor."""

    run: Callable[[], None]


@dataclass(frozen=True, slots=True)
class Broken:
    """I/O that failed in a way nobody expected: a bug, like an exception in the actor itself."""

    error: BaseException


@dataclass(frozen=True, slots=True)
class Stop:
    """Stop after everything that was told before."""


class Mailbox:
    """A queue that wakes its actor. Any thread may put; only the actor gets."""

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


class Process(pykka.Actor):
    """Subclasses implement `begin` (on_start), `receive`, and `ended` (whatever must be answered or shut).

    No actor here ever blocks, so none needs a thread: each handles one message per turn of the event loop.
    """

    def __init__(self, io: Io, name: str, parent: Callable[[ChildFailed], None]) -> None:
        super().__init__()
        self.io, self.name = io, name
        self._parent = parent
        self._failed = False

    # -- for subclasses

    def begin(self) -> None:
        """First turn of the actor."""

    def receive(self, message: object) -> None:
        raise NotImplementedError

    def ended(self) -> None:
        """The actor is over, by itself or by a crash: leave nobody without an answer."""

    def unheard(self, message: object) -> None:
        """A message that came too late to be handled: whoever waits for its answer needs one. Any thread."""

    def perform(self, work: Callable[[], Awaitable[T]], then: Callable[[T], None]) -> None:
        """Start I/O on the loop; `then` runs in a turn of this actor, through the mailbox."""
        self.io.start(
            work,
            lambda value: self.post(Done(lambda: then(value))),
            lambda error: self.post(Broken(error)),
        )

    def post(self, message: object) -> None:
        """Tell this actor, from any thread; if it is gone, its journal tells the next one what matters."""
        try:
            self.actor_ref.tell(message)
        except pykka.ActorDeadError:
            log.debug("told a stopped actor", actor=self.name, message=type(message).__name__)
            self.unheard(message)

    def later(self, delay_ms: int, message: object) -> Timer:
        return self.io.later(delay_ms, lambda: self.post(message))

    # -- pykka's runtime, on the event loop

    def _create_actor_inbox(self) -> Any:  # type: ignore[override]  # static there; here it wakes its actor
        return Mailbox(self._wake)

    @staticmethod
    def _create_future() -> pykka.Future[Any]:
        return pykka.ThreadingFuture()

    _began = False
    _turning = False

    def _start_actor_loop(self) -> None:
        self.io.lives(self)
        self.io.soon(self._begin_turns)

    def _begin_turns(self) -> None:
        self._actor_loop_setup()
        self._began = True
        self._wake()

    def _wake(self) -> None:
        if self._began and not self._turning and not self.actor_inbox.empty():
            self._turning = True
            self.io.soon(self._turn)

    def _turn(self) -> None:
        """One message; what is told meanwhile waits for the next turn, and the loop serves others in between."""
        self._turning = False
        if self.actor_inbox.empty():
            return
        if self.actor_stopped.is_set():
            self._actor_loop_teardown()
            return
        envelope = self.actor_inbox.get()
        response = self._handle_receive(envelope.message)
        if envelope.reply_to is not None:
            envelope.reply_to.set(response)
        if self.actor_stopped.is_set():
            self._actor_loop_teardown()
            self.io.over(self)
        else:
            self._wake()

    # -- pykka's hooks

    def on_start(self) -> None:
        self._guarded(self.begin)

    def on_receive(self, message: Any) -> None:
        match message:
            case _ if self._failed:
                self.unheard(message)
            case Done(run=run):
                self._guarded(run)
            case Broken(error=error):
                self._fail(error)
            case Stop():
                self.stop()
            case _:
                self._guarded(lambda: self.receive(message))

    def on_stop(self) -> None:
        """Nobody can tell us anything any more; what was told before is still in the mailbox."""
        self.ended()
        kept: list[Any] = []
        while not self.actor_inbox.empty():
            envelope = self.actor_inbox.get()
            if envelope.reply_to is None:
                self.unheard(envelope.message)
            else:
                kept.append(envelope)
        for envelope in kept:
            self.actor_inbox.put(envelope)

    def _guarded(self, run: Callable[[], None]) -> None:
        try:
            run()
        except BaseException as error:  # noqa: BLE001 -- pykka would stop every actor of the process for a SystemExit
            self._fail(error)

    def _fail(self, error: BaseException) -> None:
        if self._failed:
            return
        self._failed = True
        log.error("an actor failed", actor=self.name, error=type(error).__name__, where=_where(error))
        self._parent(ChildFailed(self.name, error, self.actor_ref))
        self.stop()


def _where(error: BaseException) -> list[str]:
    """File, line and function of each frame. Messages and locals may hold what must not be logged."""
    frames = traceback.extract_tb(error.__traceback__)
    return [f"{Path(frame.filename).name}:{frame.lineno} {frame.name}" for frame in frames[-12:]]
