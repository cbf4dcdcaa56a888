"""The health check: whether the state in a browser is still logged in (contract 25)."""

from urllib.parse import urlsplit

from playwright.async_api import BrowserContext, Page

from lessor.browser.door import Door, Failed
from lessor.browser.keeper.linux import boot_ms
from lessor.errors import Code, Problem, problem
from lessor.messages.health import HealthCheck
from lessor.ports import Away

CLOSE_MS_MAX = 1000
ANSWER_MS = 200
SHOWS_MS_MAX = 2000
"""How long a page that has loaded may take to show the text: scripts of its own write it."""
SHOWS = "wanted => document.body !== null && document.body.innerText.includes(wanted)"


async def check(context: BrowserContext, door: Door, health: HealthCheck, deadline_ms: int) -> Problem | Away | None:
    """In a tab of its own, which is closed afterwards. A site that does not answer counts as failed: nobody can say
    that this state is logged in. What the page shows is never repeated."""
    page = await door.through(context.new_page(), deadline_ms)
    if isinstance(page, Away):
        return page
    if isinstance(page, Failed):
        return _unhealthy("no tab could be opened")
    try:
        wrong = await _look(context, page, door, health, deadline_ms - ANSWER_MS)
    finally:
        await door.through(page.close(), boot_ms() + CLOSE_MS_MAX)
    return wrong if isinstance(wrong, Away | None) else _unhealthy(wrong)


async def _look(
    context: BrowserContext, page: Page, door: Door, health: HealthCheck, deadline_ms: int
) -> str | Away | None:
    answer = await door.through(page.goto(health.url, wait_until="domcontentloaded", timeout=0), deadline_ms)
    if isinstance(answer, Away):
        return door.away or "its page did not load in time"
    if isinstance(answer, Failed) or answer is None:
        return "its page did not load"
    if answer.status >= 400:
        return f"its page answered {answer.status}"
    if health.text is not None:
        by_ms = min(deadline_ms, boot_ms() + SHOWS_MS_MAX)
        shown = await door.through(page.wait_for_function(SHOWS, arg=health.text, timeout=0), by_ms)
        if isinstance(shown, Failed | Away):
            return door.away or "its page does not show the text"
    if health.cookie is not None:
        cookies = await door.through(context.cookies(health.url), deadline_ms)
        if isinstance(cookies, Failed | Away):
            return door.away or "its cookies cannot be read"
        if all(cookie.get("name") != health.cookie for cookie in cookies):
            return f"there is no cookie {health.cookie!r}"
    elif health.text is None and _place(page.url) != _place(health.url):
        return "its page led elsewhere"
    return None


def _place(url: str) -> tuple[str, str, str]:
    parts = urlsplit(url)
    return parts.scheme, parts.netloc, parts.path or "/"


def _unhealthy(found: str) -> Problem:
    return problem(Code.AUTHENTICATION_REQUIRED, f"The health check failed: {found}. Log the profile in: lessor login.")
