"""What a command says: its payload on stdout, everything else on stderr, and an exit code per error class.

With `--json` stdout holds exactly one JSON object: the payload, or `{"error": {…}}` with the whole error
record, since that is then the answer. Without it, stdout holds a table or a line, and an error only
reaches stderr.
"""

import os
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, NoReturn

import msgspec
import typer

from lessor.errors import Problem

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

PIPE_COLUMNS = 200
"""How wide tables are where no terminal says so."""

_UNSAFE = {
    code: "\N{REPLACEMENT CHARACTER}"
    for code in (*range(0x20), *range(0x7F, 0xA0), *range(0x202A, 0x202F), *range(0x2066, 0x206A))
    if chr(code) not in "\n\t"
}


def plain(text: str) -> str:
    """Text of a page or of a peer, without what would command a terminal or turn the line around."""
    return text.translate(_UNSAFE)


class Answer:
    """Where one command's payload goes."""

    def __init__(self, as_json: bool) -> None:
        self.as_json = as_json

    def give(self, payload: object, show: Callable[["Console"], None]) -> None:
        """The one payload: as JSON, or as `show` draws it for people."""
        if self.as_json:
            self.json(payload)
        else:
            show(console(sys.stdout.isatty()))

    def json(self, payload: object) -> None:
        sys.stdout.write(msgspec.json.encode(payload).decode() + "\n")
        sys.stdout.flush()

    def refuse(self, refusal: Problem) -> NoReturn:
        """Tell the problem and end with its class's exit code."""
        if self.as_json:
            self.json({"error": refusal})
        tell(f"lessor: {refusal.code}: {refusal.message}")
        raise typer.Exit(refusal.code.class_.exit)


def tell(line: str) -> None:
    """One line for the person, on stderr."""
    sys.stderr.write(plain(line) + "\n")
    sys.stderr.flush()


def say(line: bytes) -> None:
    """One line on stdout, now: whoever started this waits for it. A reader that has gone is no reason to stop."""
    try:
        sys.stdout.buffer.write(line + b"\n")
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def console(terminal: bool) -> "Console":
    from rich.console import Console

    if terminal:
        return Console(highlight=False, markup=False, emoji=False)
    return Console(highlight=False, markup=False, emoji=False, width=PIPE_COLUMNS)


def table(out: "Console", head: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Columns of plain text: nothing is cut, long values fold."""
    out.print(drawn(head, rows))


def drawn(head: Sequence[str], rows: Iterable[Sequence[str]]) -> "Table":
    from rich.table import Table

    columns = Table(*head, box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for column in columns.columns:
        column.overflow = "fold"
    for row in rows:
        columns.add_row(*map(plain, row))
    return columns


def fields(out: "Console", pairs: Iterable[tuple[str, object]]) -> None:
    """Name and value, a line each; what has no value is left out."""
    said = [(name, str(value)) for name, value in pairs if value is not None and value != ""]
    width = max((len(name) for name, _ in said), default=0)
    for name, value in said:
        out.print(f"{name:<{width}}  {plain(value)}", soft_wrap=True)


def console_for_errors() -> "Console":
    from rich.console import Console

    return Console(stderr=True, highlight=False, markup=False, emoji=False)
