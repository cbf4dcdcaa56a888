"""The command line as a person runs it: processes, their words, their exit codes, and what they leave behind."""

import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import psutil
import structlog
from typer.testing import CliRunner

from lessor.cli.main import app

PYTHON_M = (sys.executable, "-m")
LESSOR = (*PYTHON_M, "lessor")
MARK = "LESSOR_TEST_PLACE"
"""In the environment of everything that a test starts, and so of what that starts."""
WAIT_S = 20.0


@dataclass(frozen=True)
class Done:
    """A command that has ended."""

    code: int
    out: str
    err: str
    seconds: float

    @property
    def json(self) -> Any:
        return json.loads(self.out)


class Place:
    """A data directory, and the commands given for it. Ends what it started, by pid."""

    def __init__(self, data_dir: Path) -> None:
        self.data_dir = data_dir
        self.log = data_dir.with_suffix(".log")

    def environment(self, **more: str) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("LESSOR_")}
        return {**kept, "LESSOR_DATA_DIR": str(self.data_dir), MARK: str(self.data_dir), **more}

    def run(self, *words: str, **environment: str) -> Done:
        began_s = time.monotonic()
        done = subprocess.run(
            [*LESSOR, *words],
            capture_output=True,
            text=True,
            timeout=WAIT_S,
            check=False,
            env=self.environment(**environment),
        )
        return Done(done.returncode, done.stdout, done.stderr, time.monotonic() - began_s)

    def call(self, *words: str) -> Done:
        """The same without a process of its own: for what needs many calls and no signals."""
        began_s = time.monotonic()
        try:
            done = CliRunner().invoke(app, words, env=dict(self.environment()), catch_exceptions=False)
        finally:
            structlog.reset_defaults()
        return Done(done.exit_code, done.stdout, done.stderr, time.monotonic() - began_s)

    @contextmanager
    def started(self, *words: str, **environment: str) -> "Generator[Foreground]":
        """A command, or a module of the tests, that stays. Ended with the block, if it is still there."""
        with (
            self.log.open("ab") as errors,
            subprocess.Popen(
                [*(PYTHON_M if words[0].startswith("tests.") else LESSOR), *words],
                stdout=subprocess.PIPE,
                stderr=errors,
                env=self.environment(**environment),
                start_new_session=True,
            ) as process,
        ):
            try:
                yield Foreground(process, self)
            finally:
                if process.poll() is None:
                    process.send_signal(signal.SIGTERM)
                    try:
                        process.wait(5)
                    except subprocess.TimeoutExpired:
                        process.kill()

    def broker(self) -> dict[str, Any]:
        """The embedded broker's configuration."""
        told: dict[str, Any] = json.loads((self.data_dir / "broker" / "broker.json").read_text())
        return told

    def said(self) -> str:
        """What everything that stayed has said on stderr."""
        return self.log.read_text()

    def processes(self) -> list[psutil.Process]:
        """What was started for this directory and is no zombie."""
        found: list[psutil.Process] = []
        for process in psutil.process_iter():
            try:
                marked = process.environ().get(MARK) == str(self.data_dir)
                if marked and process.status() != psutil.STATUS_ZOMBIE:
                    found.append(process)
            except psutil.Error:
                continue
        return found


class Foreground:
    """A running `lessor up` or `lessor host`."""

    def __init__(self, process: "subprocess.Popen[bytes]", place: Place) -> None:
        self.process, self.place = process, place
        self.pid = process.pid

    def line(self) -> str:
        """Its next line on stdout; empty when it ended."""
        out: IO[bytes] | None = self.process.stdout
        assert out is not None
        readable, _, _ = select.select([out], [], [], WAIT_S)
        assert readable, "nothing was said in time"
        return out.readline().decode().rstrip("\n")

    def child(self, word: str) -> psutil.Process:
        """Its child with that word in its command line."""
        (found,) = [one for one in psutil.Process(self.pid).children() if word in " ".join(one.cmdline())]
        return found

    def ended(self, within_s: float) -> int:
        """Its exit code."""
        return self.process.wait(within_s)


def until(condition: Callable[[], bool], within_s: float = WAIT_S) -> float:
    """Ask again and again until it holds; how long that took."""
    began_s = time.monotonic()
    while not condition():
        assert time.monotonic() - began_s < within_s, "it did not come true in time"
        time.sleep(0.02)
    return time.monotonic() - began_s
