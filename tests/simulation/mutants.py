"""Planted bugs: patches to the shipped source, each of which the checker must catch.

A patch begins with a few lines of text: what is broken, and the seeds that show it, cheapest first
(`Seeds: 3 17`). It is applied to a copy of the source, and the copy simulates those seeds, then others, until
one of them shows a violation.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from tests.simulation import patching

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
PATCHES = HERE / "mutants"
FOLDERS = ("lessor", "actors", "broker", "browser", "cli", "messages", "tests")
OTHER_SEEDS = range(60)
RUN_S_MAX = 240


@dataclass(frozen=True, slots=True)
class Mutant:
    name: str
    patch: Path

    @property
    def text(self) -> str:
        return self.patch.read_text().split("--- ", 1)[0].strip()

    @property
    def seeds(self) -> tuple[int, ...]:
        """Those of the patch first; the source changes, and then others may show it."""
        named = re.search(r"^Seeds:([ 0-9]*)$", self.text, re.MULTILINE)
        first = [int(word) for word in named.group(1).split()] if named else []
        return tuple(dict.fromkeys([*first, *OTHER_SEEDS]))


@dataclass(frozen=True, slots=True)
class Killed:
    """By which seed and predicates; seed None: it survived."""

    mutant: Mutant
    seed: int | None
    predicates: tuple[str, ...]


def mutants() -> list[Mutant]:
    return [Mutant(patch.stem, patch) for patch in sorted(PATCHES.glob("*.patch"))]


def applies(mutant: Mutant) -> str | None:
    """Why it does not apply to the source as it is; None when it does."""
    try:
        patching.apply(mutant.patch.read_text(), ROOT, dry=True)
    except patching.DoesNotApply as error:
        return str(error)
    return None


def kill(mutant: Mutant) -> Killed:
    with tempfile.TemporaryDirectory(prefix="lessor-mutant-") as place:
        copy = Path(place)
        for folder in FOLDERS:
            shutil.copytree(
                ROOT / folder, copy / folder, symlinks=True, ignore=shutil.ignore_patterns("__pycache__", "*.patch")
            )
        patching.apply(mutant.patch.read_text(), copy)
        seeds = ",".join(map(str, mutant.seeds))
        done = subprocess.run(
            [sys.executable, "-m", "tests.simulation", "--only", seeds, "--first", "--jobs", "1"],
            cwd=copy,
            env={**os.environ, "PYTHONPATH": place},
            capture_output=True,
            text=True,
            check=False,
            timeout=RUN_S_MAX,
        )
    lines = done.stdout.strip().splitlines()
    if not lines:
        raise AssertionError(f"{mutant.name}: {done.stderr[-2000:]}")
    told = json.loads(lines[-1])
    return Killed(mutant, told["seed"], tuple(told["predicates"]))
