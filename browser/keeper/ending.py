"""Ending browsers from outside: for hosts whose keeper does not answer, and for those that start after a
crash.

All of it reads /proc and waits in short sleeps: call it from a thread, or before there is an event loop.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from lessor.browser.keeper import burial, linux, state, tree

if TYPE_CHECKING:
    from lessor.browser.keeper.state import State


def confirm_gone(directory: Path) -> bool:
    """Is nothing left of the tree recorded there? True as well when nothing was ever recorded."""
    record = state.read(str(directory))
    return record is None or not state.living(record)


def end(directory: str, epoch: int, timeout_s: float = 1.0) -> State | None:
    """See a keeper's tree dead: wait for one that is ending, else kill it, unless a higher epoch has it.

    Answers its record, of phase `dead` when it is; None when something survived."""
    record = state.read(directory)
    if record is None:
        return None
    if record["phase"] == "dead":
        return record if _is_buried(record, timeout_s) else None
    if record["epoch"] > epoch:
        return record
    return _kill(directory, record)


def sweep(root: Path) -> list[Path]:
    """At a host's start: see every keeper below `root` dead that is past its deadline or has lost its keeper,
    and remove its directory. Answers the directories of those that live on within their bounds."""
    alive: list[Path] = []
    for directory in sorted(path for path in root.iterdir() if path.is_dir()) if root.is_dir() else ():
        record = state.read(str(directory))
        if record is not None and state.is_of_this_boot(record):
            if state.is_keeper_alive(record) and linux.boot_ms() < record["deadline_ms"]:
                alive.append(directory)
                continue
            if _kill(str(directory), record) is None:
                alive.append(directory)
                continue
        if record is not None:
            burial.remove(record["user_data"])
        burial.remove(str(directory))
    return alive


def abandon(pid: int, directory: str, user_data: str) -> None:
    """After a start that failed: nothing of it stays, not even its record. The keeper must be our child."""
    record = state.read(directory)
    start = tree.start_of(pid)
    tree.kill(pid, start)
    if record is not None and record["keeper"] == pid:
        _kill(directory, record)
    tree.is_gone_soon(pid, start)
    os.waitpid(pid, os.WNOHANG)
    burial.remove(user_data)
    burial.remove(directory)


def _kill(directory: str, record: State) -> State | None:
    killed_at_ms = linux.boot_ms()
    tree.kill(record["egress"], record["egress_start"])
    tree.kill(record["keeper"], record["keeper_start"])
    if not burial.kill(record):
        return None
    # The guard does the same work at this moment, and may have written what it knows better.
    if not tree.is_gone_soon(record["guard"], record["guard_start"]):
        tree.kill(record["guard"], record["guard_start"])
    latest = state.read(directory) or record
    if latest["phase"] != "dead":
        burial.bury(directory, latest, "killed_by_host", killed_at_ms)
    return latest


def _is_buried(record: State, timeout_s: float) -> bool:
    limit_ms = linux.boot_ms() + int(timeout_s * 1000)
    while state.living(record):
        if linux.boot_ms() >= limit_ms:
            return False
        tree.is_gone_soon(record["keeper"], record["keeper_start"])
    return True
