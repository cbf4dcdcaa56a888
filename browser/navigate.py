"""Going to an address, within the profile's origins."""

import asyncio
from collections.abc import Callable
from urllib.parse import urlsplit

from lessor.browser.door import Failed
from lessor.browser.guard import Guard
from lessor.browser.keeper.linux import boot_ms
from lessor.browser.observe import decode, remember
from lessor.browser.origins import BLANK
from lessor.browser.tab import Tab
from lessor.errors import Code, Problem, problem
from lessor.messages.action import PageView
from lessor.ports import Away

NAVIGATE_MS_MAX = 20_000
ERROR_PAGE_MS_MAX = 500
ABORTED = "net::ERR_ABORTED"


def disallowed(url: str) -> Problem:
    """Names scheme and host only: paths and credentials may be secrets."""
    try:
        parts = urlsplit(url)
        shown = f"{parts.scheme}://{parts.hostname}" if parts.hostname else f"{parts.scheme}:"
    except ValueError:
        shown = "that address"
    return problem(Code.URL_DISALLOWED, f"The profile's origins do not include {shown[:200]}: stay within them.")


async def navigate(
    tab: Tab, guard: Guard, url: str, deadline_ms: int, is_download: Callable[[], bool] = lambda: False
) -> PageView | Problem | Away:
    """Load a document and answer once it is whole (DOMContentLoaded). What is refused leaves the tab as it was, and so
    does an address that is a download: then the view is of the page that stayed."""
    if url != BLANK and not guard.origins.allow(url):
        return disallowed(url)
    deadline_ms = min(deadline_ms, boot_ms() + NAVIGATE_MS_MAX)
    guard.refusal(tab.target)
    tab.dialogs.clear()
    try:
        return await _load(tab, guard, url, deadline_ms, is_download)
    except asyncio.CancelledError:
        if tab.asks.open is None:  # one that holds a dialog is not given up: its answer decides
            tab.stop_loading()
        raise


async def _load(
    tab: Tab, guard: Guard, url: str, deadline_ms: int, is_download: Callable[[], bool]
) -> PageView | Problem | Away:
    answer = await tab.door.through(tab.cdp.send("Page.navigate", {"url": url}), deadline_ms)
    if isinstance(answer, Failed):
        return tab.unanswered(answer)
    if isinstance(answer, Away):
        return _stop(tab) if answer is Away.SILENT else answer
    is_aborted = answer.get("isDownload") or answer.get("errorText") == ABORTED
    may_download = is_aborted and "beforeunload" not in tab.dialogs and guard.is_clear(tab.target)
    if may_download and await tab.until(is_download, boot_ms() + ERROR_PAGE_MS_MAX):
        return await _stayed(tab, deadline_ms)
    if "errorText" in answer or answer.get("isDownload"):
        return await _failed(tab, guard, str(answer.get("errorText", ABORTED)))
    tab.is_arriving = tab.is_leaving
    if not await tab.until(lambda: not tab.is_loading, deadline_ms):
        return tab.door.away or _stop(tab)
    found = await tab.read("observe", deadline_ms)
    if isinstance(found, Away) and found is Away.SILENT:
        return _stop(tab)
    if isinstance(found, (Failed, Away)):
        return tab.unanswered(found)
    page = await remember(tab, found, deadline_ms)
    tab.address = page.url if guard.origins.may_show(page.url) else tab.address
    if not guard.origins.may_show(page.url):
        tab.door.start(tab.cdp.send("Page.navigate", {"url": BLANK}))
        return disallowed(page.url)
    status = None if url == BLANK else decode(found).status
    return PageView(url=page.url, title=page.title, revision=page.revision, status=status, notices=page.notices)


async def _stayed(tab: Tab, deadline_ms: int) -> PageView | Problem | Away:
    found = await tab.read("observe", deadline_ms)
    if isinstance(found, (Failed, Away)):
        return tab.unanswered(found)
    page = await remember(tab, found, deadline_ms)
    return PageView(url=page.url, title=page.title, revision=page.revision, notices=page.notices)


async def _failed(tab: Tab, guard: Guard, error: str) -> Problem:
    refused = guard.refusal(tab.target)
    if refused is not None:
        return disallowed(refused)
    if error == ABORTED and "beforeunload" in tab.dialogs:
        return problem(Code.NAVIGATION_CANCELLED, "The page asked to stay, and stayed: finish or clear its form first.")
    if error == ABORTED:
        return problem(Code.NAVIGATION_FAILED, "That address is a download or is empty: the tab stays where it was.")
    await tab.until(lambda: not tab.is_loading, boot_ms() + ERROR_PAGE_MS_MAX)
    return problem(Code.NAVIGATION_FAILED, f"The page could not be loaded ({error[:100]}): check the address.")


def _stop(tab: Tab) -> Problem | Away:
    if tab.is_crashed:
        return tab.unanswered(Away.SILENT)
    tab.stop_loading()
    return problem(Code.OP_TIMEOUT, "The page did not load in time: try again with more time.")
