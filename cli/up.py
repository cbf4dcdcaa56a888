"""`lessor up`: the thin parent of broker and host. Neither takes the other along.

The host has a session of its own, so that Ctrl-C reaches this process alone, which then lets the host
drain before it ends the broker. Both children are killed by the kernel when this process is.
"""

import asyncio
import contextlib
import os
import re
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import msgspec
import structlog

from lessor.broker.embedded import Embedded, Endpoint
from lessor.cli.answer import tell
from lessor.cli.ending import on_ending
from lessor.cli.restarts import Restarts
from lessor.config import Config
from lessor.errors import Code, LessorError, Problem, error_of, problem

log = structlog.get_logger("lessor.up")

READY_S_MAX: Final = 15.0
DRAIN_S_MAX: Final = 45.0
QUIET_S: Final = 1.0
"""How long draining may take before it is said what is waited for."""


class Started(msgspec.Struct, frozen=True, kw_only=True):
    """What `up` says, once, when workers may come."""

    data_dir: str
    broker: str
    host: str
    pid: int
    ready: bool = True


class _Said(msgspec.Struct, frozen=True):
    """The host's first line: its name, or why it is not there."""

    host: str | None = None
    warnings: tuple[str, ...] = ()
    error: Problem | None = None


def host_command(config: Config) -> list[str]:
    """How a host is started. The broker's address and secrets reach it by files and environment, never by argv."""
    # `-m` alone would put the working directory before everything installed.
    checkout = sys.path[0] in ("", str(Path.cwd()))
    python = [sys.executable] if checkout else [sys.executable, "-P"]
    return [*python, "-m", "lessor", "host", "--json", "--data-dir", str(config.data_dir), "--parent", str(os.getpid())]


