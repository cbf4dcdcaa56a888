"""What is sealed comes back, for its owner only (contract 25, 27; B28, B29)."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec
import pytest

from lessor.browser import envelope
from lessor.browser.envelope import STATE_BYTES_MAX, Whose
from lessor.browser.keyring import Keyring
from lessor.browser.session import LiveSession
from lessor.errors import Code, Problem
from lessor.messages.action import Click
from lessor.ports import Away, SealedState
from tests.support.engines import Rig, go, look, named, script, soon
from tests.support.web import Web

WHOSE = Whose(
    tenant="t", profile="p", principal="ann", provider="chromium", origins=("https://a.example",), generation=3
)


@pytest.fixture
def keyring(tmp_path: Path) -> Keyring:
    return Keyring(tmp_path / "keys")


def test_an_envelope_opens_for_its_owner(keyring: Keyring) -> None:
    sealed, version = _close(b"state", keyring)
    assert envelope.open_(sealed, WHOSE, keyring) == b"state"
    assert version == "k1"
    assert b"state" not in sealed
    assert _close(b"state", keyring)[0] != sealed, "a fresh nonce each time"
    modes = {path.name: path.stat().st_mode & 0o777 for path in keyring.directory.iterdir()}
    assert modes == {"current": 0o600, "k1.key": 0o600}
    assert keyring.directory.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("field", ["tenant", "profile", "principal", "provider", "origins", "generation"])
def test_an_envelope_opens_for_nobody_else(keyring: Keyring, field: str) -> None:
    sealed, _ = _close(b"state", keyring)
    other = {"origins": ("https://b.example",), "generation": 4}.get(field, "other")
    _refused(envelope.open_(sealed, msgspec.structs.replace(WHOSE, **{field: other}), keyring))


def test_damage_fails_closed(keyring: Keyring) -> None:
    sealed, _ = _close(b"state", keyring)
    for at in range(len(sealed)):
        _refused(envelope.open_(sealed[:at] + bytes([sealed[at] ^ 1]) + sealed[at + 1 :], WHOSE, keyring))
        _refused(envelope.open_(sealed[:at], WHOSE, keyring))


def test_a_rotated_key_still_opens_and_a_lost_one_does_not(keyring: Keyring) -> None:
    sealed, _ = _close(b"state", keyring)
    (keyring.directory / "k2.key").write_text(os.urandom(32).hex())
    (keyring.directory / "k2.key").chmod(0o600)
    (keyring.directory / "current").write_text("k2")
    assert _close(b"state", keyring)[1] == "k2"
    assert envelope.open_(sealed, WHOSE, keyring) == b"state"
    (keyring.directory / "k1.key").unlink()
    _refused(envelope.open_(sealed, WHOSE, keyring))
    (keyring.directory / "current").unlink()
    assert isinstance(keyring.current(), Problem), "a damaged directory is not silently started anew"


def test_a_key_that_others_can_read_is_refused(keyring: Keyring) -> None:
    keyring.ensure()
    (keyring.directory / "k1.key").chmod(0o644)
    assert isinstance(keyring.current(), Problem)


def test_too_large_a_state_is_refused(keyring: Keyring) -> None:
    answer = envelope.close(bytes(STATE_BYTES_MAX + 1), WHOSE, keyring)
    assert isinstance(answer, Problem)
    assert answer.code is Code.SEAL_FAILED


SIGN_IN = """async () => {
    localStorage.token = 'local';
    await new Promise((resolve, reject) => {
        const opening = indexedDB.open('auth', 1);
        opening.onupgradeneeded = () => opening.result.createObjectStore('keys').put('indexed', 'token');
        opening.onsuccess = resolve; opening.onerror = reject;
    });
}"""
READ = """async () => [document.cookie, localStorage.token, await new Promise((resolve, reject) => {
    const opening = indexedDB.open('auth', 1);
    opening.onsuccess = () => {
        const got = opening.result.transaction('keys').objectStore('keys').get('token');
        got.onsuccess = () => resolve(got.result); got.onerror = reject;
    };
})]"""
COOKIES = {"set-cookie": "session=crumb; Path=/"}


@pytest.mark.asyncio(loop_scope="session")
async def test_b28_session_cookie_and_storage_survive_to_another_host(rig: Rig, web: Web) -> None:
    web.pages["/in"] = (200, COOKIES, "<p>in</p>")
    web.pages["/out"] = "<p>elsewhere</p>"
    first = await rig.start(rig.engine(), rig.spec(web.origin, web.other))
    await go(first, f"{web.origin}/in")
    await script(first, SIGN_IN)
    await go(first, f"{web.other}/out")
    sealed = await _seal(first, 1)
    assert b"crumb" not in sealed.sealed
    await first.kill()
    web.log.clear()

    second = await rig.start(
        rig.engine("other-host"), rig.spec(web.origin, web.other, sealed=sealed.sealed, generation=1, epoch=2)
    )
    assert web.log == [], "restoring asks the site for nothing"
    assert (await look(second)).url == "about:blank"
    await go(second, f"{web.origin}/out")
    assert await script(second, READ) == ["session=crumb", "local", "indexed"]


@pytest.mark.asyncio(loop_scope="session")
async def test_a_state_of_another_generation_starts_no_browser(rig: Rig, web: Web) -> None:
    first = await rig.start(rig.engine(), rig.spec(web.origin))
    sealed = await _seal(first, 1)
    refused = await rig.engines[0].start(rig.spec(web.origin, sealed=sealed.sealed, generation=2), lambda: None)
    assert isinstance(refused, Problem)
    assert refused.code is Code.SETUP_FAILED


@pytest.mark.asyncio(loop_scope="session")
async def test_b29_a_wedged_tab_does_not_keep_the_seal(rig: Rig, web: Web) -> None:
    web.pages["/in"] = (200, COOKIES, "<button onclick='for(;;);'>Wedge</button>")
    session = await rig.start(rig.engine(), rig.spec(web.origin))
    page = await go(session, f"{web.origin}/in")
    await script(session, SIGN_IN)
    click = Click(ref=named(page, "Wedge").ref)
    target = await session.aim("main", page.revision, click, "target", soon())
    assert not isinstance(target, (Problem, Away))
    assert await session.dispatch("main", click, target, soon(300)) is Away.SILENT
    sealed = await _seal(session, 1)
    await session.kill()
    again = await rig.start(rig.engines[0], rig.spec(web.origin, sealed=sealed.sealed, generation=1))
    web.pages["/out"] = "out"
    await go(again, f"{web.origin}/out")
    assert await script(again, READ) == ["session=crumb", "local", "indexed"]


async def _seal(session: LiveSession, generation: int) -> SealedState:
    sealed = await session.seal(generation, soon())
    assert isinstance(sealed, SealedState), sealed
    return sealed


def _close(state: bytes, keyring: Keyring) -> tuple[bytes, str]:
    closed = envelope.close(state, WHOSE, keyring)
    assert not isinstance(closed, Problem)
    return closed


def _refused(answer: bytes | Problem) -> None:
    assert isinstance(answer, Problem), answer
    assert answer.code is Code.SETUP_FAILED


@pytest.mark.asyncio(loop_scope="session")
async def test_a_state_opens_with_the_origins_of_its_time(rig: Rig, web: Web) -> None:
    """The profile's origins may change later; then it seals with the new ones."""
    web.pages["/in"] = (200, COOKIES, "<p>in</p>")
    first = await rig.start(rig.engine(), rig.spec(web.origin))
    await go(first, f"{web.origin}/in")
    sealed = await _seal(first, 1)
    await first.kill()
    changed = (web.origin, web.other)
    spec = rig.spec(*changed, sealed=sealed.sealed, generation=1, sealed_origins=(web.origin,), epoch=2)
    second = await rig.start(rig.engines[0], spec)
    again = await _seal(second, 2)
    await second.kill()
    opened = await rig.start(rig.engines[0], rig.spec(*changed, sealed=again.sealed, generation=2, epoch=3))
    await go(opened, f"{web.origin}/in")
    assert await script(opened, "document.cookie") == "session=crumb"


@pytest.mark.asyncio(loop_scope="session")
async def test_the_drivers_temporary_files_lie_below_the_live_directory(rig: Rig, web: Web) -> None:
    """They stay behind when the host is killed, and the next one sweeps them."""
    engine = rig.engine()
    await rig.start(engine, rig.spec(web.origin))
    scratch = rig.root / "live" / "tmp"
    assert list(scratch.glob("playwright-artifacts-*"))
    left = scratch / "playwright-artifacts-left"
    left.mkdir()
    await rig.start(rig.engine(), rig.spec(web.origin, epoch=2))
    assert not left.exists()
