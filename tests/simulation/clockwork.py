"""Virtual time, processes and event loops: the schedule of a whole simulated world is a function of its seed.

Nothing here runs in parallel. Everything that happens is an event with a moment on one virtual
clock; events of a dead process are dropped, those of a stopped one wait until it goes on.
"""

import asyncio
import contextvars
import heapq
import random
from asyncio import events
from collections import deque
from collections.abc import Callable
from typing import Any, Final, TypeVar, TypeVarTuple

SECOND_US: Final = 1_000_000
UNIX_MS: Final = 1_700_000_000_000
"""Wall clock at virtual time zero."""

T = TypeVar("T")
Ts = TypeVarTuple("Ts")
Run = Callable[[], object]


class Scheduler:
    """The one queue of events. Ties go to who came first."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.now_us = 0
        self.events = 0
        self.buried: list[Run] = []
        """What dead processes would have done: kept, since collecting a coroutine runs its `finally`."""
        self.processes: list[Process] = []
        self._count = 0
        self._heap: list[tuple[int, int, Process | None, Run]] = []

    @property
    def now_s(self) -> float:
        return self.now_us / SECOND_US

    @property
    def now_ms(self) -> int:
        return self.now_us // 1000

    def at(self, delay_s: float, run: Run, process: "Process | None" = None) -> None:
        """Let `run` happen after that time, in that process; None: outside of all of them."""
        self._count += 1
        moment_us = self.now_us + max(0, round(delay_s * SECOND_US))
        heapq.heappush(self._heap, (moment_us, self._count, process, run))

    def run(self, until_s: float) -> None:
        until_us = round(until_s * SECOND_US)
        while self._heap and self._heap[0][0] <= until_us:
            moment_us, count, process, run = heapq.heappop(self._heap)
            self.now_us = max(self.now_us, moment_us)
            if process is not None:
                if not process.alive:
                    self.buried.append(run)
                    continue
                if process.stopped_until_us > self.now_us:
                    heapq.heappush(self._heap, (process.stopped_until_us, count, process, run))
                    continue
            self.events += 1
            run()
        self.now_us = max(self.now_us, until_us)


class Process:
    """Something that can be killed and stopped as one."""

    def __init__(self, scheduler: Scheduler, name: str, clock: "MachineClock") -> None:
        self.scheduler, self.name, self.clock = scheduler, name, clock
        self.alive = True
        self.stopped_until_us = 0
        self.at_end: list[Run] = []
        self.loops: list[Loop] = []
        """Kept with the tasks on them: a killed process's coroutines must not be collected while the world lives."""
        scheduler.processes.append(self)

    def __repr__(self) -> str:
        return f"<Process {self.name} {'alive' if self.alive else 'dead'}>"

    @property
    def stopped(self) -> bool:
        return self.stopped_until_us > self.scheduler.now_us

    def at(self, delay_s: float, run: Run) -> None:
        self.scheduler.at(delay_s, run, self)

    def stop(self, seconds: float) -> None:
        """SIGSTOP, and SIGCONT after that time."""
        self.stopped_until_us = max(self.stopped_until_us, self.scheduler.now_us + round(seconds * SECOND_US))

    def kill(self) -> None:
        self.alive = False
        for run in self.at_end:
            run()
        self.at_end.clear()


class MachineClock:
    """`ports.Pacer` of one boot of a machine: its boot clock runs at a rate of its own."""

    def __init__(self, scheduler: Scheduler, boot: str, rate: float, offset_ms: int, wall_ms: int) -> None:
        self._scheduler, self._boot, self.rate = scheduler, boot, rate
        self._began_us, self._offset_ms, self._wall_ms = scheduler.now_us, offset_ms, wall_ms

    @property
    def boot(self) -> str:
        return self._boot

    def now_ms(self) -> int:
        return self._offset_ms + int((self._scheduler.now_us - self._began_us) * self.rate) // 1000

    def unix_ms(self) -> int:
        return UNIX_MS + self._scheduler.now_ms + self._wall_ms

    def until_s(self, boot_ms: int) -> float:
        """Virtual seconds until that moment of this clock."""
        return (boot_ms - self.now_ms()) / 1000 / self.rate

    async def wait(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class Loop(asyncio.BaseEventLoop):
    """An asyncio loop in virtual time: one callback per event, in the order in which they were made ready."""

    def __init__(self, process: Process, broken: Callable[[BaseException], None]) -> None:
        self.process, self._broken = process, broken
        super().__init__()
        self._made_ready: deque[asyncio.Handle] = deque()
        self._turning = False
        self._tasks: dict[asyncio.Task[Any], None] = {}
        process.loops.append(self)

    def time(self) -> float:
        return self.process.scheduler.now_s * self.process.clock.rate

    def call_soon(
        self, callback: Callable[[*Ts], object], *args: *Ts, context: contextvars.Context | None = None
    ) -> asyncio.Handle:
        handle = asyncio.Handle(callback, args, self, context)
        self._made_ready.append(handle)
        self._wake()
        return handle

    def call_soon_threadsafe(
        self, callback: Callable[[*Ts], object], *args: *Ts, context: contextvars.Context | None = None
    ) -> asyncio.Handle:
        return self.call_soon(callback, *args, context=context)

    def call_later(
        self, delay: float, callback: Callable[[*Ts], object], *args: *Ts, context: contextvars.Context | None = None
    ) -> asyncio.TimerHandle:
        return self.call_at(self.time() + delay, callback, *args, context=context)

    def call_at(
        self, when: float, callback: Callable[[*Ts], object], *args: *Ts, context: contextvars.Context | None = None
    ) -> asyncio.TimerHandle:
        handle = asyncio.TimerHandle(when, callback, args, self, context)
        delay_s = (when - self.time()) / self.process.clock.rate
        self.process.at(delay_s, lambda: self._due(handle))
        return handle

    def _due(self, handle: asyncio.Handle) -> None:
        if not handle.cancelled():
            self._made_ready.append(handle)
            self._wake()

    def _wake(self) -> None:
        if self._made_ready and not self._turning:
            self._turning = True
            self.process.at(self.process.scheduler.random.random() * 0.0001, self._turn)

    def _turn(self) -> None:
        self._turning = False
        handle = self._made_ready.popleft()
        if not handle.cancelled():
            self.run(handle._run)
        self._wake()

    def run(self, call: Callable[[], T]) -> T:
        """Call as if from this loop."""
        events._set_running_loop(self)
        try:
            return call()
        finally:
            events._set_running_loop(None)

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=self)

    def create_task(
        self, coro: Any, *, name: object = None, context: contextvars.Context | None = None
    ) -> asyncio.Task[Any]:
        task: asyncio.Task[Any] = asyncio.Task(coro, loop=self, context=context)
        self._tasks[task] = None
        task.add_done_callback(self._tasks.pop)
        # A killed process leaves its tasks where they are.
        task._log_destroy_pending = False  # type: ignore[attr-defined]  # asyncio's own switch, untyped
        return task

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        error = context.get("exception")
        self._broken(error if error is not None else AssertionError(context.get("message")))

    def set_debug(self, enabled: bool) -> None:
        """Its base asks for it at birth."""

    def get_debug(self) -> bool:
        return False

    def is_running(self) -> bool:
        return True

    def is_closed(self) -> bool:
        return not self.process.alive

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """Asyncio tells its loop; a cancelled timer is simply not run."""
