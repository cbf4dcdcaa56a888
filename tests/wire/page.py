"""`docs/wire.md` as data: its fenced examples, and the rows of its table of errors."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, cast

PAGE = (Path(__file__).parents[2] / "docs" / "wire.md").read_text()
_FENCE = re.compile(r"^```json (request|reply)=(\S+)\n(.*?)\n```$", re.DOTALL | re.MULTILINE)
_ANY_JSON = re.compile(r"^```json", re.MULTILINE)
_ROW = re.compile(r"^\| `(\w+)` \| `(\w+)` \| `(\w+)` \| (yes|no) \| (kept|dropped|\S) \| (.+) \|$", re.MULTILINE)


@dataclass(frozen=True)
class Example:
    """One fenced block. `name` is a verb (`act`, `r.take`, `h.renew`, `list`) or a reply's type."""

    side: Literal["request", "reply"]
    name: str
    body: str

    def __str__(self) -> str:
        return f"{self.side} {self.name}"


@dataclass(frozen=True)
class Row:
    code: str
    class_: str
    effect: str
    retryable: bool
    lease: str
    todo: str


def examples() -> list[Example]:
    """Every JSON block of the page; one that is not marked as request or reply is a mistake of the page."""
    found = [
        Example(cast("Literal['request', 'reply']", side), name, body) for side, name, body in _FENCE.findall(PAGE)
    ]
    assert len(found) == len(_ANY_JSON.findall(PAGE))
    return found


def requests() -> dict[str, str]:
    """The first example of each request."""
    return {example.name: example.body for example in reversed(examples()) if example.side == "request"}


def rows() -> list[Row]:
    return [
        Row(code, class_, effect, again == "yes", *rest) for code, class_, effect, again, *rest in _ROW.findall(PAGE)
    ]
