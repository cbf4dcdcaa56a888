"""Timing, paired: A and B in turn, so that a machine that drifts drifts for both."""

import asyncio
import os
import statistics
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

Once = Callable[[], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Times:
    """Milliseconds, sorted."""

    ms: tuple[float, ...]

    @property
    def median(self) -> float:
        return statistics.median(self.ms)

    @property
    def p95(self) -> float:
        return self.ms[min(len(self.ms) - 1, round(len(self.ms) * 0.95))]

    def __str__(self) -> str:
        return f"median {self.median:.2f} ms, p95 {self.p95:.2f} ms, n {len(self.ms)}"


async def timed(once: Once) -> float:
    began = time.perf_counter()
    await once()
    return (time.perf_counter() - began) * 1000


async def alone(once: Once, times: int, warm: int = 3) -> Times:
    for _ in range(warm):
        await once()
    return Times(tuple(sorted([await timed(once) for _ in range(times)])))


async def paired(first: Once, second: Once, times: int, warm: int = 5, rest_s: float = 0.0) -> tuple[Times, Times]:
    """A B, B A, A B …: neither always comes second. `rest_s` lets what one set going in the background end."""
    for _ in range(warm):
        await first()
        await second()
    a: list[float] = []
    b: list[float] = []
    for turn in range(times):
        for once, kept in ((first, a), (second, b)) if turn % 2 == 0 else ((second, b), (first, a)):
            await asyncio.sleep(rest_s)
            kept.append(await timed(once))
    return Times(tuple(sorted(a))), Times(tuple(sorted(b)))


def fsync_ms(directory: Path, times: int = 200) -> Times:
    """The run's own fsync time: 1 KB appended and synced, where the broker's store is."""
    path = directory / "fsync-probe"
    taken: list[float] = []
    with path.open("ab", buffering=0) as file:
        for _ in range(times):
            began = time.perf_counter()
            file.write(b"x" * 1024)
            os.fsync(file.fileno())
            taken.append((time.perf_counter() - began) * 1000)
    path.unlink()
    return Times(tuple(sorted(taken)))
