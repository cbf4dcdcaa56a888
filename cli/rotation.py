"""Rotating the keys of sealed state (contract 27): each step stands for itself, so that any of them may be the last.

A new key becomes current; every profile's owner encrypts what it keeps anew; what nobody needs then is
dropped. A rotation that was cut off is gone on with by the next call.
"""

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Protocol

from lessor.browser.keyring import Keyring
from lessor.errors import Code, Problem, error_of
from lessor.messages.ids import Caller


class Holders(Protocol):
    """Everybody whose state is sealed."""

    async def profiles(self) -> tuple[tuple[str, Caller], ...]: ...
    async def rewrap(self, profile: str, caller: Caller, version: str) -> Problem | None: ...
    async def used(self) -> dict[str, list[str]]: ...


@dataclass(slots=True)
class Rotated:
    """What came of it. `waiting`: profiles that could not be done now, with the reason; their keys stay."""

    current: str
    rewrapped: list[str] = field(default_factory=list[str])
    dropped: list[str] = field(default_factory=list[str])
    waiting: dict[str, str] = field(default_factory=dict[str, str])
    kept: list[str] = field(default_factory=list[str])


async def rotate(keyring: Keyring, holders: Holders) -> AsyncIterator[Rotated]:
    """Yields after each durable step; the last one says how it ended. Raises LessorError on a damaged key directory.

    An old key is dropped only when every owner has said, after the switch, that it needs none but the
    new one and seals nothing just now, and when the journals agree.
    """
    version = keyring.begin_rotation()
    if isinstance(version, Problem):
        raise error_of(version)
    told = Rotated(version)
    yield told
    refused = keyring.make_current(version)
    if refused is not None:
        raise error_of(refused)
    yield told
    for profile, caller in await holders.profiles():
        waits = await holders.rewrap(profile, caller, version)
        name = f"{caller.tenant}/{profile}"
        if waits is None:
            told.rewrapped.append(name)
        elif waits.code is not Code.NOT_FOUND:
            told.waiting[name] = waits.message
        yield told
    used = await holders.used()
    for old in keyring.versions():
        if old == version:
            continue
        if told.waiting or old in used:
            told.kept.append(old)
            continue
        keyring.drop(old)
        told.dropped.append(old)
        yield told
    if not told.kept:
        keyring.end_rotation()
    yield told
