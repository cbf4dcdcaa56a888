"""The host's secrets by reference: `<directory>/<tenant>/<name>`, 0600. Values never leave the host's pages."""

import os
from pathlib import Path

from lessor.errors import Code, Problem, problem

VALUE_BYTES_MAX = 4096


class Secrets:
    """Private files, one per secret. Blocking; values are never cached, so that a change counts at once."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def __repr__(self) -> str:
        return f"<Secrets {self._directory}>"

    def value(self, tenant: str, name: str) -> str | Problem:
        """The secret's value; a problem that says what to do when there is none or when others can read it."""
        path = self._directory / tenant / name
        try:
            with path.open("rb") as file:
                about = os.fstat(file.fileno())
                body = file.read(VALUE_BYTES_MAX + 1)
        except FileNotFoundError:
            return problem(
                Code.NEEDS_USER, f"The host has no secret {name!r}: store it there with `lessor secret set {name}`."
            )
        if about.st_mode & 0o077 or about.st_uid != os.geteuid():
            return problem(
                Code.NEEDS_USER, f"The secret {name!r} is not private (0600, the host's user): store it anew."
            )
        if len(body) > VALUE_BYTES_MAX:
            return problem(
                Code.NEEDS_USER, f"The secret {name!r} is longer than {VALUE_BYTES_MAX} bytes: store it anew."
            )
        return body.decode().removesuffix("\n")

    def store(self, tenant: str, name: str, value: str) -> None:
        """Write or replace a secret, durably. Raises OSError."""
        folder = self._directory / tenant
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for private in (self._directory, folder):
            private.chmod(0o700)
        draft = folder / f".{name}"
        with os.fdopen(os.open(draft, os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o600), "w") as file:
            file.write(value)
            file.flush()
            os.fsync(file.fileno())
        draft.rename(folder / name)

    def names(self, tenant: str) -> tuple[str, ...]:
        folder = self._directory / tenant
        return tuple(sorted(path.name for path in folder.glob("[!.]*"))) if folder.is_dir() else ()

    def remove(self, tenant: str, name: str) -> bool:
        """False when there was none."""
        path = self._directory / tenant / name
        existed = path.is_file()
        path.unlink(missing_ok=True)
        return existed
