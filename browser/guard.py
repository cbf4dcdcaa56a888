"""The gate for documents: every address is checked before its request leaves (contract, Pages).

One interception on the browser's own protocol session sees the documents of all tabs, popups and frames, each
redirect hop of them included, from a new target's first request on. Whatever is paused when the connection ends goes
on to the egress process, which is closed by then."""

import base64
from collections import OrderedDict
from typing import Any

from lessor.browser.cdp import Cdp
from lessor.browser.door import Door, Failed
from lessor.browser.keeper.linux import boot_ms
from lessor.browser.origins import Origins
from lessor.ports import Away

REFUSALS_MAX = 64
GOT_MAX = 1024
VERDICT_MS_MAX = 5000
EMPTY_PAGE = {
    "responseCode": 200,
    "responseHeaders": [{"name": "Content-Type", "value": "text/html"}],
    "body": base64.b64encode(b"<!doctype html><title></title>").decode(),
}
SHELTER = "http://shelter.lessor.invalid/"
"""A site that no page of ours is of, and that does not exist."""


class Guard:
    """`strict`: what the documents load is held to the same origins."""

    def __init__(self, cdp: Cdp, origins: Origins, door: Door, *, strict: bool) -> None:
        self.origins = origins
        self.cdp = cdp
        self._door = door
        self._strict = strict
        self._refused: OrderedDict[str, str] = OrderedDict()
        self._got: OrderedDict[str, str] = OrderedDict()
        self.blank: frozenset[str] = frozenset()
        """Addresses that are answered with an empty page from here: nothing of them leaves."""
        self._sheltered: set[str] = set()

    async def stand(self, deadline_ms: int) -> Failed | Away | None:
        """Take up position; None when the guard stands. No request may leave before."""
        self.cdp.on("Fetch.requestPaused", self._on_paused)
        return await self._intercept(deadline_ms)

    async def _intercept(self, deadline_ms: int) -> Failed | Away | None:
        pattern: dict[str, str] = {"requestStage": "Request"}
        if not self._strict:
            pattern["resourceType"] = "Document"
        enabled = await self._door.through(self.cdp.send("Fetch.enable", {"patterns": [pattern]}), deadline_ms)
        return enabled if isinstance(enabled, (Failed, Away)) else None

    async def govern(self, origins: Origins, deadline_ms: int, *, strict: bool) -> Failed | Away | None:
        """Hold a browser that was nobody's to its owner's origins, before its egress opens."""
        self.origins = origins
        if strict == self._strict:
            return None
        self._strict = strict
        return await self._intercept(deadline_ms)

    def refusal(self, frame: str) -> str | None:
        """The address last refused in that frame, told once."""
        return self._refused.pop(frame, None)

    def is_clear(self, frame: str) -> bool:
        """Nothing was refused in that frame that nobody was told of."""
        return frame not in self._refused

    def last_get(self, frame: str) -> str | None:
        """Where the frame's document was last fetched from by GET: safe to fetch again."""
        return self._got.get(frame)

    def shelter(self, frame: str) -> None:
        """Answer that frame's next document at `SHELTER` with an empty one: nothing leaves, and the frame gets another
        process."""
        self._sheltered.add(frame)

    def _on_paused(self, event: dict[str, Any]) -> None:
        request, url = event["requestId"], event["request"]["url"]
        if url in self.blank and event["resourceType"] == "Document":
            verdict = self.cdp.send("Fetch.fulfillRequest", {"requestId": request, **EMPTY_PAGE})
        elif url == SHELTER and event["frameId"] in self._sheltered:
            self._sheltered.discard(event["frameId"])
            verdict = self.cdp.send("Fetch.fulfillRequest", {"requestId": request, "responseCode": 200})
        elif self.origins.allow(url):
            if event["resourceType"] == "Document" and event["request"]["method"] == "GET":
                self._got[event["frameId"]] = url
                self._got.move_to_end(event["frameId"])
                while len(self._got) > GOT_MAX:
                    self._got.popitem(last=False)
            verdict = self.cdp.send("Fetch.continueRequest", {"requestId": request})
        else:
            if event["resourceType"] == "Document":
                self._refused[event["frameId"]] = url
                while len(self._refused) > REFUSALS_MAX:
                    self._refused.popitem(last=False)
            # Aborted, the tab keeps the document it has.
            verdict = self.cdp.send("Fetch.failRequest", {"requestId": request, "errorReason": "Aborted"})
        self._door.start(self._door.through(verdict, boot_ms() + VERDICT_MS_MAX))
