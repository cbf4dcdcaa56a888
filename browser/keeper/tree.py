"""Processes of one keeper: telling them from others, and killing them.

A process is a pid with its start time. Chromium leads a session of its own, and everything started by it
carries a mark in its environment, so what left the session (a crash reporter does) is still found.
"""

from __future__ import annotations

import os
import signal
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

MARK = "LESSOR_KEEPER"
KILL_ROUND_S = 0.003
KILL_ROUNDS_MAX = 500


class Process:
    """One live process as /proc shows it. `start` is in clock ticks since boot."""

    __slots__ = ("parent", "pid", "session", "start")

    def __init__(self, pid: int, parent: int, session: int, start: int) -> None:
        self.pid = pid
        self.parent = parent
        self.session = session
        self.start = start


def look(pid: int) -> Process | None:
    """The process of that pid, None when there is none or only its remains (zombie)."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rsplit(b")", 1)[1].split()
    except OSError:
        return None
    if fields[0] in (b"Z", b"X"):
        return None
    return Process(pid, int(fields[1]), int(fields[3]), int(fields[19]))


def start_of(pid: int) -> int:
    """The start time of a live process, 0 when it is gone."""
    process = look(pid)
    return 0 if process is None else process.start


def is_alive(pid: int, start: int) -> bool:
    """Is that very process still running? A reused pid does not count."""
    return pid > 0 and start > 0 and start_of(pid) == start


def kill(pid: int, start: int) -> None:
    """SIGKILL that very process, if it is still there."""
    try:
        fd = os.pidfd_open(pid)
    except OSError:
        return
    try:
        if is_alive(pid, start):
            signal.pidfd_send_signal(fd, signal.SIGKILL)
    except OSError:
        pass
    finally:
        os.close(fd)


def mark_of(keeper: int, keeper_start: int) -> str:
    """What processes of this keeper's browser carry in their environment as `LESSOR_KEEPER`."""
    return f"{keeper}.{keeper_start}"


def browser_processes(session: int, session_start: int, mark: str) -> list[int]:
    """Every live process of the browser whose first process was `session`, started at `session_start`."""
    wanted = f"{MARK}={mark}".encode()
    return [
        process.pid
        for process in _processes()
        if process.start >= session_start
        and ((process.session == session and session > 0) or _carries(process.pid, wanted))
    ]


def descendants(root: int, spared: int = 0) -> list[int]:
    """Every live descendant of `root`, without `spared` and what it started."""
    children: dict[int, list[int]] = {}
    for process in _processes():
        children.setdefault(process.parent, []).append(process.pid)
    found: list[int] = []
    todo = [root]
    while todo:
        for pid in children.get(todo.pop(), ()):
            if pid != spared:
                todo.append(pid)
                found.append(pid)
    return found


def kill_browser(session: int, session_start: int, mark: str) -> bool:
    """SIGKILL the browser until nothing of it is left; False when something survives 1.5 s."""
    if is_alive(session, session_start):
        os.killpg(session, signal.SIGKILL)
    for _ in range(KILL_ROUNDS_MAX):
        left = browser_processes(session, session_start, mark)
        if not left:
            return True
        kill_pids(left)
        time.sleep(KILL_ROUND_S)
    return False


def is_gone_soon(pid: int, start: int) -> bool:
    """After a SIGKILL: wait until that process is gone; False when it survives 1.5 s."""
    for _ in range(KILL_ROUNDS_MAX):
        if not is_alive(pid, start):
            return True
        time.sleep(KILL_ROUND_S)
    return False


def kill_pids(pids: list[int]) -> None:
    """SIGKILL each that is there."""
    for pid in pids:
        try:
            os.kill(pid, signal.SIGKILL)
        except OSError:
            pass


def _processes() -> Iterator[Process]:
    for name in os.listdir("/proc"):
        if name.isdigit():
            process = look(int(name))
            if process is not None:
                yield process


def _carries(pid: int, wanted: bytes) -> bool:
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            return wanted in file.read().split(b"\0")
    except OSError:
        return False
