"""Credentials files: what a NATS user proves itself with, and whose subjects it may use.

    # lessor-tenant: acme
    # lessor-principal: ann
    SUA…

The line with the seed is all that NATS needs (`nats --nkey FILE` takes the file as it is). A `.creds` file
of an operator's broker serves as well, with or without the two comments above its blocks.
"""

import os
import re
import secrets
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import nkeys  # type: ignore[import-untyped]  # ships no types

from lessor.errors import Code, Problem, problem
from lessor.messages.ids import Caller

BYTES_MAX: Final = 64 * 1024
DEFAULT: Final = Caller("local", "me")
"""Whoever owns a data directory, as long as nobody says otherwise."""

_SEED: Final = re.compile(r"^(SU[A-Z2-7]{56})\s*$", re.MULTILINE)
_JWT: Final = "BEGIN NATS USER JWT"
_SAID: Final = re.compile(r"^# lessor-(tenant|principal): ([a-z0-9][a-z0-9_-]{0,62})\s*$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Credentials:
    """What a file holds: a seed, or, where there is a JWT too, the file itself for the client to read."""

    seed: str = field(repr=False)
    signed: Path | None = None
    tenant: str | None = None
    principal: str | None = None

    @property
    def public_key(self) -> str:
        return public_key(self.seed)


def public_key(seed: str) -> str:
    pair = nkeys.from_seed(bytearray(seed.encode()))  # pyright: ignore[reportUnknownMemberType]  # untyped
    return str(pair.public_key, "ascii")  # pyright: ignore[reportArgumentType]  # it says VerifyKey and gives bytes


def read(path: Path) -> Credentials | Problem:
    """Blocking, a small file."""
    try:
        with path.open("rb") as file:
            text = file.read(BYTES_MAX).decode("ascii", "replace")
    except OSError as error:
        return _useless(path, error.strerror or str(error))
    seed = _SEED.search(text)
    if seed is None:
        return _useless(path, "it holds no user's seed")
    said = dict(_SAID.findall(text))
    return Credentials(seed[1], path if _JWT in text else None, said.get("tenant"), said.get("principal"))


def make(path: Path, caller: Caller | None) -> Credentials:
    """A new user's file, 0600, whole or not at all. Raises OSError."""
    raw = secrets.token_bytes(32)
    encoded = nkeys.encode_seed(raw, nkeys.PREFIX_BYTE_USER)  # pyright: ignore[reportUnknownMemberType]  # untyped
    seed = str(encoded, "ascii")
    whose = f"# lessor-tenant: {caller.tenant}\n# lessor-principal: {caller.principal}\n" if caller else ""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    fresh = path.with_name(f"{path.name}.new")
    fd = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with os.fdopen(fd, "w") as file:
        file.write(f"{whose}{seed}\n")
        file.flush()
        os.fsync(fd)
    fresh.replace(path)
    return Credentials(seed, None, caller.tenant if caller else None, caller.principal if caller else None)


def caller_of(credentials: Path | None, tenant: str | None, principal: str | None) -> Caller:
    """Who that is: what the file says, else what is given, else the owner of a data directory.

    A file that cannot be read says nothing here; whoever connects with it is told what is wrong.
    """
    told = read(credentials) if credentials is not None else None
    said = told if isinstance(told, Credentials) else None
    return Caller(
        (said.tenant if said else None) or tenant or DEFAULT.tenant,
        (said.principal if said else None) or principal or DEFAULT.principal,
    )


def _useless(path: Path, why: str) -> Problem:
    return problem(Code.SETUP_FAILED, f"The credentials in {path} cannot be used ({why}): get new ones.")
