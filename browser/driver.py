"""The Playwright driver: one node process per host, watched."""

import asyncio
import contextlib
import os
import tempfile
from collections.abc import Generator
from pathlib import Path
from typing import Any

from playwright.async_api import Playwright, async_playwright

START_S_MAX = 10.0
STOP_S_MAX = 5.0


class Driver:
    """`gone` is done when its process has ended, for whatever reason: Playwright itself does not tell."""

    def __init__(self, playwright: Playwright, pid: int) -> None:
        self.playwright = playwright
        self.gone: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._pidfd = os.pidfd_open(pid)
        asyncio.get_running_loop().add_reader(self._pidfd, self._died)

    def __repr__(self) -> str:
        return f"<Driver {'gone' if self.gone.done() else 'live'}>"

    async def stop(self) -> None:
        """End it; every connection through it ends, the browsers do not."""
        if not self.gone.done():
            stopping = asyncio.ensure_future(self.playwright.stop())
            await asyncio.wait({stopping, self.gone}, timeout=STOP_S_MAX)
            if stopping.done() and not stopping.cancelled():
                stopping.exception()
            self._died()

    def _died(self) -> None:
        if self._pidfd >= 0:
            asyncio.get_running_loop().remove_reader(self._pidfd)
            os.close(self._pidfd)
            self._pidfd = -1
        if not self.gone.done():
            self.gone.set_result(None)


async def start(scratch: Path) -> Driver | None:
    """None when it did not come up in time. Its temporary files go below `scratch`, which the next host sweeps: a
    killed host's driver leaves them behind."""
    with _temporary(scratch):
        starting = asyncio.ensure_future(async_playwright().start())
        try:
            await asyncio.wait({starting}, timeout=START_S_MAX)
        except asyncio.CancelledError:
            # Cancelled in its beginnings Playwright waits for ever; once it is there it can be ended.
            await asyncio.wait({starting}, timeout=START_S_MAX)
            if starting.done() and starting.exception() is None:
                await starting.result().stop()
            raise
    if not starting.done():
        starting.cancel()
        return None
    playwright = starting.result()
    # No public way leads to the process; a test kills it and so notices when this one closes.
    implementation: Any = playwright._impl_obj  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
    return Driver(playwright, int(implementation._connection._transport._proc.pid))  # noqa: SLF001


@contextlib.contextmanager
def _temporary(scratch: Path) -> Generator[None, None, None]:
    """Playwright hands its own environment down, and takes no other. No browser is started meanwhile."""
    tempfile.gettempdir()  # so that nothing of this process looks it up for the first time below
    before = os.environ.get("TMPDIR")
    os.environ["TMPDIR"] = str(scratch)
    try:
        yield
    finally:
        if before is None:
            del os.environ["TMPDIR"]
        else:
            os.environ["TMPDIR"] = before
