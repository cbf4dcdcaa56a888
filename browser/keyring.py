"""The keys that sealed state is encrypted with: files of a private directory (contract 27).

`<version>.key` holds 32 random bytes in hex, `current` the version that new seals use. To rotate, write another key and
then `current`; old keys stay for as long as a generation needs them."""

import os
import re
import secrets
from pathlib import Path

from lessor.errors import Code, Problem, problem

KEY_BYTES = 32
VERSION = re.compile(r"[a-z0-9][a-z0-9_-]{0,31}")
FIRST = "k1"


class Keyring:
    """Reads its files on each use, so that a rotation needs no restart. Blocking: a few file reads."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def __repr__(self) -> str:
        return f"<Keyring {self.directory}>"

    def ensure(self) -> bool:
        """Make directory and first key where there is neither; True when it did. An existing directory that has keys
        but no `current` is left alone: that is damage, and `current()` says so."""
        self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.directory.chmod(0o700)
        if any(self.directory.iterdir()):
            return False
        _write(self.directory / f"{FIRST}.key", secrets.token_hex(KEY_BYTES))
        _write(self.directory / "current", FIRST)
        return True

    def current(self) -> tuple[str, bytes] | Problem:
        """Version and key for new seals."""
        self.ensure()
        try:
            version = (self.directory / "current").read_text("ascii").strip()
        except (OSError, ValueError):
            return _broken("names no current key", "Restore the file `current` with the version to use.")
        key = self.key(version)
        return key if isinstance(key, Problem) else (version, key)

    def key(self, version: str) -> bytes | Problem:
        """The key of that version."""
        if not VERSION.fullmatch(version):
            return _broken("is asked for a key version that cannot exist", "The sealed state is damaged: roll it back.")
        path = self.directory / f"{version}.key"
        try:
            if path.stat().st_mode & 0o077:
                return _broken(f"has {version}.key readable by others", "Set its mode to 0600, and rotate it.")
            key = bytes.fromhex(path.read_text("ascii").strip())
        except FileNotFoundError:
            return _broken(f"has no {version}.key", "Restore it from your backup: without it the state stays closed.")
        except (OSError, ValueError):
            return _broken(f"has a {version}.key that cannot be read", "Restore it from your backup.")
        if len(key) != KEY_BYTES:
            return _broken(f"has a {version}.key of {len(key)} bytes", f"A key has {KEY_BYTES}, in hex: restore it.")
        return key


def _write(path: Path, text: str) -> None:
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    with os.fdopen(os.open(draft, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "w") as file:
        file.write(text + "\n")
        file.flush()
        os.fsync(file.fileno())
    draft.rename(path)


def _broken(what: str, advice: str) -> Problem:
    return problem(Code.SETUP_FAILED, f"The key directory {what}. {advice}")
