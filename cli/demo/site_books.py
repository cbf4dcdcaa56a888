"""The demo site without its web server: what was recorded, what is switched, what is held."""

import threading
import time
from collections import deque
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from lessor.cli.demo.site_log import JsonLines, Logins, Submission, Submissions
from lessor.cli.demo.site_switches import Gate, Held, Switches

TICKS_MAX: Final = 10_000


class Books:
    """Everything the site knows, for any thread. Its log and its logins outlive it in `directory`."""

    def __init__(self, directory: Path, users: Mapping[str, str]) -> None:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.logins = Logins(directory, users)
        self.gate = Gate()
        self._log = Submissions(directory)
        self._approvals = JsonLines(directory / "approvals.jsonl")
        self._ticks: deque[int] = deque(maxlen=TICKS_MAX)
        self._switches = Switches()
        self._lock = threading.Lock()

    def submissions(self, request_key: str | None = None) -> list[Submission]:
        """What was recorded, oldest first; of one request key if given."""
        return self._log.all() if request_key is None else self._log.by_key(request_key)

    def record(self, submission: Submission, *, once: bool) -> bool:
        """Put a submission on disk. With `once`, False and nothing written if its key is there already."""
        return self._log.record(submission, once=once)

    def approvals(self) -> list[dict[str, object]]:
        """Clicks on *Approve* in /table: `at_unix_ms`, `number`, and the `amount` the row had then."""
        with self._lock:
            return self._approvals.entries()

    def approve(self, number: str) -> bool:
        """Record a click on *Approve*; False if there is no such row."""
        with self._lock:
            amount = self._switches.amounts.get(number)
            if amount is not None:
                self._approvals.append({"at_unix_ms": unix_ms(), "number": number, "amount": amount})
            return amount is not None

    def ticks(self) -> list[int]:
        """When /tick was asked for, in Unix milliseconds: the last 10,000."""
        with self._lock:
            return list(self._ticks)

    def tick(self) -> int:
        with self._lock:
            self._ticks.append(unix_ms())
            return self._ticks[-1]

    @property
    def switches(self) -> Switches:
        with self._lock:
            return self._switches

    def change(self, changes: Mapping[str, object]) -> Switches | str:
        """Change the named switches, or none of them and say in a sentence what is wrong."""
        with self._lock:
            changed = self._switches.changed(changes)
            if isinstance(changed, Switches):
                self._switches = changed
            return changed

    def switches_for_one(self) -> Switches:
        """The switches that hold for one submission, counted against `times`."""
        with self._lock:
            current = self._switches
            self._switches = current.after_one()
            return current

    def held(self, wait_s: float) -> list[Held]:
        """The submissions held or delayed right now, waiting at most `wait_s` for the first."""
        return self.gate.wait_held(wait_s)

    def release(self) -> int:
        """Let all held and delayed submissions go on; how many there were."""
        return self.gate.release()

    def interrupt(self) -> None:
        """Send everything that waits away, unanswered. The site is about to close."""
        self.gate.close()

    def close(self) -> None:
        self._log.close()
        self.logins.close()
        self._approvals.close()


def unix_ms() -> int:
    return time.time_ns() // 1_000_000
