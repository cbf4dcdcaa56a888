"""The keys that sealed state is encrypted with: files of a private directory (contract 27).

`<version>.key` holds 32 random bytes in hex, `current` the version that new seals use, `rotating` the version that a
rotation under way goes to: written first and removed last, so that a rotation that was cut off is gone on with, and
not begun anew. Old keys stay for as long as a generation needs them."""

import os
import re
import secrets
from pathlib import Path

from lessor.errors import Code, Problem, problem

KEY_BYTES = 32
VERSION = re.compile(r"[a-z0-9][a-z0-9_-]{0,31}")
FIRST = "k1"
ROTATING = "rotating"


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

    def versions(self) -> tuple[str, ...]:
        """Every key there is, by name."""
        found = (path.name.removesuffix(".key") for path in self.directory.glob("[!.]*.key"))
        return tuple(sorted((name for name in found if VERSION.fullmatch(name)), key=_order))

    def rotating(self) -> str | None:
        """Where a rotation that has begun and not ended goes to."""
        try:
            version = (self.directory / ROTATING).read_text("ascii").strip()
        except OSError:
            return None
        return version if VERSION.fullmatch(version) else None

    def begin_rotation(self) -> str | Problem:
        """The version to rotate to: that of the rotation under way, or a new one. Its key does not count yet."""
        current = self.current()
        if isinstance(current, Problem):
            return current
        version = self.rotating()
        if version is None:
            numbers = [int(name[1:]) for name in self.versions() if re.fullmatch(r"k[0-9]{1,9}", name)]
            version = f"k{max(numbers, default=0) + 1}"
            _write(self.directory / ROTATING, version)
        return version

    def make_current(self, version: str) -> Problem | None:
        """From here on new seals use it. Makes its key, unless a rotation that was cut off has."""
        path = self.directory / f"{version}.key"
        if not path.exists():
            _write(path, secrets.token_hex(KEY_BYTES))
        key = self.key(version)
        if isinstance(key, Problem):
            return key
        _write(self.directory / "current", version)
        return None

    def drop(self, version: str) -> None:
        """Remove a key that nothing needs any more: whoever calls has made sure. Never the current one."""
        current = self.current()
        assert not isinstance(current, Problem), current
        assert version != current[0], "the current key is in use"
        (self.directory / f"{version}.key").unlink(missing_ok=True)
        _settle(self.directory)

    def end_rotation(self) -> None:
        (self.directory / ROTATING).unlink(missing_ok=True)
        _settle(self.directory)


def _order(version: str) -> tuple[int, str]:
    return len(version), version


def _settle(directory: Path) -> None:
    """A name that came or went is on disk only with its directory."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _write(path: Path, text: str) -> None:
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    with os.fdopen(os.open(draft, os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o600), "w") as file:
        file.write(text + "\n")
        file.flush()
        os.fsync(file.fileno())
    draft.rename(path)
    _settle(path.parent)


def _broken(what: str, advice: str) -> Problem:
    return problem(Code.SETUP_FAILED, f"The key directory {what}. {advice}")
