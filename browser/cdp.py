"""A session of the DevTools protocol, typed."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, cast

from playwright.async_api import CDPSession

Event = dict[str, Any]
Sender = Callable[[str, dict[str, object]], Awaitable[dict[str, Any]]]


class Cdp:
    """Commands go out in the order in which they were started, each in its own task or not."""

    def __init__(self, session: CDPSession) -> None:
        self._session = session
        # Playwright declares a bare dict.
        self._send = cast("Sender", session.send)  # pyright: ignore[reportUnknownMemberType]

    async def send(self, method: str, parameters: Mapping[str, object] | None = None) -> dict[str, Any]:
        """One command, answered. Unbounded: put it through the door."""
        return await self._send(method, dict(parameters or {}))

    def on(self, event: str, hear: Callable[[Event], None]) -> None:
        self._session.on(event, hear)

    async def detach(self) -> None:
        """Close the session."""
        await self._session.detach()


async def target_of(cdp: Cdp) -> str:
    """The target id of the session's page, which survives a restart of its host."""
    info = await cdp.send("Target.getTargetInfo")
    return str(info["targetInfo"]["targetId"])
