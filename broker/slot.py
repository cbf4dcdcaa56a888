"""Reply slots: who waits for an answer, and how many may."""

import asyncio
from collections import Counter
from collections.abc import Callable, Hashable
from typing import Final

import structlog

from lessor.broker.connection import Connection
from lessor.errors import Code, problem
from lessor.messages import wire
from lessor.messages.ids import Caller
from lessor.messages.reply import Refused, Reply

log: Final[structlog.stdlib.BoundLogger] = structlog.get_logger("lessor.broker")


class Room:
    """How many requests are in hand, in all, per caller, and per caller and profile. Lives on the loop."""

    def __init__(self, inflight_max: int, per_profile_max: int, per_caller_max: int) -> None:
        self._inflight_max = inflight_max
        self._per_profile_max = per_profile_max
        self._per_caller_max = per_caller_max
        self._taken: Counter[Hashable] = Counter()
        self._emptied = asyncio.Event()
        self._emptied.set()
        self.inflight = 0

    def take(self, caller: Caller, key: Hashable) -> bool:
        full = self.inflight >= self._inflight_max or self._taken[caller] >= self._per_caller_max
        if full or self._taken[key] >= self._per_profile_max:
            return False
        self.inflight += 1
        self._taken[caller] += 1
        self._taken[key] += 1
        self._emptied.clear()
        return True

    def give_back(self, caller: Caller, key: Hashable) -> None:
        self.inflight -= 1
        for whose in (caller, key):
            self._taken[whose] -= 1
            if not self._taken[whose]:
                del self._taken[whose]
        if not self.inflight:
            self._emptied.set()

    async def emptied(self, within_s: float) -> bool:
        """Wait until everything was answered."""
        try:
            async with asyncio.timeout(within_s):
                await self._emptied.wait()
        except TimeoutError:
            return False
        return True


class Pace:
    """So many a second per tenant, and so many at once. Lives on the loop."""

    def __init__(self, per_s: float) -> None:
        self._per_s = per_s
        self._full_at: dict[str, float] = {}
        """When each tenant's bucket will be full again; those that are full are forgotten."""

    def take(self, tenant: str, now_s: float) -> bool:
        empty_s = max(1.0, self._per_s) / self._per_s
        full_at = max(now_s, self._full_at.get(tenant, now_s)) + 1 / self._per_s
        if full_at > now_s + empty_s + 1e-9:
            return False
        if len(self._full_at) > 1000:
            self._full_at = {other: at for other, at in self._full_at.items() if at > now_s}
        self._full_at[tenant] = full_at
        return True


class Slot:
    """One caller's answer, from any thread: the first call counts, passing on included.

    It takes room until then, or until `counts_s` have passed.
    """

    def __init__(
        self, connection: Connection, reply_to: str, counts_s: float, done: Callable[[str | None], None]
    ) -> None:
        self._connection = connection
        self._reply_to = reply_to
        self._done: Callable[[str | None], None] | None = done
        self._answered = False
        self._loop = asyncio.get_running_loop()
        self._timer = self._loop.call_later(counts_s, self._expire)

    def answer(self, reply: Reply) -> None:
        error = str(reply.error.code) if isinstance(reply, Refused) else None
        self._on_loop(self._send, self._reply_to, bounded(reply), "", None, error)

    def pass_on(self, subject: str, payload: bytes, headers: dict[str, str]) -> None:
        """The request goes to somebody else, who answers the caller's inbox himself."""
        self._on_loop(self._send, subject, payload, self._reply_to, headers, None)

    def _on_loop(
        self,
        send: Callable[[str, bytes, str, dict[str, str] | None, str | None], None],
        subject: str,
        payload: bytes,
        reply: str,
        headers: dict[str, str] | None,
        error: str | None,
    ) -> None:
        if asyncio._get_running_loop() is self._loop:  # noqa: SLF001 -- the public form raises where there is none
            send(subject, payload, reply, headers, error)
            return
        try:
            self._loop.call_soon_threadsafe(send, subject, payload, reply, headers, error)
        except RuntimeError:
            log.info("answer after the loop was closed")

    def _send(
        self, subject: str, payload: bytes, reply: str, headers: dict[str, str] | None, error: str | None
    ) -> None:
        if self._answered:
            return
        self._answered = True
        if subject:
            self._connection.send(subject, payload, reply, headers)
        self._settle(error)

    def _expire(self) -> None:
        """Nobody waits any more. An answer that still comes is sent, but no longer counted."""
        log.warning("a request was never answered")
        self._settle("never answered")

    def _settle(self, error: str | None) -> None:
        self._timer.cancel()
        if self._done is not None:
            self._done(error)
            self._done = None


def bounded(reply: Reply) -> bytes:
    """The encoded reply; one over 640 KiB becomes `output_invalid` with the same effect and lease."""
    body = wire.encode(reply)
    if len(body) <= wire.REPLY_BYTES_MAX:
        return body
    told = problem(
        Code.OUTPUT_INVALID,
        f"The answer has {len(body)} bytes, more than {wire.REPLY_BYTES_MAX}: ask for less.",
        effect=reply.effect,
    )
    return wire.encode(Refused(error=told, effect=reply.effect, lease=reply.lease))
