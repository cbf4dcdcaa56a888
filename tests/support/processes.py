"""Real processes for tests: they say in JSON lines how far they have come, so a test kills them at a named moment."""

import asyncio
import contextlib
import json
import os
import signal
import sys
import tempfile
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import cast

import msgspec

from lessor.limits import Limits
from tests.support.stage import Stage

SAID_S_MAX = 20.0


class Told:
    """A child process of this test."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    @property
    def pid(self) -> int:
        return self._process.pid

    async def said(self, word: str) -> dict[str, object]:
        """Wait for the line that begins a stage of its work."""
        assert self._process.stdout is not None
        async with asyncio.timeout(SAID_S_MAX):
            while line := await self._process.stdout.readline():
                heard = cast("dict[str, object]", json.loads(line))
                if heard["said"] == word:
                    return heard
        raise AssertionError(f"the process ended before it said {word!r}")

    def signal(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError):  # it has ended, and the loop has not heard of it yet
            self._process.send_signal(number)

    def kill(self) -> None:
        self.signal(signal.SIGKILL)

    async def ended(self) -> None:
        await self._process.wait()


@asynccontextmanager
async def process(module: str, job: dict[str, object], environment: dict[str, str]) -> AsyncGenerator[Told, None]:
    """Run a module of the tests with a job on its command line; it is killed when the block ends."""
    child = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        module,
        json.dumps(job),
        stdout=asyncio.subprocess.PIPE,
        env={**os.environ, **environment},
    )
    told = Told(child)
    try:
        yield told
    finally:
        told.kill()
        await child.wait()


@asynccontextmanager
async def worker_process(stage: Stage, **job: object) -> AsyncGenerator[Told, None]:
    """`tests.support.worker_main` as a worker of the stage's tenant."""
    environment = {"LESSOR_URL": stage.endpoint.url, "LESSOR_CREDENTIALS": str(stage.endpoint.credentials)}
    async with process("tests.support.worker_main", {"tenant": stage.tenant, **job}, environment) as told:
        yield told


@asynccontextmanager
async def host_process(stage: Stage, word: str = "h") -> AsyncGenerator[Told, None]:
    """`tests.support.host_main`: a host on the session's broker, with the stage's limits. Its pages outlive it."""
    environment = {"LESSOR_URL": stage.endpoint.url, "LESSOR_CREDENTIALS": str(stage.endpoint.credentials)}
    job = _job(stage.directory / word, stage.live / word, f"{stage.tenant}-{word}", stage.limits)
    async with process("tests.support.host_main", job, environment) as told:
        await told.said("up")
        yield told


@asynccontextmanager
async def up_process(data_dir: Path, limits: Limits) -> AsyncGenerator[tuple[Told, Path], None]:
    """A whole lessor, embedded broker included, and where its browsers live."""
    with tempfile.TemporaryDirectory(prefix="lessor-", ignore_cleanup_errors=True) as live:
        async with process("tests.support.host_main", _job(data_dir, Path(live), "up", limits), {}) as told:
            await told.said("up")
            yield told, Path(live)


def _job(data_dir: Path, live_dir: Path, host: str, limits: Limits) -> dict[str, object]:
    return {
        "data_dir": str(data_dir),
        "live_dir": str(live_dir),
        "host": host,
        "limits": msgspec.to_builtins(limits),
    }
