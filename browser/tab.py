"""A tab: its page, a protocol session of its own, and the isolated world in which its document is read."""

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from playwright.async_api import BrowserContext, Dialog, Frame, Page

from lessor.browser.asks import Asks
from lessor.browser.cdp import Cdp, target_of
from lessor.browser.door import Door, Failed
from lessor.browser.frames import Frames, Place, World
from lessor.browser.keeper.linux import boot_ms
from lessor.browser.notices import Notices
from lessor.browser.origins import BLANK
from lessor.browser.views import Memory, Reading, reading
from lessor.errors import Code, Problem, Recovered, dialog_open, problem
from lessor.messages.policy import PagePolicy
from lessor.ports import Away

T = TypeVar("T")
WORLD = "lessor"
SCRIPTS = ("observe.js", "act.js")
DEEP = {"serialization": "deep", "maxDepth": 1, "additionalParameters": {"maxNodeDepth": 0}}
NO_CONTEXT = (
    "uniqueContextId not found",
    "Cannot find context",
    "Execution context was destroyed",
    "navigated or closed",
)
SAME_DOCUMENT = ("sameDocument", "historySameDocument")
LOOK = "look"
FRAME_MS_MAX = 5000


@cache
def world_script() -> str:
    """What every document gets before its own scripts run, in a world that they cannot reach."""
    return "\n".join(Path(__file__).with_name(name).read_text("utf-8") for name in SCRIPTS)


