"""Waiting until pages have taken in the input that a departed client had sent them.

Detaching a client's session keeps its unsent commands from the browser, but not input that is already on its
way to a page: clicks were seen to land 40 ms after the detach had been answered. A task that a page runs
after that marks the point from which nothing of the predecessor can come.
"""

from __future__ import annotations

from lessor.browser.keeper import linux, loop

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from lessor.browser.keeper.pipe import Pipe

BOUND_MS = 1000
PAGE_TYPES = ("page", "iframe", "webview")
# Input is handed out at a frame's start at the latest; a page without frames takes it in as it comes.
AFTER_INPUT = "new Promise(done => { requestAnimationFrame(() => setTimeout(done)); setTimeout(done, 100) })"


class Drain:
    """Asks every page once; `then(True)` follows when all have answered or gone, `then(False)` when one has
    not within a second: a page that is stuck may act on old input when it comes loose."""

    def __init__(self, events: loop.Loop, pipe: Pipe, then: Callable[[bool], None]) -> None:
        self._events = events
        self._pipe = pipe
        self._then = then
        self._left = 0
        self._over = False
        self._timer = linux.BootTimer()
        self._timer.arm(linux.boot_ms() + BOUND_MS)
        events.watch(self._timer.fd, loop.READ, lambda _events: self._finish(False))
        pipe.command("Target.getTargets", {}, self._found)

    def _found(self, answer: Mapping[str, Any]) -> None:
        targets: list[Mapping[str, str]] = answer.get("result", {}).get("targetInfos", [])
        pages = [target["targetId"] for target in targets if target["type"] in PAGE_TYPES]
        self._left = len(pages)
        for page in pages:
            self._pipe.command("Target.attachToTarget", {"targetId": page, "flatten": True}, self._attached)
        self._check()

    def _attached(self, answer: Mapping[str, Any]) -> None:
        match answer:
            case {"result": {"sessionId": str(session)}}:
                asking = {"expression": AFTER_INPUT, "awaitPromise": True, "returnByValue": True}
                self._pipe.command("Runtime.evaluate", asking, lambda _answer: self._answered(session), session)
            case _:
                self._answered("")

    def _answered(self, session: str) -> None:
        if session:
            self._pipe.command("Target.detachFromTarget", {"sessionId": session}, lambda _answer: None)
        self._left -= 1
        self._check()

    def _check(self) -> None:
        if self._left == 0:
            self._finish(True)

    def _finish(self, is_drained: bool) -> None:
        if not self._over:
            self._over = True
            self._events.forget(self._timer.fd)
            self._timer.close()
            self._then(is_drained)
