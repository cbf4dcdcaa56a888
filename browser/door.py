"""The one door to the browser: no call through it waits past its deadline.

Playwright calls on a wedged page never return and cannot be called back, so each runs as a task of its own; when
its time is up nobody waits for it any more, and it ends with the connection.
"""

import asyncio
from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Any, TypeVar

from playwright.async_api import Error

from lessor.browser.keeper.linux import boot_ms
from lessor.ports import Away

T = TypeVar("T")
ENDING = ("has been closed", "Target closed", "Connection closed")  # the last when the driver died
CLOSING_S_MAX = 0.2  # an error of a dying connection may come before the news that it died


@dataclass(frozen=True, slots=True)
class Failed:
    """The browser answered with an error; its text is for decisions and logs here, never for replies."""

    message: str


class Door:
    """Belongs to one connection. `shut` once, with the reason; everything waiting then has its answer."""

    def __init__(self) -> None:
        self._shut: asyncio.Future[Away] = asyncio.get_running_loop().create_future()
        self._left: set[asyncio.Task[Any]] = set()

    @property
    def away(self) -> Away | None:
        """Why nothing passes any more; None while the door is open."""
        return self._shut.result() if self._shut.done() else None

    def silence(self) -> Away:
        """What to say when nothing came back."""
        return self.away or Away.SILENT

    def shut(self, why: Away) -> None:
        if not self._shut.done():
            self._shut.set_result(why)

    async def through(
        self, work: Coroutine[Any, Any, T], deadline_ms: int, unless: asyncio.Future[None] | None = None
    ) -> T | Failed | Away:
        """The result of `work`; SILENT at the deadline, GONE or FENCED when the connection ends before, `Failed` when
        `unless` happens."""
        if self._shut.done() or deadline_ms <= boot_ms():
            work.close()
            return self.silence()
        task = self.start(work)
        timeout_s = max(0.0, (deadline_ms - boot_ms()) / 1000)
        await first(task, self._shut, *(() if unless is None else (unless,)), timeout_s=timeout_s)
        if not task.done():
            is_off = unless is not None and unless.done()
            return Failed("crashed") if is_off and self.away is None else self.silence()
        error = task.exception()
        if error is None:
            return task.result()
        text = error.message if isinstance(error, Error) else str(error)
        if not isinstance(error, Error) and "Connection closed" not in text:
            raise error
        if any(words in text for words in ENDING):
            await first(self._shut, timeout_s=CLOSING_S_MAX)
        return self.away or Failed(text)

    def start(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Begin something that nobody needs to wait for."""
        task = asyncio.create_task(work)
        self._left.add(task)
        task.add_done_callback(self._forget)
        return task

    async def wait(self, event: asyncio.Event, deadline_ms: int) -> bool:
        """Wait for an event of ours; False when the deadline or the end of the connection came first."""
        waiting = asyncio.ensure_future(event.wait())
        timeout_s = max(0.0, (deadline_ms - boot_ms()) / 1000)
        try:
            await first(waiting, self._shut, timeout_s=timeout_s)
        finally:
            waiting.cancel()
        return event.is_set()

    def _forget(self, task: asyncio.Task[Any]) -> None:
        self._left.discard(task)
        if not task.cancelled():
            task.exception()


async def first(*futures: asyncio.Future[Any], timeout_s: float | None = None) -> None:
    """Wait until one of them is done."""
    await asyncio.wait(futures, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