class Tab:
    """Belongs to one connection and the event loop."""

    def __init__(self, page: Page, cdp: Cdp, door: Door, target: str, policy: PagePolicy) -> None:
        self.page = page
        self.cdp = cdp
        self.door = door
        self.target = target
        self.memory = Memory()
        self.notices = Notices()
        self.dialogs: deque[str] = deque(maxlen=16)
        """Kinds of those that were dismissed."""
        self.asks = Asks(policy, target[:12].lower())
        self.asking: str | None = None
        """The kind of a dialog that stands open: the page answers nothing until it is answered."""
        self.owed: Recovered | None = None
        """It took the place of another tab, and nobody was told yet."""
        self.address = BLANK
        """Where `navigate` last took the tab: what may be loaded again. What an act led to never is."""
        self.is_loading = False
        self.is_leaving = False
        """A navigation began and has not arrived: until it does, Chromium holds back everything sent to the page."""
        self.is_arriving = False
        """The next document is there, and the page's thread has not taken it: a healthy one does so at once."""
        self.alive_ms = boot_ms()
        """When its thread last gave a sign of life."""
        self.frames = Frames()
        self._world: World | None = None
        self._changed = asyncio.Event()
        self._crash: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def __repr__(self) -> str:
        return f"<Tab {self.target[:8]} {'crashed' if self.is_crashed else 'loading' if self.is_loading else 'still'}>"

    @property
    def is_crashed(self) -> bool:
        """Its renderer died; navigating starts another."""
        return self._crash.done()

    async def read(self, function: str, deadline_ms: int, *arguments: object) -> Reading | Failed | Away:
        """Call a function of the isolated world that only reads. A document that goes away under it is waited out."""
        while True:
            world = await self.world(deadline_ms)
            if isinstance(world, Away):
                return world
            answer = await self.call(
                "Runtime.callFunctionOn",
                deadline_ms,
                functionDeclaration=f"(...given) => lessor.{function}(...given)",
                uniqueContextId=world.unique,
                objectGroup=LOOK,
                arguments=[{"value": argument} for argument in arguments],
                serializationOptions=DEEP,
                awaitPromise=True,
            )
            if isinstance(answer, Failed) and any(words in answer.message for words in NO_CONTEXT):
                if self._world == world:
                    self._world = None
                continue
            self.release(LOOK)
            return deep(answer)

    async def read_place(self, function: str, place: Place, deadline_ms: int) -> Reading | Failed | Away:
        """The same in a frame's document; one that goes away is not waited for."""
        answer = await self.call(
            "Runtime.callFunctionOn",
            deadline_ms,
            place.cdp,
            functionDeclaration=f"(...given) => lessor.{function}(...given)",
            uniqueContextId=place.world.unique,
            objectGroup=LOOK,
            serializationOptions=DEEP,
            awaitPromise=True,
        )
        self.release(LOOK, place.cdp)
        return deep(answer)

    async def read_node(
        self, function: str, node: str, action: object, deadline_ms: int, cdp: Cdp | None = None
    ) -> Reading | Failed | Away:
        """Call a function of the isolated world on an element held in it, with the action."""
        answer = await self.call(
            "Runtime.callFunctionOn",
            deadline_ms,
            cdp,
            functionDeclaration=f"(...given) => lessor.{function}(...given)",
            objectId=node,
            objectGroup=LOOK,
            arguments=[{"objectId": node}, {"value": action}],
            serializationOptions=DEEP,
            awaitPromise=True,
        )
        self.release(LOOK, cdp)
        return deep(answer)

    def release(self, group: str, cdp: Cdp | None = None) -> None:
        """Let the page forget the handles of a group."""
        if self.door.away is None:
            self.door.start((cdp or self.cdp).send("Runtime.releaseObjectGroup", {"objectGroup": group}))

    async def call(
        self, method: str, deadline_ms: int, cdp: Cdp | None = None, /, **parameters: object
    ) -> dict[str, Any] | Failed | Away:
        """One protocol command on the page's own session, or on that of a frame in another process."""
        return await self.through((cdp or self.cdp).send(method, parameters), deadline_ms)

    async def through(self, work: Coroutine[Any, Any, T], deadline_ms: int) -> T | Failed | Away:
        """Whatever goes to the page ends with its renderer, too."""
        return await self.door.through(work, deadline_ms, self._crash)

    async def until(self, holds: Callable[[], bool], deadline_ms: int) -> bool:
        """Wait for something that the page's events decide; False at the deadline."""
        while not holds():
            self._changed.clear()
            if not await self.door.wait(self._changed, deadline_ms):
                return holds()
        return True

    async def world(self, deadline_ms: int) -> World | Away:
        """The present document's; waits for the next document while one is on its way."""
        await self.until(lambda: self._world is not None or self.is_crashed, deadline_ms)
        return self._world or self.door.silence()

    def lives(self) -> None:
        self.alive_ms = boot_ms()

    def on_context(self, event: dict[str, Any]) -> None:
        context = event["context"]
        if context["name"] != WORLD:
            return
        if context["auxData"].get("frameId") != self.target:
            self.on_frame_context(self.cdp, event)
            return
        self.lives()
        self._world = World(context["uniqueId"], context["id"])
        if self.is_crashed:
            self._crash = asyncio.get_running_loop().create_future()
        self._changed.set()

    def on_frame_context(self, cdp: Cdp, event: dict[str, Any]) -> None:
        """A frame's document; `cdp` is of its process."""
        context = event["context"]
        if context["name"] == WORLD:
            frame = str(context["auxData"].get("frameId"))
            self.frames.came(Place(cdp, frame, World(context["uniqueId"], context["id"])))
            self._changed.set()

    def on_context_gone(self, event: dict[str, Any]) -> None:
        self.frames.went(str(event["executionContextUniqueId"]))

    def on_contexts_cleared(self, _event: object) -> None:
        self._world = None
        self.frames.cleared(self.cdp)
        self.is_leaving = self.is_arriving = False

    def on_loading(self, event: dict[str, Any]) -> None:
        if event["frameId"] == self.target and event.get("navigationType") not in SAME_DOCUMENT:
            self.is_loading = True
            self.is_leaving = "navigationType" in event or self.is_leaving

    def on_loaded(self, event: dict[str, Any]) -> None:
        """The document is whole, or its loading was stopped; pictures may still be on their way."""
        if event.get("frameId", self.target) == self.target:
            self.is_loading = self.is_leaving = self.is_arriving = False
            self.lives()
            self._changed.set()

    def stir(self) -> None:
        """Something happened that `until` may wait for."""
        self._changed.set()

    async def left(self, deadline_ms: int) -> None:
        """Wait for the next document: its predecessor has let go, and whoever looks must not see that one."""
        self.is_loading = True
        await self.until(lambda: not self.is_loading, deadline_ms)

    def on_asking(self, event: dict[str, Any]) -> None:
        self.asking = str(event["type"])
        self._changed.set()

    def on_answered(self, _event: object) -> None:
        self.asking = None
        self.asks.closed()

    def stop_loading(self) -> None:
        """Give up a navigation under way; the tab keeps the document it has."""
        if self.door.away is None:
            self.door.start(self.cdp.send("Page.stopLoading"))

    def on_crash(self, _event: object) -> None:
        self._world = None
        self.is_loading = self.is_leaving = self.is_arriving = False
        if not self._crash.done():
            self._crash.set_result(None)
        self._changed.set()

    def unanswered(self, why: Failed | Away) -> Problem | Away:
        """What a read says that has no view."""
        if self.door.away is not None:
            return self.door.away
        if self.is_crashed:
            return problem(Code.TAB_CRASHED, "The tab crashed: navigate to start it again.")
        if self.page.is_closed():
            return problem(Code.TAB_NOT_FOUND, "The tab is closed: use another one.")
        if self.asks.open is not None:
            return dialog_open(self.asks.open.view)
        if self.asking is not None:
            return problem(Code.DIALOG_OPEN, f"The page asks ({self.asking}): answer the dialog first.")
        if isinstance(why, Away):
            return why
        return problem(Code.OUTPUT_INVALID, "The page gave no usable answer: observe again.")


