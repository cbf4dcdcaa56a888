"""The guard: a forked copy of the keeper that holds a pidfd, a timer and a shared page, and nothing else.

It ends the tree when the keeper is gone, and `guard_ms` after a deadline the keeper slept through (it was
stopped, or starved). A stopped Chromium, which notices neither the closed pipe nor its parent's death in all
of its processes, is killed by it too.
"""

from __future__ import annotations

import os
import select
import signal

from lessor.browser.keeper import burial, linux, state

TYPE_CHECKING = False
if TYPE_CHECKING:
    from lessor.browser.keeper.shared import Shared
    from lessor.browser.keeper.state import State


def fork(directory: str, record: State, shared: Shared, guard_ms: int) -> int:
    """Start a guard for this process; answers its pid. The caller must have one thread only."""
    keeper = os.pidfd_open(os.getpid())
    pid = os.fork()
    if pid:
        os.close(keeper)
        return pid
    try:
        _detach(keeper)
        why = _watch(keeper, shared, guard_ms)
        _end(directory, record, shared, why)
    finally:
        os._exit(0)


def _detach(keeper: int) -> None:
    os.setsid()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    linux.silence()
    os.closerange(3, keeper)
    os.closerange(keeper + 1, max(int(name) for name in os.listdir("/proc/self/fd")) + 1)


def _watch(keeper: int, shared: Shared, guard_ms: int) -> str:
    timer = linux.BootTimer()
    poll = select.poll()
    poll.register(keeper, select.POLLIN)
    poll.register(timer.fd, select.POLLIN)
    while True:
        timer.arm(shared.deadline_ms + guard_ms)
        ready = {fd for fd, _ in poll.poll()}
        if keeper in ready:
            return "keeper_dead"
        if linux.boot_ms() >= shared.deadline_ms + guard_ms:
            signal.pidfd_send_signal(keeper, signal.SIGKILL)
            return "deadline_by_guard"


def _end(directory: str, record: State, shared: Shared, why: str) -> None:
    record = state.read(directory) or record
    killed_at_ms = linux.boot_ms()
    while not burial.kill(record):
        pass
    if record["phase"] == "dead":
        why, killed_at_ms = record["why"], record["killed_at_ms"]
    epoch, last_ms = shared.last_command
    if last_ms:
        record["last_command_ms"][str(epoch)] = last_ms
    burial.bury(directory, record, why, killed_at_ms)
