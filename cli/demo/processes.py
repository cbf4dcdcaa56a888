"""The demo's processes: starting them, killing them, and counting what is left of them."""

import asyncio
import contextlib
import json
import os
import signal
import sys
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, Self

import psutil

MARK: Final = "LESSOR_DEMO"
"""In the environment of everything that one demo starts: its directory."""

LINE_BYTES_MAX: Final = 1 << 20
POLL_S: Final = 0.05
GONE_S_MAX: Final = 2.0
"""An orphan is what lives longer than this after the end (architecture, Keeper and egress)."""


class Broken(Exception):
    """A process of the demo ended or fell silent when it should not have."""


def python() -> list[str]:
    """This interpreter. `-m` alone would put the working directory before everything installed."""
    is_checkout = sys.path[0] in ("", str(Path.cwd()))
    return [sys.executable] if is_checkout else [sys.executable, "-P"]


class Child:
    """One process, in a session of its own: a Ctrl-C on the terminal reaches the demo alone, which ends the rest."""

    def __init__(self, name: str, process: asyncio.subprocess.Process, log: Path) -> None:
        self.name = name
        self._process = process
        self._log = log

    @classmethod
    async def start(
        cls,
        name: str,
        module: str,
        arguments: Sequence[str],
        directory: Path,
        environment: Mapping[str, str] = MappingProxyType({}),
    ) -> Self:
        log = directory / f"{name.replace(' ', '-')}.log"
        with log.open("ab") as errors:
            process = await asyncio.create_subprocess_exec(
                *python(),
                "-m",
                module,
                *arguments,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=errors,
                env={**os.environ, MARK: str(directory), "TMPDIR": str(directory), **environment},
                start_new_session=True,
                limit=LINE_BYTES_MAX,
            )
        return cls(name, process, log)

    def __repr__(self) -> str:
        return f"<Child {self.name} pid={self.pid} code={self._process.returncode}>"

    @property
    def pid(self) -> int:
        return self._process.pid

    async def line(self, timeout_s: float) -> str | None:
        """The next line, None at the end. Raises Broken when nothing comes in time."""
        assert self._process.stdout is not None
        try:
            read = await asyncio.wait_for(self._process.stdout.readline(), timeout_s)
        except TimeoutError:
            raise self.broken(f"says nothing for {timeout_s:g} s") from None
        return read.decode().rstrip("\n") if read else None

    async def events(self, timeout_s: float) -> AsyncIterator[Mapping[str, Any]]:
        """Its JSON lines until it ends."""
        while (line := await self.line(timeout_s)) is not None:
            yield json.loads(line)

    async def go(self) -> None:
        """Answer what it waits for on its standard input."""
        assert self._process.stdin is not None
        self._process.stdin.write(b"\n")
        await self._process.stdin.drain()

    async def end(self, number: signal.Signals, timeout_s: float) -> int:
        """Send the signal, unless it has ended, and wait. Raises Broken when it does not end in time."""
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(number)
        return await self.code(timeout_s)

    async def code(self, timeout_s: float) -> int:
        try:
            return await asyncio.wait_for(self._process.wait(), timeout_s)
        except TimeoutError:
            raise self.broken(f"does not end in {timeout_s:g} s") from None

    def broken(self, what: str) -> Broken:
        """With the end of what it said, which is where the reason is."""
        said = self._log.read_text(errors="replace")[-2000:] if self._log.exists() else ""
        return Broken(f"{self.name} {what}{': ' if said else ''}{said}")


@dataclass(frozen=True, slots=True)
class _Seen:
    pid: int
    start: float


class Census:
    """Every process that the demo brought about, whoever its parent is by now.

    A browser's processes do not carry the mark (a keeper gives them a clean environment), so whatever
    descends from a marked one counts, too, and is remembered."""

    def __init__(self, directory: Path) -> None:
        self._directory = str(directory)
        self._seen: set[_Seen] = set()

    def look(self) -> None:
        """Remember who is there now. Blocking: it reads the process table."""
        table = {process.pid: process for process in psutil.process_iter(["ppid", "create_time", "cmdline"])}
        marked = {pid for pid, process in table.items() if self._is_marked(process)}
        for pid, process in table.items():
            if pid != os.getpid() and marked.intersection(_line(pid, table)):
                self._seen.add(_Seen(pid, process.info["create_time"]))

    def _is_marked(self, process: psutil.Process) -> bool:
        if process.pid == os.getpid():
            return False
        try:
            if process.environ().get(MARK) == self._directory:
                return True
        except psutil.Error:
            pass
        return any(self._directory in argument for argument in process.info["cmdline"] or ())

    def alive(self) -> list[psutil.Process]:
        """Those seen that still run. A zombie does not run: it waits for its parent to read its code."""
        self.look()
        found: list[psutil.Process] = []
        for seen in self._seen:
            with contextlib.suppress(psutil.NoSuchProcess):
                process = psutil.Process(seen.pid)
                if process.create_time() == seen.start and process.status() != psutil.STATUS_ZOMBIE:
                    found.append(process)
        return found

    def left(self, wait_s: float) -> list[psutil.Process]:
        """Those who still run `wait_s` from now; at once when there are none. Blocking.

        It looks instead of waiting for them: whoever reads the exit codes of the demo's children is the event loop.
        """
        until_s = time.monotonic() + wait_s
        while (found := self.alive()) and time.monotonic() < until_s:
            time.sleep(POLL_S)
        return found

    def sweep(self) -> None:
        """End what is left, keepers in their own way, so that they take their browsers and directories along."""
        for process in self.alive():
            _send(process, signal.SIGTERM if _is_keeper(process) else signal.SIGKILL)
        for process in self.left(1.5):
            _send(process, signal.SIGKILL)
        self.left(1.0)


def _send(process: psutil.Process, number: signal.Signals) -> None:
    with contextlib.suppress(psutil.NoSuchProcess):
        process.send_signal(number)


def _is_keeper(process: psutil.Process) -> bool:
    try:
        return any(argument.endswith("/keeper/boot.py") for argument in process.cmdline())
    except psutil.NoSuchProcess:
        return False


def _line(pid: int, table: Mapping[int, psutil.Process]) -> set[int]:
    """A process and its ancestors."""
    found: set[int] = set()
    while pid in table and pid not in found:
        found.add(pid)
        pid = table[pid].info["ppid"]
    return found
