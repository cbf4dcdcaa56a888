"""What a crash of an actor means, how I/O and timers come back, and that nobody waits for a dead actor."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import cast

import pykka
import pytest

from lessor.actors.bridge import LoopIo, Slot
from lessor.actors.process import ChildFailed, Process, Stop


@dataclass(frozen=True)
class Ask:
    """Answered with its word."""

    word: str
    answer: Callable[[object], None]


class Boom(Exception):
    pass


class Subject(Process):
    """Answers, breaks when told an exception, and says what it left unheard."""

    def __init__(
        self,
        io: LoopIo,
        parent: Callable[[ChildFailed], None],
        fails: BaseException | None,
        born: "Callable[[Subject], None]",
    ) -> None:
        super().__init__(io, "subject", parent)
        self.fails = fails
        born(self)

    def begin(self) -> None:
        if self.fails is not None:
            raise self.fails

    def receive(self, message: object) -> None:
        match message:
            case BaseException():
                raise message
            case Ask(word=word, answer=answer):
                answer(word)
            case _:
                raise AssertionError(message)

    def unheard(self, message: object) -> None:
        if isinstance(message, Ask):
            message.answer("unheard")


@dataclass
class Bench:
    io: LoopIo
    failures: "asyncio.Queue[ChildFailed]"
    loop: asyncio.AbstractEventLoop
    born: list[Subject] = field(default_factory=list[Subject])

    @property
    def subject(self) -> Subject:
        """The last one started: for what other threads do with an actor itself."""
        return self.born[-1]

    def parent(self, failed: ChildFailed) -> None:
        self.loop.call_soon_threadsafe(self.failures.put_nowait, failed)

    def start(self, fails: BaseException | None = None) -> "pykka.ActorRef[Subject]":
        return Subject.start(self.io, self.parent, fails, self.born.append)

    async def failure(self) -> ChildFailed:
        async with asyncio.timeout(5):
            return await self.failures.get()

    async def ask(self, ref: "pykka.ActorRef[Subject]", word: str) -> object:
        slot = Slot(self.loop)
        ref.tell(Ask(word, slot.set))
        return await slot.get(5)


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    loop = asyncio.get_running_loop()
    bench = Bench(LoopIo(loop), asyncio.Queue(), loop)
    yield bench
    await bench.io.close()


@pytest.mark.parametrize(
    "error", [Boom("broken"), SystemExit(1), KeyboardInterrupt()], ids=lambda one: type(one).__name__
)
async def test_a_failing_message_stops_its_actor_alone_and_tells_the_parent(bench: Bench, error: BaseException) -> None:
    other, broken = bench.start(), bench.start()
    broken.tell(error)
    failed = await bench.failure()
    assert (failed.error, failed.ref, failed.name) == (error, broken, "subject")
    await asyncio.to_thread(broken.actor_stopped.wait, 5)
    assert not broken.is_alive()
    assert await bench.ask(other, "still here") == "still here"
    other.tell(Stop())


async def test_a_failing_start_is_told_like_any_other_failure(bench: Bench) -> None:
    error = Boom("at the start")
    ref = bench.start(error)
    failed = await bench.failure()
    assert (failed.error, failed.ref) == (error, ref)
    await asyncio.to_thread(ref.actor_stopped.wait, 5)


async def test_what_waits_behind_a_failure_is_answered_and_never_handled(bench: Bench) -> None:
    ref = bench.start()
    slots = [Slot(bench.loop) for _ in range(50)]
    ref.tell(Boom("first"))
    for slot in slots:
        bench.subject.post(Ask("late", slot.set))
    assert [await slot.get(5) for slot in slots] == ["unheard"] * 50
    await bench.failure()
    assert bench.failures.empty(), "one failure is told once"


async def test_told_before_the_stop_is_handled_and_after_it_unheard(bench: Bench) -> None:
    ref = bench.start()
    before, after = Slot(bench.loop), Slot(bench.loop)
    ref.tell(Ask("heard", before.set))
    ref.tell(Stop())
    assert await before.get(5) == "heard"
    await asyncio.to_thread(ref.actor_stopped.wait, 5)
    bench.subject.post(Ask("late", after.set))
    assert await after.get(5) == "unheard"


async def test_io_comes_back_through_the_mailbox_and_its_failure_is_the_actors(bench: Bench) -> None:
    bench.start()
    thread = Slot(bench.loop)

    async def work() -> str:
        return "done"

    async def fails() -> str:
        raise Boom("on the loop")

    def then(value: str) -> None:
        thread.set((value, threading.current_thread()))

    bench.subject.perform(work, then)
    value, ran_in = cast("tuple[str, threading.Thread]", await thread.get(5))
    assert value == "done"
    assert ran_in is threading.current_thread(), "actors take their turns on the event loop"
    bench.subject.perform(fails, then)
    assert isinstance((await bench.failure()).error, Boom)


async def test_a_timer_tells_its_actor_once_and_a_cancelled_one_never(bench: Bench) -> None:
    ref = bench.start()
    cancelled, kept = Slot(bench.loop), Slot(bench.loop)
    timer = bench.subject.later(30, Ask("cancelled", cancelled.set))
    timer.cancel()
    bench.subject.later(60, Ask("kept", kept.set))
    assert await kept.get(5) == "kept"
    assert await cancelled.get(0) is None
    ref.tell(Stop())


async def test_an_answer_slot_takes_the_first_answer_and_its_wait_is_bounded() -> None:
    slot = Slot(asyncio.get_running_loop())
    assert await slot.get(0.01) is None
    slot.set("first")
    slot.set("second")
    assert await slot.get(5) == "first"
