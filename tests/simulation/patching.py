"""Unified diffs, applied strictly: every line of a hunk must be there. Needs no tool of the system."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path


class DoesNotApply(Exception):
    """The source has changed where the patch changes it."""


@dataclass(frozen=True, slots=True)
class Hunk:
    path: str
    line: int
    before: tuple[str, ...]
    after: tuple[str, ...]


def hunks(patch: str) -> Iterator[Hunk]:
    """`a/` and `b/` are taken off the names."""
    path, lines = "", patch.splitlines()
    place = 0
    while place < len(lines):
        line = lines[place]
        place += 1
        if line.startswith("+++ "):
            path = line[4:].split("\t")[0].split("/", 1)[1]
        elif begins := re.match(r"@@ -(\d+)(?:,(\d+))? \+\d+(?:,(\d+))? @@", line):
            old, new = int(begins[2] or 1), int(begins[3] or 1)
            before, after = list[str](), list[str]()
            while len(before) < old or len(after) < new:
                mark, text = lines[place][:1], lines[place][1:]
                before += [text] if mark in " -" else []
                after += [text] if mark in " +" else []
                place += 1
            yield Hunk(path, int(begins[1]), tuple(before), tuple(after))


def apply(patch: str, root: Path, *, dry: bool = False) -> None:
    """Raises DoesNotApply. A hunk may have moved: the nearest place where all its lines are is taken."""
    texts: dict[str, list[str]] = {}
    moved: dict[str, int] = {}
    for hunk in hunks(patch):
        text = texts.setdefault(hunk.path, (root / hunk.path).read_text().splitlines())
        at = _find(text, hunk, hunk.line - 1 + moved.get(hunk.path, 0))
        text[at : at + len(hunk.before)] = hunk.after
        moved[hunk.path] = at + len(hunk.after) - len(hunk.before) - (hunk.line - 1)
    if not texts:
        raise DoesNotApply("there is no hunk")
    if not dry:
        for path, text in texts.items():
            (root / path).write_text("\n".join(text) + "\n")


def _find(text: list[str], hunk: Hunk, wanted: int) -> int:
    size = len(hunk.before)
    places = [at for at in range(len(text) - size + 1) if tuple(text[at : at + size]) == hunk.before]
    if not places:
        raise DoesNotApply(f"{hunk.path}:{hunk.line}: {hunk.before[len(hunk.before) // 2].strip()}")
    return min(places, key=lambda at: abs(at - wanted))
