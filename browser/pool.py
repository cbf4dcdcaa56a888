"""A browser started in advance: at most `warm_max`, until `warm_s` after the last close (architecture, Processes)."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from lessor.browser.connection import Connection
from lessor.browser.keeper.client import Keeper, KeeperFailed

WARM_EPOCH = 0


@dataclass(frozen=True, slots=True)
class Warm:
    """A browser of epoch 0, connected and guarded: it allows no origin yet, and its egress is closed."""

    keeper: Keeper
    connection: Connection

    @property
    def is_ready(self) -> bool:
        return not self.keeper.gone.done() and self.connection.browser.is_connected()


class Pool:
    """Browsers of epoch 0 that wait for their first owner."""

    def __init__(self, launch: Callable[[], Awaitable[Warm | None]], warm_max: int, warm_s: float) -> None:
        self._launch = launch
        self._warm_max = warm_max
        self._warm_s = warm_s
        self._warm: list[Warm] = []
        self._filling: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._ending: set[asyncio.Task[None]] = set()

    def __repr__(self) -> str:
        return f"<Pool {len(self._warm)} of {self._warm_max}>"

    async def take(self) -> Warm | None:
        """A warm browser that still lives; None: start one. One that is being started is waited for: it has a lead."""
        if not self._warm:
            await self.filled()
        while self._warm:
            warm = self._warm.pop()
            if warm.is_ready:
                return warm
            self._start(_kill(warm))
        return None

    def closed(self) -> None:
        """A lease was closed: have one ready for the next, for a while."""
        if self._warm_max < 1:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_later(self._warm_s, self.cool)
        self._warm = [warm for warm in self._warm if not warm.keeper.gone.done()]
        if len(self._warm) < self._warm_max and (self._filling is None or self._filling.done()):
            self._filling = asyncio.create_task(self._fill())

    async def filled(self) -> None:
        """Wait for a start under way."""
        if self._filling is not None and not self._filling.done():
            await asyncio.wait({self._filling})

    async def end(self) -> None:
        """End every warm browser."""
        if self._timer is not None:
            self._timer.cancel()
        await self.filled()
        self.cool()
        if self._ending:
            await asyncio.wait(self._ending)

    async def _fill(self) -> None:
        with contextlib.suppress(KeeperFailed):  # the next start will say it to somebody who asked
            warm = await self._launch()
            if warm is not None:
                self._warm.append(warm)

    def cool(self) -> None:
        """End every warm browser; do not wait for it."""
        while self._warm:
            self._start(_kill(self._warm.pop()))

    def _start(self, work: Awaitable[None]) -> None:
        task = asyncio.ensure_future(work)
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)


async def _kill(warm: Warm) -> None:
    await warm.keeper.kill(WARM_EPOCH)
    await warm.keeper.close()
