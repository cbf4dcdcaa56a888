"""state.json: what a keeper leaves for whoever comes after its host, and after itself."""

from __future__ import annotations

import json
import os

from lessor.browser.keeper import linux, tree

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Literal, TypedDict

    class State(TypedDict):
        """Times are boot milliseconds, starts are clock ticks since boot, `last_command_ms` is by epoch."""

        phase: Literal["starting", "live", "dead"]
        boot_id: str
        keeper: int
        keeper_start: int
        guard: int
        guard_start: int
        browser: int
        browser_start: int
        egress: int
        egress_start: int
        epoch: int
        deadline_ms: int
        user_data: str
        last_command_ms: dict[str, int]
        why: str
        killed_at_ms: int
        gone_at_ms: int
        log: str


FILE = "state.json"


def read(directory: str) -> State | None:
    """The state recorded in a keeper's directory, None when there is none to be read."""
    try:
        with open(os.path.join(directory, FILE), "rb") as file:
            state: State = json.load(file)
    except (OSError, ValueError):
        return None
    return state


def write(directory: str, state: State) -> None:
    """Replace the state in one step; readers see the old one or the new one."""
    path = os.path.join(directory, FILE)
    draft = f"{path}.{os.getpid()}"
    with open(os.open(draft, os.O_CREAT | os.O_WRONLY | os.O_TRUNC | os.O_CLOEXEC, 0o600), "w") as file:
        json.dump(state, file)
    os.rename(draft, path)


def is_of_this_boot(state: State) -> bool:
    return state["boot_id"] == linux.boot_id()


def is_keeper_alive(state: State) -> bool:
    """Does the keeper that wrote this still run? Another boot's never does."""
    return is_of_this_boot(state) and tree.is_alive(state["keeper"], state["keeper_start"])


def living(state: State) -> list[int]:
    """Pids of the recorded keeper's whole tree that still run."""
    if not is_of_this_boot(state):
        return []
    named = [
        (state["keeper"], state["keeper_start"]),
        (state["guard"], state["guard_start"]),
        (state["egress"], state["egress_start"]),
    ]
    alive = [pid for pid, start in named if tree.is_alive(pid, start)]
    mark = tree.mark_of(state["keeper"], state["keeper_start"])
    return alive + tree.browser_processes(state["browser"], state["browser_start"], mark)
