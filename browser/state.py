"""What a profile remembers between leases: cookies, session cookies included, localStorage and IndexedDB."""

import asyncio
from typing import Any, cast

import msgspec
from playwright.async_api import BrowserContext, StorageState

from lessor.browser import envelope
from lessor.browser.door import Door, Failed
from lessor.browser.envelope import STATE_BYTES_MAX, Whose
from lessor.browser.guard import Guard
from lessor.browser.keyring import Keyring
from lessor.errors import Code, Problem, problem
from lessor.ports import Away, SealedState

STORE = "items => items.forEach(({ name, value }) => localStorage.setItem(name, value))"
BLANK_PAGE = "<!doctype html><title></title>"


async def export(
    context: BrowserContext, door: Door, unvisited: tuple[str, ...], deadline_ms: int
) -> bytes | Problem | Away:
    """The state as JSON. Playwright keeps the storage of origins that it saw visited; after a restart of the host it
    saw none, so `unvisited` ones are shown to it on an empty page, without a request."""
    if unvisited:
        shown = await door.through(_visit(context, unvisited), deadline_ms)
        if isinstance(shown, Away):
            return shown
    state = await door.through(context.storage_state(indexed_db=True), deadline_ms)
    if isinstance(state, Away):
        return state
    if isinstance(state, Failed):
        return problem(Code.SEAL_FAILED, "The browser did not give its state: try again while the lease lasts.")
    packed = msgspec.json.encode(state)
    if len(packed) > STATE_BYTES_MAX:
        return problem(Code.SEAL_FAILED, f"The state has {len(packed)} bytes, {STATE_BYTES_MAX} at most can be sealed.")
    return packed


async def seal(state: bytes, whose: Whose, keyring: Keyring) -> SealedState | Problem:
    """Encrypt away from the event loop: 64 MiB take a while."""
    closed = await asyncio.to_thread(envelope.close, state, whose, keyring)
    return closed if isinstance(closed, Problem) else SealedState(*closed)


async def unseal(sealed: bytes, whose: Whose, keyring: Keyring) -> StorageState | Problem:
    """Decrypt and parse what `seal` made."""
    state = await asyncio.to_thread(envelope.open_, sealed, whose, keyring)
    if isinstance(state, Problem):
        return state
    # It passed authentication, so it is what Playwright gave us.
    return cast("StorageState", msgspec.json.decode(state, type=dict[str, Any]))


async def restore(
    context: BrowserContext, state: StorageState, guard: Guard, door: Door, deadline_ms: int
) -> Problem | Away | None:
    """Put it into a fresh browser. Its storage is written on empty pages; no request leaves."""
    work = _write(context, state, guard) if _is_plain(state) else context.set_storage_state(state)
    done = await door.through(work, deadline_ms)
    if isinstance(done, Away):
        return done
    if isinstance(done, Failed):
        return problem(Code.SETUP_FAILED, "The sealed state could not be restored: roll the profile back.")
    return None


def _is_plain(state: StorageState) -> bool:
    """Cookies and localStorage alone, which need no page of their own; Playwright writes the rest."""
    indexed = any(origin.get("indexedDB") for origin in state.get("origins", ()))
    return not indexed and not any("partitionKey" in cookie for cookie in state.get("cookies", ()))


async def _write(context: BrowserContext, state: StorageState, guard: Guard) -> None:
    """On the tab that is there already, since a page of its own costs more than all the rest."""
    cookies = state.get("cookies", [])
    if cookies:
        await context.add_cookies(cast("Any", cookies))
    origins = state.get("origins", [])
    if not origins:
        return
    page = context.pages[0]
    guard.blank = frozenset(f"{origin['origin']}/" for origin in origins)
    try:
        for origin in origins:
            await page.goto(f"{origin['origin']}/", wait_until="commit")
            await page.evaluate(STORE, origin["localStorage"])
        await page.goto("about:blank", wait_until="commit")
    finally:
        guard.blank = frozenset()


async def _visit(context: BrowserContext, origins: tuple[str, ...]) -> None:
    page = await context.new_page()
    try:
        await page.route("**/*", lambda route: route.fulfill(body=BLANK_PAGE, content_type="text/html"))
        for origin in origins:
            await page.goto(f"{origin}/", wait_until="commit")
    finally:
        await page.close()
