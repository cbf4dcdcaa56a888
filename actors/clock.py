"""The real clock: CLOCK_BOOTTIME, which goes on while the machine sleeps, and never jumps."""

import asyncio
import time
from pathlib import Path


class BootClock:
    """`ports.Clock`. `boot` is the kernel's boot id, cut to what a record needs."""

    def __init__(self) -> None:
        self._boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()

    @property
    def boot(self) -> str:
        return self._boot

    def now_ms(self) -> int:
        return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1_000_000

    def unix_ms(self) -> int:
        return time.time_ns() // 1_000_000

    async def wait(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