async def attach(
    context: BrowserContext, page: Page, door: Door, deadline_ms: int, policy: PagePolicy
) -> Tab | Failed | Away:
    """Open the tab's session and put the isolated world into its present and all later documents."""
    opened = await door.through(context.new_cdp_session(page), deadline_ms)
    if isinstance(opened, (Failed, Away)):
        return opened
    cdp = Cdp(opened)
    target = await door.through(target_of(cdp), deadline_ms)
    if isinstance(target, (Failed, Away)):
        return target
    tab = Tab(page, cdp, door, target, policy)
    cdp.on("Runtime.executionContextCreated", tab.on_context)
    cdp.on("Runtime.executionContextsCleared", tab.on_contexts_cleared)
    cdp.on("Runtime.executionContextDestroyed", tab.on_context_gone)
    page.on("framenavigated", lambda frame: tab.door.start(adopt_frame(context, tab, frame)))
    cdp.on("Page.frameStartedNavigating", tab.on_loading)
    cdp.on("Page.domContentEventFired", tab.on_loaded)
    cdp.on("Page.frameStoppedLoading", tab.on_loaded)
    cdp.on("Page.javascriptDialogOpening", tab.on_asking)
    cdp.on("Page.javascriptDialogClosed", tab.on_answered)
    cdp.on("Inspector.targetCrashed", tab.on_crash)
    page.on("close", lambda _: tab.asks.closed())
    refused = await _furnish(cdp, door, deadline_ms)
    if refused is not None:
        return refused
    for frame in page.frames[1:]:
        door.start(adopt_frame(context, tab, frame))
    return tab


async def _furnish(cdp: Cdp, door: Door, deadline_ms: int) -> Failed | Away | None:
    """Put the isolated world into the documents of a session."""
    script = {"source": world_script(), "worldName": WORLD, "runImmediately": True}
    for method, parameters in (
        ("Inspector.enable", {}),
        ("Page.enable", {}),
        ("Runtime.enable", {}),
        ("Page.addScriptToEvaluateOnNewDocument", script),
    ):
        answer = await door.through(cdp.send(method, parameters), deadline_ms)
        if isinstance(answer, (Failed, Away)):
            return answer
    return None


async def adopt_frame(context: BrowserContext, tab: Tab, frame: Frame) -> None:
    """A frame that got a process of its own needs a session of its own; one of the page's process has none."""
    if frame.parent_frame is None or frame.is_detached():
        return
    until_ms = boot_ms() + FRAME_MS_MAX
    opened = await tab.door.through(context.new_cdp_session(frame), until_ms)
    if isinstance(opened, (Failed, Away)):
        return
    cdp = Cdp(opened)
    cdp.on("Runtime.executionContextCreated", lambda event: tab.on_frame_context(cdp, event))
    cdp.on("Runtime.executionContextsCleared", lambda _: tab.frames.cleared(cdp))
    cdp.on("Runtime.executionContextDestroyed", tab.on_context_gone)
    await _furnish(cdp, tab.door, until_ms)


def deep(answer: dict[str, Any] | Failed | Away) -> Reading | Failed | Away:
    """Decode an answer of the isolated world."""
    if isinstance(answer, (Failed, Away)):
        return answer
    try:
        return reading(answer)
    except (ValueError, KeyError):
        thrown = answer.get("exceptionDetails", {}).get("exception", {}).get("description", "")
        return Failed(f"no reading: {str(thrown)[:500]}")


def hear(tab: Tab, dialog: Dialog, name: str) -> None:
    """A dialog opened in the tab of that name: the policy answers it, and the next view says so, or it is held."""
    decided = tab.asks.decide(dialog.type)
    if decided is None:
        tab.asks.hold(dialog, name)
        return
    how = "accepted" if decided else "dismissed"
    tab.notices.add(f"{dialog.type} dialog {how} by policy: {dialog.message[:200]}")
    if not decided:
        tab.dialogs.append(dialog.type)
    # A prompt that is accepted gives what it suggests.
    tab.door.start(
        dialog.accept(dialog.default_value if dialog.type == "prompt" else "") if decided else dialog.dismiss()
    )
