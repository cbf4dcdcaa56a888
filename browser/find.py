"""Finding a Chromium, and the binary behind a distribution's start script."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

NAMES = ("chromium-headless-shell", "chromium", "google-chrome", "google-chrome-stable")
DOWNLOADED = ("headless_shell", "chrome-headless-shell", "chrome")
HEADLESS_ONLY = ("chromium-headless-shell",)
HEADED = ("chrome",)
ELF = b"\x7fELF"
SCRIPT_BYTES_MAX = 64 << 10


def find_chromium(*, headed: bool = False) -> Path | None:
    """The first of the usual names on the PATH, else Playwright's own download, else None. The path is that
    of the real binary: a start script that does not exec would stand between it and its keeper's death
    signal. `headed`: one that can show a window."""
    for name in NAMES:
        if headed and name in HEADLESS_ONLY:
            continue
        found = shutil.which(name)
        binary = None if found is None else resolve(Path(found))
        if binary is not None:
            return binary
    return _find_downloaded(HEADED if headed else DOWNLOADED)


def resolve(path: Path) -> Path | None:
    """The ELF binary that `path` is, links to, or as a shell script starts; None when that cannot be told."""
    path = path.resolve()
    try:
        with path.open("rb") as file:
            text = file.read(SCRIPT_BYTES_MAX)
    except OSError:
        return None
    if text.startswith(ELF):
        return path
    if not text.startswith(b"#!"):
        return None
    return _named_by(text.decode("utf-8", "replace"), path)


def _named_by(script: str, path: Path) -> Path | None:
    """Scripts either name the binary in full or a library directory that holds one of the script's name."""
    directories = re.findall(r"(/[\w./-]*(?:lib|lib64|opt)/[\w./$-]+)", script)
    for named in directories:
        place = Path(named.replace("$APPNAME", path.name))
        for candidate in (place, place / path.name, place / "chrome"):
            if candidate != path and candidate.is_file() and _is_elf(candidate):
                return candidate
    beside = path.with_name("chrome")
    return beside if beside != path and _is_elf(beside) else None


def _find_downloaded(names: tuple[str, ...]) -> Path | None:
    place = os.environ.get("PLAYWRIGHT_BROWSERS_PATH") or Path.home() / ".cache" / "ms-playwright"
    for name in names:
        for path in sorted(Path(place).glob(f"chromium*/**/{name}"), reverse=True):
            if _is_elf(path):
                return path
    return None


def _is_elf(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return file.read(len(ELF)) == ELF and os.access(path, os.X_OK)
    except OSError:
        return False
