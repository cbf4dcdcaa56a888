"""Looking at a tab: one round trip, bounded in time and size (contract, Numbers and Pages)."""

import msgspec

from lessor.browser.door import Failed
from lessor.browser.tab import Tab
from lessor.browser.views import Reading, Seen
from lessor.errors import Problem
from lessor.messages.action import Observation
from lessor.ports import Away

_seen = msgspec.json.Decoder(Seen)


async def observe(tab: Tab, deadline_ms: int) -> Observation | Problem | Away:
    """What the tab shows now. References in it are good for acts that carry its revision."""
    found = await tab.read("observe", deadline_ms)
    if isinstance(found, (Failed, Away)):
        return tab.unanswered(found)
    return remember(tab, found)


def remember(tab: Tab, found: Reading) -> Observation:
    """The public view of a reading; its view is the reading's last string."""
    return tab.memory.observation(found, decode(found), tab.notices.take())


def decode(found: Reading) -> Seen:
    """The view of a reading."""
    return _seen.decode(found.strings[-1])
