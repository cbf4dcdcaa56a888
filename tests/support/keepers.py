"""The processes behind a live page, as their keeper recorded them: to end, stop and watch by pid."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from lessor.browser.keeper import state
from tests.support.broker import until

if TYPE_CHECKING:
    from lessor.browser.keeper.state import State

Part = Literal["keeper", "guard", "browser", "egress"]


@dataclass(frozen=True)
class Tree:
    """A keeper, its guard, its browser and its egress process."""

    directory: Path
    state: State

    def pid(self, part: Part) -> int:
        return self.state[part]

    def signal(self, part: Part, number: signal.Signals) -> None:
        os.kill(self.pid(part), number)

    def kill(self, part: Part) -> None:
        self.signal(part, signal.SIGKILL)

    @property
    def living(self) -> list[int]:
        return state.living(self.state)

    async def gone(self, within_s: float) -> None:
        """Wait until no process of the tree is left."""
        await until(lambda: not self.living, within_s)


def trees(live: Path) -> Iterator[Tree]:
    """Of every browser below a live directory."""
    for directory in sorted((live / "b").glob("*")):
        found = None if directory.is_symlink() else state.read(str(directory))
        if found is not None:
            yield Tree(directory, found)


def tree_of(live: Path, instance: str) -> Tree:
    directory = (live / "b" / instance).resolve()
    found = state.read(str(directory))
    assert found is not None, directory
    return Tree(directory, found)
