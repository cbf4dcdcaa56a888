"""Between the one event loop and the mailboxes: neither ever waits for the other."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Protocol, TypeVar

T = TypeVar("T")
STOP_TURNS_MAX = 10_000
"""How many turns of the loop actors have for their last messages."""

Work = Callable[[], Awaitable[T]]
Then = Callable[[T], None]


class Timer(Protocol):
    def cancel(self) -> None: ...


class Io(Protocol):
    """What an actor may ask of the loop. The simulator has one of its own."""

    def start(self, work: Work[T], then: Then[T], failed: Callable[[BaseException], None]) -> None:
        """Run `work` on the loop; one of the callbacks runs there, and only tells. Any thread."""
        ...

    def later(self, delay_ms: int, tell: Callable[[], None]) -> Timer:
        """Call `tell` on the loop after that time. Any thread."""
        ...

    def soon(self, run: Callable[[], None]) -> None:
        """Run it on the loop, after what is due there already. Any thread."""
        ...

    def lives(self, actor: object) -> None:
        """An actor runs on this loop from now on."""
        ...

    def over(self, actor: object) -> None:
        """It has ended: nothing of it will run any more."""
        ...


def on_loop(loop: asyncio.AbstractEventLoop, run: Callable[..., object], *given: object) -> None:
    """Run it on the loop: at once when that is where we are, else after a wake-up. Any thread."""
    if asyncio._get_running_loop() is loop:  # noqa: SLF001 -- the public form raises where there is none
        run(*given)
    else:
        loop.call_soon_threadsafe(run, *given)


class LoopTimer:
    """A timer set from any thread. Cancelling races with firing: receivers check what they get."""

    def __init__(self, loop: asyncio.AbstractEventLoop, delay_ms: int, tell: Callable[[], None]) -> None:
        self._loop, self._tell = loop, tell
        self._handle: asyncio.TimerHandle | None = None
        self._cancelled = False
        on_loop(loop, self._set, loop.time() + max(0, delay_ms) / 1000)

    def _set(self, when_s: float) -> None:
        if not self._cancelled:
            self._handle = self._loop.call_at(when_s, self._tell)

    def cancel(self) -> None:
        self._cancelled = True
        if self._handle is not None and not self._loop.is_closed():
            on_loop(self._loop, self._handle.cancel)


class LoopIo:
    """The real thing, over a running asyncio loop. `close` cancels what still runs."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._tasks: dict[asyncio.Task[None], None] = {}
        """In the order in which they began."""
        self._closed = False
        self._actors: set[object] = set()

    def start(self, work: Work[T], then: Then[T], failed: Callable[[BaseException], None]) -> None:
        if not self._loop.is_closed():
            on_loop(self._loop, self._spawn, work, then, failed)

    def soon(self, run: Callable[[], None]) -> None:
        if self._loop.is_closed():
            return
        if asyncio._get_running_loop() is self._loop:  # noqa: SLF001 -- the public form raises where there is none
            self._loop.call_soon(run)
        else:
            self._loop.call_soon_threadsafe(run)

    def _spawn(self, work: Work[T], then: Then[T], failed: Callable[[BaseException], None]) -> None:
        if self._closed:
            return
        task = self._loop.create_task(self._run(work, then, failed))
        self._tasks[task] = None
        task.add_done_callback(self._tasks.pop)

    async def _run(self, work: Work[T], then: Then[T], failed: Callable[[BaseException], None]) -> None:
        try:
            value = await work()
        except asyncio.CancelledError:
            raise
        except Exception as error:  # noqa: BLE001 -- whatever it is, the actor that started it must hear of it
            failed(error)
        else:
            then(value)

    def later(self, delay_ms: int, tell: Callable[[], None]) -> LoopTimer:
        return LoopTimer(self._loop, delay_ms, tell)

    def lives(self, actor: object) -> None:
        self._actors.add(actor)

    def over(self, actor: object) -> None:
        self._actors.discard(actor)

    async def close(self) -> None:
        """Let actors that were told to stop do so, cancel what still runs, and wait for it, at most 2 s."""
        for _ in range(STOP_TURNS_MAX):
            if not self._actors:
                break
            await asyncio.sleep(0)
        self._closed = True
        tasks = [task for task in self._tasks if task is not asyncio.current_task()]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=2)


class Slot:
    """A reply slot that a coroutine awaits and any thread answers, once."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._future: asyncio.Future[object] = loop.create_future()

    def set(self, value: object) -> None:
        if not self._loop.is_closed():
            on_loop(self._loop, self._resolve, value)

    def _resolve(self, value: object) -> None:
        if not self._future.done():
            self._future.set_result(value)

    async def get(self, timeout_s: float) -> object | None:
        """The answer, or None when there was none in time."""
        done, _ = await asyncio.wait({self._future}, timeout=timeout_s)
        return self._future.result() if done else None