class Up:
    """Runs on the main thread's event loop: the children's lives are tied to that thread."""

    def __init__(self, config: Config, command: Sequence[str]) -> None:
        self._config, self._command = config, command
        self._stop, self._hurry = asyncio.Event(), asyncio.Event()
        self._broker: Embedded | None = None
        self._host: asyncio.subprocess.Process | None = None

    def __repr__(self) -> str:
        host = None if self._host is None else self._host.pid
        return f"<Up {self._config.data_dir}: broker {self._broker!r}, host pid {host}>"

    async def run(self, ready: Callable[[Started], None]) -> None:
        """Until a signal, or LessorError. Afterwards broker and host are gone."""
        on_ending(self._stop, self._hurry)
        work = asyncio.ensure_future(self._work(ready))
        stop = asyncio.ensure_future(self._stop.wait())
        try:
            await asyncio.wait({work, stop}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            stop.cancel()
            work.cancel()
            await asyncio.wait({work})
            await self._end()
        if not work.cancelled():
            work.result()

    async def _work(self, ready: Callable[[Started], None]) -> None:
        broker = await self._start_broker()
        host = await self._start_host()
        ready(Started(data_dir=str(self._config.data_dir), broker=broker, host=host, pid=os.getpid()))
        try:
            async with asyncio.TaskGroup() as both:
                both.create_task(self._keep_host())
                if self._broker is not None:
                    both.create_task(self._keep_broker())
        except ExceptionGroup as failed:
            raise failed.exceptions[0] from None

    # -- the broker

    async def _start_broker(self) -> str:
        """Where it is, without what it is entered with."""
        if self._config.nats_url is not None:
            return re.sub(r"//[^@/]*@", "//", self._config.nats_url)
        self._broker = Embedded(self._config.data_dir / "broker")
        # Shielded: a thread that starts a process cannot be given up, so its end is awaited, then undone.
        starting = asyncio.ensure_future(asyncio.to_thread(self._broker.start))
        try:
            told = await asyncio.shield(starting)
        except asyncio.CancelledError:
            await asyncio.wait({starting})
            raise
        if isinstance(told, Endpoint):
            return told.url
        self._broker = None
        raise error_of(told)

    async def _keep_broker(self) -> None:
        restarts = Restarts()
        while True:
            assert self._broker is not None
            await _set(self._broker.exited)
            log.error("the broker ended; starting it again")
            await asyncio.to_thread(self._broker.stop)
            await self._pause(restarts, "broker")
            await self._start_broker()
            log.info("the broker is back")

    # -- the host

    async def _start_host(self) -> str:
        self._host = await asyncio.create_subprocess_exec(
            *self._command,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            start_new_session=True,
            env=self._environment(),
        )
        assert self._host.stdout is not None
        try:
            async with asyncio.timeout(READY_S_MAX):
                line = await self._host.stdout.readline()
                said = msgspec.json.decode(line, type=_Said) if line else _Said()
                if said.host is None:
                    code = await self._host.wait()
                    ended = problem(Code.SETUP_FAILED, f"The host ended as it began (exit code {code}): see its log.")
                    raise error_of(said.error or ended)
        except (TimeoutError, msgspec.DecodeError) as error:
            slow = f"The host was not ready within {READY_S_MAX:g} s ({error!r}): see its log."
            raise error_of(problem(Code.SETUP_FAILED, slow)) from error
        return said.host

    def _environment(self) -> dict[str, str]:
        if self._config.nats_url is None:
            return {name: value for name, value in os.environ.items() if name != "LESSOR_URL"}
        return {**os.environ, "LESSOR_URL": self._config.nats_url}

    async def _keep_host(self) -> None:
        """Its pages outlive it for the keeper's deadline, and are found again."""
        restarts = Restarts()
        while True:
            assert self._host is not None
            code = await self._host.wait()
            log.error("the host ended; starting it again", exit=code)
            await self._pause(restarts, "host")
            try:
                await self._start_host()
                log.info("the host is back")
            except LessorError as error:
                log.warning("the host does not start", code=error.code.value, detail=error.problem.message)
                await self._end_host(at_once=True)

    async def _pause(self, restarts: Restarts, what: str) -> None:
        pause_s = restarts.pause_s(asyncio.get_running_loop().time())
        if pause_s is None:
            often = f"The {what} ended too often to go on: see the log, mend it, then start again."
            raise error_of(problem(Code.SETUP_FAILED, often))
        await asyncio.sleep(pause_s)

    # -- the end

    async def _end(self) -> None:
        """The host first: it settles and seals over the broker."""
        await self._end_host(at_once=self._hurry.is_set())
        if self._broker is not None:
            if self._hurry.is_set() and self._broker.pid is not None and not self._broker.exited.is_set():
                os.kill(self._broker.pid, signal.SIGKILL)
            await asyncio.to_thread(self._broker.stop)

    async def _end_host(self, at_once: bool) -> None:
        if self._host is None or self._host.returncode is not None:
            return
        if not at_once:
            with contextlib.suppress(ProcessLookupError):
                self._host.terminate()
            if not await self._gone(QUIET_S):
                tell(f"lessor: settling and sealing what is leased, {DRAIN_S_MAX:g} s at most; again ends at once")
                await self._gone(DRAIN_S_MAX)
        with contextlib.suppress(ProcessLookupError):
            self._host.kill()
        await self._host.wait()

    async def _gone(self, within_s: float) -> bool:
        """Whether the host ended in time, and nobody was in a hurry."""
        assert self._host is not None
        ended = asyncio.ensure_future(self._host.wait())
        hurry = asyncio.ensure_future(self._hurry.wait())
        await asyncio.wait({ended, hurry}, timeout=within_s, return_when=asyncio.FIRST_COMPLETED)
        hurry.cancel()
        if not ended.done():
            ended.cancel()
        return self._host.returncode is not None or self._hurry.is_set()


async def _set(event: threading.Event) -> None:
    """Await an event of another thread. The thread that waits for it holds up nobody's end."""
    loop, heard = asyncio.get_running_loop(), asyncio.Event()

    def wait() -> None:
        event.wait()
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(heard.set)

    threading.Thread(target=wait, name="broker-watch", daemon=True).start()
    await heard.wait()
