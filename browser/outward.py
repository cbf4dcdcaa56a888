"""From a point in a frame's document to the same point of the page, frame by frame."""

from typing import Any

import msgspec

from lessor.browser.cdp import Cdp
from lessor.browser.door import Failed
from lessor.browser.frames import Place, World
from lessor.browser.observe import FRAME_DEPTH_MAX
from lessor.browser.tab import Tab
from lessor.ports import Away

OUT = "outward"
Point = tuple[float, float]


class _There(msgspec.Struct):
    obstacle: str | None = None
    x: float = 0.0
    y: float = 0.0


async def outward(tab: Tab, place: Place, point: Point, deadline_ms: int) -> Point | str | Failed | Away:
    """Where the page is to be pressed so that the frame is; an obstacle's word where a frame is hidden or covered."""
    for _ in range(FRAME_DEPTH_MAX):
        around = await _around(tab, place, deadline_ms)
        if isinstance(around, (Failed, Away)):
            return around
        cdp, world, node, outer = around
        told = await _through(tab, cdp, world, node, point, deadline_ms)
        if isinstance(told, (Failed, Away)):
            return told
        if told.obstacle is not None:
            return told.obstacle
        point = (told.x, told.y)
        if outer is None:
            return point
        place = outer
    return "hidden"


async def _around(tab: Tab, place: Place, deadline_ms: int) -> tuple[Cdp, World, int, Place | None] | Failed | Away:
    """The document around a frame (None: the page's own), and the frame's element in it."""
    parent = await _parent_of(tab, place.frame, deadline_ms)
    if isinstance(parent, (Failed, Away)):
        return parent
    world = await tab.world(deadline_ms)
    if isinstance(world, Away):
        return world
    outer = None if parent == tab.target else tab.frames.of(parent)
    if outer is None and parent != tab.target:
        return Failed("the document around the frame is gone")
    cdp = tab.cdp if outer is None else outer.cdp
    owner = await tab.call("DOM.getFrameOwner", deadline_ms, cdp, frameId=place.frame)
    if isinstance(owner, (Failed, Away)):
        return owner
    return cdp, world if outer is None else outer.world, int(owner["backendNodeId"]), outer


async def _parent_of(tab: Tab, frame: str, deadline_ms: int) -> str | Failed | Away:
    """Each process knows the frames of its own; whichever lists this one knows its parent."""
    for cdp in dict.fromkeys((tab.cdp, *tab.frames.sessions())):
        tree = await tab.call("Page.getFrameTree", deadline_ms, cdp)
        if isinstance(tree, Away):
            return tree
        found = None if isinstance(tree, Failed) else _find(tree["frameTree"], frame)
        if found is not None:
            return found
    return Failed("the frame is in no tree")


def _find(tree: dict[str, Any], frame: str) -> str | None:
    """The parent of a frame in a tree; the root of a frame's own process names its parent, too."""
    if tree["frame"]["id"] == frame:
        parent = tree["frame"].get("parentId")
        return None if parent is None else str(parent)
    found = (_find(child, frame) for child in tree.get("childFrames", ()))
    return next((parent for parent in found if parent is not None), None)


async def _through(
    tab: Tab, cdp: Cdp, world: World, node: int, point: Point, deadline_ms: int
) -> _There | Failed | Away:
    held = await tab.call(
        "DOM.resolveNode", deadline_ms, cdp, backendNodeId=node, executionContextId=world.number, objectGroup=OUT
    )
    if isinstance(held, (Failed, Away)):
        return held
    handle = held["object"]["objectId"]
    answer = await tab.call(
        "Runtime.callFunctionOn",
        deadline_ms,
        cdp,
        functionDeclaration="(...given) => lessor.act.through(...given)",
        objectId=handle,
        arguments=[{"objectId": handle}, {"value": point[0]}, {"value": point[1]}],
        returnByValue=True,
    )
    tab.release(OUT, cdp)
    if isinstance(answer, (Failed, Away)):
        return answer
    try:
        return msgspec.json.decode(answer["result"]["value"], type=_There)
    except (KeyError, TypeError, msgspec.DecodeError):
        return Failed("no point")
