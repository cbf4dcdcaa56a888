"""The end of a browser, whoever brings it: its keeper, its guard, or a host that sweeps."""

from __future__ import annotations

import os

from lessor.browser.keeper import linux, state, tree

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from lessor.browser.keeper.state import State


def kill(record: State) -> bool:
    """SIGKILL egress, then the browser; True when nothing of either is left. Egress goes first, so that
    nothing it had buffered for the page can leave after it."""
    tree.kill(record["egress"], record["egress_start"])
    mark = tree.mark_of(record["keeper"], record["keeper_start"])
    gone = tree.kill_browser(record["browser"], record["browser_start"], mark)
    return gone and tree.is_gone_soon(record["egress"], record["egress_start"])


def bury(directory: str, record: State, why: str, killed_at_ms: int) -> None:
    """Record the death of a tree that is gone, then remove everything else: the profile is plaintext."""
    record["phase"] = "dead"
    record["why"] = why
    record["killed_at_ms"] = killed_at_ms
    record["gone_at_ms"] = linux.boot_ms()
    state.write(directory, record)
    remove(record["user_data"])
    remove(directory, keep=state.FILE)


def remove(path: str, keep: str = "") -> None:
    """Remove a directory as far as that is possible; with `keep`, all but that file of it."""
    for folder, folders, files in os.walk(path, topdown=False):
        for name in files:
            if folder != path or name != keep:
                _quietly(os.unlink, os.path.join(folder, name))
        for name in folders:
            inner = os.path.join(folder, name)
            _quietly(os.unlink if os.path.islink(inner) else os.rmdir, inner)
    if not keep:
        _quietly(os.rmdir, path)


def _quietly(remover: Callable[[str], None], path: str) -> None:
    try:
        remover(path)
    except OSError:
        pass
