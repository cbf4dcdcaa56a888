"""The demo's timeline: who did what when. Colours on a terminal, plain text elsewhere, a picture on request."""

import re
import time
from pathlib import Path
from typing import IO, Final

from rich.console import Console
from rich.text import Text

LOUD: Final = "bold red"
COLUMNS: Final = 104
FONTS: Final = re.compile(r"\s*@font-face \{[^}]*\}")
ACTORS: Final = {
    "you": "bold",
    "worker": "cyan",
    "host": "magenta",
    "site": "green",
    "journal": "blue",
}
"""Style by the first word of an actor's name."""


class Timeline:
    """Rows are printed as they come, each with the seconds since the start."""

    def __init__(self, to: IO[str], *, picture: bool) -> None:
        terminal = to.isatty()
        width = None if terminal and not picture else COLUMNS
        self._console = Console(file=to, width=width, record=picture, highlight=False, soft_wrap=not picture)
        self.began_s = time.monotonic()

    def row(self, actor: str, what: str, *, loud: bool = False) -> None:
        """`loud` is for what goes wrong on purpose."""
        seconds = time.monotonic() - self.began_s
        style = LOUD if loud else ACTORS.get(actor.partition(" ")[0], "")
        line = Text.assemble((f"{seconds:7.3f} s  ", "dim"), (f"{actor:<10}", style), (what, LOUD if loud else ""))
        self._console.print(line)

    def heading(self, text: str) -> None:
        self._console.print(Text(f"\n{text}", "bold underline" if self._console.is_terminal else "bold"))

    def verdict(self, text: str, *, good: bool) -> None:
        self._console.print(Text(f"\n{text}", "bold green" if good else "bold red"))

    def save(self, path: Path) -> None:
        """The rows so far as a picture (SVG) that asks nobody for fonts. Needs `picture`."""
        path.write_text(FONTS.sub("", self._console.export_svg(title="lessor demo")))
