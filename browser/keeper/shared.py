"""One page of memory that a keeper writes and its guard reads, also after the keeper was killed."""

from __future__ import annotations

import mmap


class Shared:
    """The deadline in force, and when commands last passed to Chromium, under which epoch (boot ms)."""

    def __init__(self) -> None:
        self._words = memoryview(mmap.mmap(-1, mmap.PAGESIZE)).cast("q")

    @property
    def deadline_ms(self) -> int:
        return self._words[0]

    @deadline_ms.setter
    def deadline_ms(self, at_ms: int) -> None:
        self._words[0] = at_ms

    def passed(self, epoch: int, at_ms: int) -> None:
        """Commands of `epoch` went to Chromium just now."""
        self._words[1] = epoch
        self._words[2] = at_ms

    @property
    def last_command(self) -> tuple[int, int]:
        """(epoch, boot ms), the time is 0 when no command has passed."""
        return self._words[1], self._words[2]
