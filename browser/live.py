"""Where live browsers lie: one private directory each, gone at close, swept at start (contract 27)."""

import hashlib
import os
import secrets
import shutil
from pathlib import Path

from lessor.browser.keeper import burial, ending, state
from lessor.browser.keeper.linux import boot_id, boot_ms

SHARED_MEMORY = Path("/dev/shm")  # noqa: S108 - only a directory of ours below it is used, and its owner is checked
GRAVES_MAX = 4096
WARM = "w-"


def live_directory(name: str, otherwise: Path) -> Path:
    """A place in memory for this user's host of that name, where there is one; else below `otherwise`."""
    # Sockets lie below it, and the kernel takes their paths up to 107 bytes: the name's mark is shorter than the name.
    name = hashlib.sha256(name.encode()).hexdigest()[:8]
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    if runtime and os.access(runtime, os.W_OK):
        return Path(runtime, "lessor", name)
    if os.access(SHARED_MEMORY, os.W_OK):
        return SHARED_MEMORY / f"lessor-{os.getuid()}" / name
    return otherwise / "live"


MAIN_TARGET = "main-target"


def remember_main(directory: Path, target: str) -> None:
    """The main tab was replaced: whoever finds the browser again looks for this one."""
    draft = directory / f".{MAIN_TARGET}"
    draft.write_text(target, "ascii")
    draft.rename(directory / MAIN_TARGET)


def main_of(directory: Path) -> str | None:
    """The main tab's target, where it was replaced since the lease began."""
    try:
        return (directory / MAIN_TARGET).read_text("ascii")
    except OSError:
        return None


class Live:
    """The directories of this host's browsers, by instance, and the graves of those confirmed gone. Blocking."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._browsers = root / "b"
        self._graves = root / "gone"
        self.scratch = root / "tmp"
        """Temporary files of the driver: emptied at start."""

    def __repr__(self) -> str:
        return f"<Live {self.root}>"

    def open(self) -> str:
        """Make the place private, end and bury what an earlier host left beyond its bounds, and answer the secret that
        this host's keepers know it by."""
        shutil.rmtree(self.scratch, ignore_errors=True)
        for directory in (self.root, self._browsers, self._graves, self.scratch):
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            if directory.stat().st_uid != os.getuid():
                raise PermissionError(f"{directory} belongs to somebody else: name another live directory.")
            directory.chmod(0o700)
        named = sorted(path.name for path in self._browsers.iterdir())
        alive = {path.name for path in ending.sweep(self._browsers)}
        for name in named:
            if name not in alive:
                self.bury(name, boot_ms())
        for grave in sorted(self._graves.iterdir(), key=lambda path: path.stat().st_mtime_ns)[:-GRAVES_MAX]:
            grave.unlink(missing_ok=True)
        return self._secret()

    def has_browsers(self) -> bool:
        """Whether an earlier host left any behind."""
        return self._browsers.is_dir() and any(self._browsers.iterdir())

    def directory(self, instance: str) -> Path:
        """Where that browser lies, or is to lie."""
        return (self._browsers / instance).resolve()

    def warm(self) -> Path:
        """A directory for a browser that is nobody's yet."""
        return self._browsers / f"{WARM}{secrets.token_hex(6)}"

    def name(self, directory: Path, instance: str) -> None:
        """Let a warm browser be found under its instance."""
        link = self._browsers / instance
        link.unlink(missing_ok=True)
        link.symlink_to(directory.name)

    def clear(self, instance: str) -> Path:
        """Make room for another browser of that instance, whose last one is gone."""
        path = self._browsers / instance
        burial.remove(str(path.resolve()))
        if path.is_symlink():
            path.unlink(missing_ok=True)
        return path

    def bury(self, instance: str, gone_ms: int) -> None:
        """Remember that it is gone, and since when; remove what is left of it."""
        draft = self._graves / f".{instance}"
        draft.write_text(f"{boot_id()} {gone_ms}\n", "ascii")
        draft.rename(self._graves / instance)
        self.clear(instance)

    def gone_ms(self, instance: str) -> int | None:
        """Since when it is known not to run; None when it may, or nothing is known of it here."""
        try:
            boot, gone_ms = (self._graves / instance).read_text("ascii").split()
        except (OSError, ValueError):
            return self._look(instance)
        return int(gone_ms) if boot == boot_id() else 0

    def _look(self, instance: str) -> int | None:
        directory = self.directory(instance)
        record = state.read(str(directory))
        if record is None or not ending.confirm_gone(directory):
            return None
        gone_ms = record["gone_at_ms"] if record["phase"] == "dead" else boot_ms()
        self.bury(instance, gone_ms)
        return gone_ms

    def _secret(self) -> str:
        path = self.root / "secret"
        try:
            with os.fdopen(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "w") as file:
                file.write(secrets.token_hex(32))
        except FileExistsError:
            pass
        return path.read_text("ascii")
