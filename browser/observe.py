"""Looking at a tab: bounded in time and size (contract, Numbers and Pages). One round trip for a page without frames,
two more for each level of frames that can be seen."""

import asyncio
from typing import Any

import msgspec

from lessor.browser.cdp import Cdp
from lessor.browser.door import Failed
from lessor.browser.frames import Place
from lessor.browser.keeper.linux import boot_ms
from lessor.browser.tab import Tab
from lessor.browser.views import Part, Reading, Seen, frame_key
from lessor.errors import Problem
from lessor.messages.action import Observation
from lessor.ports import Away

FRAME_DEPTH_MAX = 8
FRAME_MS_MAX = 1500
SESSION_MS_MAX = 500
"""How long a frame that has just come may take to get its session."""

_seen = msgspec.json.Decoder(Seen)


async def observe(tab: Tab, deadline_ms: int) -> Observation | Problem | Away:
    """What the tab shows now. References in it are good for acts that carry its revision."""
    found = await tab.read("observe", deadline_ms)
    if isinstance(found, (Failed, Away)):
        return tab.unanswered(found)
    (parts, silent), closed = await asyncio.gather(whole(tab, found, deadline_ms), _closed(tab, deadline_ms))
    return tab.memory.observation(parts, tab.notices.take(), silent + closed)


async def remember(tab: Tab, found: Reading, deadline_ms: int) -> Observation:
    """The public view of a reading of the main document; its view is the reading's last string."""
    parts, silent = await whole(tab, found, deadline_ms)
    return tab.memory.observation(parts, tab.notices.take(), silent)


def decode(found: Reading) -> Seen:
    """The view of a reading."""
    return _seen.decode(found.strings[-1])


async def whole(tab: Tab, found: Reading, deadline_ms: int) -> tuple[list[Part], int]:
    """The main document and those of its frames that can be seen, outer ones first, and how many gave no answer."""
    parts, silent = [Part(decode(found), found)], 0
    until_ms = min(deadline_ms, boot_ms() + FRAME_MS_MAX)
    level = [(parts[0], tab.cdp)]
    for _ in range(FRAME_DEPTH_MAX):
        asked = [
            _inside(tab, part, cdp, node, origin, until_ms)
            for part, cdp in level
            for node, origin in zip(part.frame_nodes, part.seen.frames, strict=True)
        ]
        if not asked:
            break
        answers = await asyncio.gather(*asked)
        level = [answer for answer in answers if answer is not None]
        silent += len(answers) - len(level)
        parts += [part for part, _ in level]
    return parts, silent


async def _inside(
    tab: Tab, part: Part, cdp: Cdp, node: int, origin: tuple[float, float], until_ms: int
) -> tuple[Part, Cdp] | None:
    place = await _place_of(tab, cdp, node, until_ms)
    found = None if place is None else await tab.read_place("observe", place, until_ms)
    if place is None or not isinstance(found, Reading):
        return None
    left, top = part.left + origin[0], part.top + origin[1]
    return Part(decode(found), found, frame_key(place.frame), left, top), place.cdp


async def _place_of(tab: Tab, cdp: Cdp, node: int, until_ms: int) -> Place | None:
    """The document inside a frame's element."""
    described = await tab.call("DOM.describeNode", until_ms, cdp, backendNodeId=node)
    if isinstance(described, (Failed, Away)):
        return None
    frame = str(described["node"].get("frameId", ""))
    await tab.until(lambda: tab.frames.of(frame) is not None, min(until_ms, boot_ms() + SESSION_MS_MAX))
    return tab.frames.of(frame)


async def _closed(tab: Tab, deadline_ms: int) -> int:
    """How many closed shadow roots the main document has among the elements that look as if they had one."""
    found = await tab.read("suspects", deadline_ms)
    if not isinstance(found, Reading):
        return 0
    asked = [tab.call("DOM.describeNode", deadline_ms, backendNodeId=node) for node in found.nodes]
    answers = await asyncio.gather(*asked)
    return sum(_is_closed(answer) for answer in answers if not isinstance(answer, (Failed, Away)))


def _is_closed(described: dict[str, Any]) -> bool:
    return any(root.get("shadowRootType") == "closed" for root in described["node"].get("shadowRoots", ()))
