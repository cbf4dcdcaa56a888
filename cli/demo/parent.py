"""Ending with the process that started this one, whatever happens to it."""

import ctypes
import os
import signal
from typing import Final

_PR_SET_PDEATHSIG: Final = 1


def die_with_parent(number: signal.Signals = signal.SIGKILL) -> None:
    """Have the kernel send `number` to this process when its parent's thread that started it ends."""
    parent = os.getppid()
    if ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, number) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG)")
    if os.getppid() != parent:
        raise SystemExit("the parent is gone")
