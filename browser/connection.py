"""A client's connection to an admitted browser: guards first, then everything else."""

from dataclasses import dataclass

from playwright.async_api import Browser, BrowserContext, Playwright

from lessor.browser.cdp import Cdp
from lessor.browser.door import Door, Failed
from lessor.browser.guard import Guard
from lessor.browser.origins import Origins
from lessor.ports import Away

CONNECT_MS_MAX = 5000


@dataclass(frozen=True, slots=True)
class Connection:
    """The default context of one browser: contexts of a client's own would be lost with it."""

    browser: Browser
    context: BrowserContext
    guard: Guard
    door: Door


async def connect(
    playwright: Playwright, ws_url: str, origins: Origins, deadline_ms: int, *, strict: bool
) -> Connection | Failed | Away:
    """Connect to the keeper's bridge and set the document guard. Egress is still closed."""
    door = Door()
    browser = await door.through(playwright.chromium.connect_over_cdp(ws_url, timeout=CONNECT_MS_MAX), deadline_ms)
    if isinstance(browser, (Failed, Away)):
        return browser
    cdp = await door.through(browser.new_browser_cdp_session(), deadline_ms)
    if isinstance(cdp, (Failed, Away)):
        return cdp
    guard = Guard(Cdp(cdp), origins, door, strict=strict)
    refused = await guard.stand(deadline_ms)
    if refused is not None:
        return refused
    return Connection(browser, browser.contexts[0], guard, door)
