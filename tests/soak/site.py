"""The site of a soak: a form with a key, and its own append-only log of what was submitted."""

import os
from collections import Counter
from pathlib import Path


class Site:
    """The log, shared between processes: one line for each submission."""

    def __init__(self, log: Path) -> None:
        self._log = log

    def submit(self, key: str) -> None:
        fd = os.open(self._log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        os.write(fd, f"{key}\n".encode())
        os.close(fd)

    def submissions(self) -> Counter[str]:
        return Counter(self._log.read_text().split()) if self._log.exists() else Counter()

    def has(self, key: str) -> bool:
        return key in self.submissions()
