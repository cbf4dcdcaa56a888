"""The tree under measurement: broker and host in processes of their own; the benchmark is the worker."""

import asyncio
import contextlib
import os
import signal
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path

READY_S_MAX = 20.0


class Child:
    """A process that says one line when it is ready."""

    def __init__(self, *argv: str, **environment: str) -> None:
        self._argv, self._environment = argv, environment
        self.process: asyncio.subprocess.Process | None = None
        self.line = ""
        self.began = 0.0

    async def start(self) -> str:
        self.began = time.perf_counter()
        self.process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            *self._argv,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            env={**os.environ, **self._environment},
        )
        assert self.process.stdout is not None
        line = await asyncio.wait_for(self.process.stdout.readline(), READY_S_MAX)
        assert line, f"{' '.join(self._argv)} ended before it was ready"
        self.line = line.decode()
        return self.line

    def kill(self, number: signal.Signals = signal.SIGKILL) -> None:
        assert self.process is not None
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.process.pid, number)

    async def stop(self) -> None:
        if self.process is None or self.process.returncode is not None:
            return
        self.kill(signal.SIGTERM)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self.process.wait(), 50)


@contextlib.asynccontextmanager
async def child(*argv: str, **environment: str) -> AsyncIterator[Child]:
    one = Child(*argv, **environment)
    try:
        await one.start()
        yield one
    finally:
        await one.stop()


@contextlib.asynccontextmanager
async def lessor_up(data_dir: Path, **environment: str) -> AsyncIterator[Child]:
    async with child("lessor", "up", "--data-dir", str(data_dir), **environment) as started:
        yield started
