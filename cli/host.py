"""One host as a program: opens, says that it is ready, serves until told to stop, drains, closes.

The first SIGTERM or SIGINT drains (at most 45 s); the second closes at once and leaves the pages to
their keepers.
"""

import asyncio
import ctypes
import os
import signal
from collections.abc import Callable, Coroutine
from typing import Any, Final

import msgspec

from lessor.broker.embedded import endpoint_of
from lessor.cli.ending import on_ending
from lessor.config import Config
from lessor.errors import Code, LessorError, Problem, problem
from lessor.ports import BrokerAway
from lessor.runtime import BrowserMaker, Host, broker_directory, chromium

_PR_SET_PDEATHSIG: Final = 1


class Ready(msgspec.Struct, frozen=True, kw_only=True):
    """What a host says once it serves: one JSON line, for `lessor up` and for scripts."""

    host: str
    pid: int
    data_dir: str
    ready: bool = True
    warnings: tuple[str, ...] = ()


def tie_to(parent: int) -> bool:
    """Be killed by the kernel when `parent`'s main thread ends; False when it is gone already.

    Call it first, from the main thread: the parent forks from its own main thread, which ends last.
    """
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    return os.getppid() == parent


async def serve(config: Config, ready: Callable[[Ready], None], browser: BrowserMaker = chromium) -> Problem | None:
    """Run until a signal; the problem that kept it from starting or going on, if any."""
    stop, hurry = asyncio.Event(), asyncio.Event()
    on_ending(stop, hurry)
    endpoint = None if config.nats_url is not None else endpoint_of(broker_directory(config))
    if isinstance(endpoint, Problem):
        return endpoint
    host = Host(config, endpoint, browser)
    try:
        if not await _unless(host.open(), stop):
            return None
    except LessorError as error:
        return error.problem
    except BrokerAway as error:
        return problem(Code.BROKER_UNAVAILABLE, f"The broker went away while the host started ({error}): start again.")
    try:
        ready(Ready(host=config.host, pid=os.getpid(), data_dir=str(config.data_dir), warnings=host.warnings))
        await _unless(host.failed.wait(), stop)
        if not host.failed.is_set():
            await _unless(host.drain(), hurry)
    finally:
        await host.close()
    return host.why


async def _unless(work: Coroutine[Any, Any, object], event: asyncio.Event) -> bool:
    """Await the work, but give it up when the event comes first; whether it was done."""
    task, waiting = asyncio.ensure_future(work), asyncio.ensure_future(event.wait())
    try:
        await asyncio.wait({task, waiting}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        waiting.cancel()
    if not task.done():
        task.cancel()
        await asyncio.wait({task})
    if task.cancelled():
        return False
    task.result()
    return True


def first_key(config: Config) -> bool:
    """Make the first key for sealed states where there is none; whether it did (contract 27)."""
    try:
        from lessor.browser.keyring import Keyring
    except ImportError:
        return False
    return Keyring(config.data_dir / "keys").ensure()
