"""What the standard library of Python 3.11 does not offer: prctl and timers on CLOCK_BOOTTIME."""

from __future__ import annotations

import ctypes
import os
import signal
import time

BOOT_ID_PATH = "/proc/sys/kernel/random/boot_id"
PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
TFD_TIMER_ABSTIME = 1

_libc = ctypes.CDLL(None, use_errno=True)


def boot_ms() -> int:
    """Milliseconds since boot, time asleep included: the one clock of every deadline."""
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1_000_000


def boot_id() -> str:
    """The identity of this boot; times of another boot mean nothing."""
    with open(BOOT_ID_PATH) as file:
        return file.read().strip()


def become_subreaper() -> None:
    """Orphaned descendants become children of this process instead of getting lost."""
    _prctl(PR_SET_CHILD_SUBREAPER, 1)


def die_with(parent: int) -> None:
    """SIGKILL this process when `parent` dies. Call it from a child of a single-threaded parent only: the
    signal comes when the parent's thread ends."""
    _prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


def silence() -> None:
    """Let go of what standard input, output and error were; they lead nowhere from here on."""
    nowhere = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(nowhere, fd)
    os.close(nowhere)


def _prctl(option: int, value: int) -> None:
    if _libc.prctl(option, value, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl")


class BootTimer:
    """A timer file descriptor on CLOCK_BOOTTIME, set to absolute times: a suspend does not delay it."""

    def __init__(self) -> None:
        self.fd: int = _libc.timerfd_create(time.CLOCK_BOOTTIME, os.O_NONBLOCK | os.O_CLOEXEC)
        if self.fd < 0:
            raise OSError(ctypes.get_errno(), "timerfd_create")

    def arm(self, at_ms: int) -> None:
        """Fire at `at_ms`, at once if that has passed."""
        self._set(max(1, at_ms))

    def disarm(self) -> None:
        self._set(0)

    def read(self) -> None:
        """Take the expiry, so that the descriptor is no longer readable."""
        try:
            os.read(self.fd, 8)
        except BlockingIOError:
            pass

    def close(self) -> None:
        os.close(self.fd)

    def _set(self, at_ms: int) -> None:
        spec = (ctypes.c_long * 4)(0, 0, at_ms // 1000, at_ms % 1000 * 1_000_000)
        if _libc.timerfd_settime(self.fd, TFD_TIMER_ABSTIME, spec, None):
            raise OSError(ctypes.get_errno(), "timerfd_settime")
