"""What is the matter with a tab that does not answer: by its events, and by a probe, never by a guess.

Many calls answer on a wedged page all the same (its address, its cookies): only a script that the page's own thread
must run tells a page that is busy with our call from one that runs nothing any more."""

from enum import Enum

from lessor.browser.door import Failed
from lessor.browser.keeper.linux import boot_ms
from lessor.browser.tab import Tab
from lessor.ports import Away

PROBE_MS_MAX = 500


class Condition(Enum):
    """`PENDING`: it answers a probe, or is on its way to another document: what was asked may still be answered."""

    PENDING = "pending"
    ASKING = "asking"
    HUNG = "hung"
    CRASHED = "crashed"
    CLOSED = "closed"
    AWAY = "away"


def known(tab: Tab) -> Condition | None:
    """What events have told, without asking the page."""
    if tab.door.away is not None:
        return Condition.AWAY
    if tab.is_crashed:
        return Condition.CRASHED
    if tab.page.is_closed():
        return Condition.CLOSED
    if tab.asking is not None:
        return Condition.ASKING
    return None


async def probe(tab: Tab, deadline_ms: int) -> bool:
    """Does the page's thread run a script? At most 0.5 s."""
    until_ms = min(deadline_ms, boot_ms() + PROBE_MS_MAX)
    answer = await tab.call("Runtime.evaluate", until_ms, expression="1", returnByValue=True)
    return not isinstance(answer, (Away, Failed))


async def condition(tab: Tab, deadline_ms: int) -> Condition:
    """By events, then by a probe."""
    found = known(tab)
    if found is None and await probe(tab, deadline_ms):
        return Condition.PENDING
    # Until a navigation arrives, Chromium holds back what is sent to the page: silence proves nothing then.
    return found or known(tab) or (Condition.PENDING if tab.is_leaving else Condition.HUNG)
