"""The demo's timeline: who did what when, for people; colours on a terminal, plain text elsewhere, a picture on request."""

import time
from pathlib import Path
from typing import IO, Final

from rich.console import Console
from rich.text import Text

COLUMNS: Final = 104
ACTORS: Final = {"you": "bold", "worker": "cyan", "host": "magenta", "site": "green", "journal": "blue", "!": "bold red"}
"""Style by the first word of an actor's name."""


class Timeline:
    """Rows are printed as they come, each with the seconds since the start."""

    def __init__(self, to: IO[str], *, picture: bool) -> None:
        terminal = to.isatty()
        width = None if terminal and not picture else COLUMNS
        self._console = Console(file=to, width=width, record=picture, highlight=False, soft_wrap=not picture)
        self.began_s = time.monotonic()

    def row(self, actor: str, what: str, *, at_s: float | None = None, loud: bool = False) -> None:
        """`loud` is for what goes wrong on purpose."""
        seconds = (time.monotonic() if at_s is None else at_s) - self.began_s
        style = ACTORS.get("!" if loud else actor.partition(" ")[0], "")
        line = Text.assemble((f"{seconds:7.3f} s  ", "dim"), (f"{actor:<10}", style), (what, "bold red" if loud else ""))
        self._console.print(line)

    def heading(self, text: str) -> None:
        self._console.print(Text(f"\n{text}", "bold underline" if self._console.is_terminal else "bold"))

    def verdict(self, text: str, *, good: bool) -> None:
        self._console.print(Text(f"\n{text}", "bold green" if good else "bold red"))

    def save(self, path: Path) -> None:
        """The rows so far as a picture (SVG). Needs `picture`."""
        self._console.save_svg(str(path), title="lessor demo")
