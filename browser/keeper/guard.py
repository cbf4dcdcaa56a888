"""The guard: a forked copy of the keeper that holds a pidfd, a timer set by the keeper, a shared page, no more.

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


def fork(directory: str, record: State, shared: Shared, timer: linux.BootTimer, guard_ms: int) -> int:
    """Start a guard for this process; answers its pid. The caller must have one thread only, and arms `timer` for
    `guard_ms` after the deadline whenever that moves: a deadline can come nearer, and a guard that slept until the
    former one would be late."""
    keeper = os.pidfd_open(os.getpid())
    pid = os.fork()
    if pid:
        os.close(keeper)
        return pid
    try:
        _detach({keeper, timer.fd})
        why = _watch(keeper, shared, timer, guard_ms)
        _end(directory, record, shared, why)
    finally:
        os._exit(0)


def _detach(kept: set[int]) -> None:
    os.setsid()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    linux.silence()
    for fd in [int(name) for name in os.listdir("/proc/self/fd")]:
        if fd > 2 and fd not in kept:
            _close(fd)


def _close(fd: int) -> None:
    try:
        os.close(fd)
    except OSError:  # that of the listing itself
        pass


def _watch(keeper: int, shared: Shared, timer: linux.BootTimer, guard_ms: int) -> str:
    poll = select.poll()
    poll.register(keeper, select.POLLIN)
    poll.register(timer.fd, select.POLLIN)
    while True:
        ready = {fd for fd, _ in poll.poll()}
        if keeper in ready:
            return "keeper_dead"
        if linux.boot_ms() >= shared.deadline_ms + guard_ms:
            signal.pidfd_send_signal(keeper, signal.SIGKILL)
            return "deadline_by_guard"
        armed_ms = 0
        while armed_ms != shared.deadline_ms:  # it fired in the moment in which the keeper moved it
            armed_ms = shared.deadline_ms
            timer.arm(armed_ms + guard_ms)


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
