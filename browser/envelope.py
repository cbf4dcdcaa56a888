"""Sealed state: AES-256-GCM, with everything that says whose it is as authenticated data (contract 27).

An envelope is `LSR1`, the key version's length and the version, 12 bytes of nonce, and the ciphertext with its tag."""

import os
from typing import Final

import msgspec
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from lessor.browser.keyring import Keyring
from lessor.errors import Code, Problem, problem

MAGIC: Final = b"LSR1"
NONCE_BYTES: Final = 12
STATE_BYTES_MAX: Final = 64 << 20
OVERHEAD_BYTES_MAX: Final = 128
FORMAT: Final = 1


class Whose(msgspec.Struct, frozen=True, kw_only=True):
    """What a sealed state is bound to: it opens for nothing else."""

    tenant: str
    profile: str
    principal: str
    provider: str
    origins: tuple[str, ...]
    generation: int


class FileOf(msgspec.Struct, frozen=True, kw_only=True):
    """What a sealed file is bound to."""

    tenant: str
    profile: str
    principal: str
    instance: str
    artifact: str


class _Bound(msgspec.Struct, frozen=True):
    format: int
    key: str
    whose: Whose | FileOf


def close(state: bytes, whose: Whose | FileOf, keyring: Keyring) -> tuple[bytes, str] | Problem:
    """Encrypt with the current key and a fresh nonce; answers the envelope and the key version."""
    if len(state) > STATE_BYTES_MAX:
        return problem(Code.SEAL_FAILED, f"The state has {len(state)} bytes, {STATE_BYTES_MAX} at most can be sealed.")
    current = keyring.current()
    if isinstance(current, Problem):
        return current
    version, key = current
    nonce = os.urandom(NONCE_BYTES)
    name = version.encode("ascii")
    sealed = AESGCM(key).encrypt(nonce, state, _bound(version, whose))
    return MAGIC + bytes([len(name)]) + name + nonce + sealed, version


def open_(envelope: bytes, whose: Whose | FileOf, keyring: Keyring) -> bytes | Problem:
    """Decrypt; anything that does not fit is a Problem, never a partial state."""
    if len(envelope) > STATE_BYTES_MAX + OVERHEAD_BYTES_MAX:
        return _damaged()
    at = len(MAGIC)
    if envelope[:at] != MAGIC or len(envelope) < at + 1:
        return _damaged()
    end = at + 1 + envelope[at]
    try:
        version = envelope[at + 1 : end].decode("ascii")
    except UnicodeDecodeError:
        return _damaged()
    key = keyring.key(version)
    if isinstance(key, Problem):
        return key
    nonce, sealed = envelope[end : end + NONCE_BYTES], envelope[end + NONCE_BYTES :]
    try:
        return AESGCM(key).decrypt(nonce, sealed, _bound(version, whose))
    except (InvalidTag, ValueError):
        return _damaged()


def _bound(version: str, whose: Whose | FileOf) -> bytes:
    return msgspec.json.encode(_Bound(FORMAT, version, whose))


def _damaged() -> Problem:
    return problem(
        Code.SETUP_FAILED,
        "The sealed state does not open as this profile's: it is damaged, or belongs to another one. Roll the profile"
        " back to an earlier generation.",
    )
