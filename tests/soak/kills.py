"""Kills at named points: drawn from a seed, written down before they happen, in every process of a soak."""

import json
import os
import random
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Literal

from lessor import points

Way = Literal["sigkill", "browser", "actor"]


class Killed(Exception):
    """What an actor dies of."""


class Kills:
    """One process's kills: each act draws whether and where it is hit.

    `first` begins an act; the first `spared` are never hit, of the others `rate` are, at one of the points in
    `at`, in one of `ways`, weighted.
    """

    def __init__(
        self,
        log: Path,
        seed: str,
        first: str,
        at: tuple[str, ...],
        rate: float,
        ways: dict[Way, float],
        crash_browser: Callable[[], None] | None = None,
        spared: int = 0,
    ) -> None:
        self._log, self._random = log, random.Random(seed)
        self._first, self._at, self._rate, self._ways = first, at, rate, ways
        self._crash_browser, self._spared = crash_browser, spared
        self._next: str | None = None

    def passed(self, point: str) -> None:
        """The hook of `lessor.points`."""
        if point == self._first and self._spared > 0:
            self._spared -= 1
        elif point == self._first and self._next is None and self._random.random() < self._rate:
            self._next = self._random.choice(self._at)
        if point != self._next:
            return
        self._next = None
        way = self._random.choices(list(self._ways), list(self._ways.values()))[0]
        self._write(point, way)
        match way:
            case "sigkill":
                os.kill(os.getpid(), signal.SIGKILL)
            case "browser":
                assert self._crash_browser is not None
                self._crash_browser()
            case "actor":
                raise Killed(point)

    def _write(self, point: str, way: Way) -> None:
        line = json.dumps({"pid": os.getpid(), "point": point, "way": way}) + "\n"
        fd = os.open(self._log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        os.write(fd, line.encode())
        os.close(fd)

    def arm(self) -> None:
        points.hook = self.passed
