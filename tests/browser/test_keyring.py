"""Rotating keys: cut off after any step the next call goes on, and no key in use is dropped (contract 27)."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import pytest

from lessor.browser import envelope
from lessor.browser.envelope import Whose
from lessor.browser.keyring import Keyring
from lessor.cli.rotation import Rotated, rotate
from lessor.errors import Code, Problem, problem
from lessor.messages.ids import Caller

STEPS = 8
"""Marker, switch, three profiles, drop, end: one more than there are."""


@dataclass
class Profiles:
    """Owners in memory: each keeps one sealed state, and encrypts it anew when asked."""

    keyring: Keyring
    sealed: dict[str, bytes] = field(default_factory=dict[str, bytes])
    busy: set[str] = field(default_factory=set[str])
    journaled: dict[str, list[str]] | None = None
    """What the journals say, where that is not what the owners do."""

    def whose(self, name: str) -> Whose:
        return Whose(
            tenant="t", profile=name, principal="me", provider="chromium", origins=("https://a.b",), generation=1
        )

    def seal(self, name: str) -> None:
        closed = envelope.close(name.encode(), self.whose(name), self.keyring)
        assert not isinstance(closed, Problem), closed
        self.sealed[name] = closed[0]

    def opens(self, name: str) -> bool:
        return envelope.open_(self.sealed[name], self.whose(name), self.keyring) == name.encode()

    def key(self, name: str) -> str:
        return self.sealed[name][5 : 5 + self.sealed[name][4]].decode()

    async def profiles(self) -> tuple[tuple[str, Caller], ...]:
        return tuple((name, Caller("t", "me")) for name in self.sealed)

    async def rewrap(self, profile: str, caller: Caller, version: str) -> Problem | None:
        if profile in self.busy:
            return problem(Code.PROFILE_BUSY, "leased")
        if self.key(profile) != version:
            assert self.opens(profile)
            self.seal(profile)
        return None

    async def used(self) -> dict[str, list[str]]:
        if self.journaled is not None:
            return self.journaled
        used: dict[str, list[str]] = {}
        for name in self.sealed:
            used.setdefault(self.key(name), []).append(name)
        return used


@pytest.fixture
def three(tmp_path: Path) -> Profiles:
    profiles = Profiles(Keyring(tmp_path / "keys"))
    for name in ("a", "b", "c"):
        profiles.seal(name)
    return profiles


async def to_the_end(profiles: Profiles) -> Rotated:
    return [told async for told in rotate(profiles.keyring, profiles)][-1]


async def cut_off_after(profiles: Profiles, steps: int) -> None:
    rotation = rotate(profiles.keyring, profiles)
    for _ in range(steps):
        if await anext(rotation, None) is None:
            break


async def test_a_rotation_leaves_one_key_that_everything_is_under(three: Profiles) -> None:
    told = await to_the_end(three)
    assert (told.current, told.dropped, told.kept) == ("k2", ["k1"], [])
    assert three.keyring.versions() == ("k2",)
    assert {three.key(name) for name in three.sealed} == {"k2"}
    assert all(three.opens(name) for name in three.sealed)
    assert three.keyring.rotating() is None
    assert (await to_the_end(three)).current == "k3", "the next call is another rotation"


@pytest.mark.parametrize("steps", range(1, STEPS))
async def test_cut_off_after_any_step_it_is_gone_on_with(three: Profiles, steps: int) -> None:
    await cut_off_after(three, steps)
    assert all(three.opens(name) for name in three.sealed), "nothing is ever closed to its owner"
    three.seal("d")
    assert three.opens("d")
    told = await to_the_end(three)
    expected = "k2" if steps < STEPS - 1 else "k3"
    assert told.current == expected, "not begun anew"
    assert three.keyring.versions() == (expected,)
    assert all(three.opens(name) for name in three.sealed)


async def test_a_key_in_use_is_not_dropped(three: Profiles) -> None:
    three.busy = {"b"}
    told = await to_the_end(three)
    assert (told.kept, told.dropped, list(told.waiting)) == (["k1"], [], ["t/b"])
    assert three.opens("b")
    three.busy = set()
    told = await to_the_end(three)
    assert (told.current, told.dropped) == ("k2", ["k1"])
    assert three.opens("b")


async def test_a_key_that_only_the_journals_know_of_is_not_dropped(three: Profiles) -> None:
    """An owner that says it is done, and a journal that says otherwise: the journal wins."""
    sealed = three.sealed["c"]
    three.journaled = await three.used()
    told = await to_the_end(three)
    assert told.kept == ["k1"]
    three.sealed["c"] = sealed
    assert three.opens("c")


async def test_a_draft_that_a_crash_left_is_in_nobodys_way(three: Profiles) -> None:
    three.keyring.directory.joinpath(".k2.key.1").write_text("half")
    assert (await to_the_end(three)).current == "k2"
