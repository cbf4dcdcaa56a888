"""JetStream in memory, below the real ports: one stream with its expectations, rollup, TTL and filters.

`Store` is the server; each host reaches it by a `Line` of its own. The faults seen for real are drawn
from the store's chances: acknowledgements lost, writes that land late, answers that say nothing
about ownership, and reads from a leader that does not know yet that it is none.
"""

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from lessor.broker.jetstream import (
    EXPECTED,
    EXPECTED_FILTER,
    PUBLISH_S,
    READ_S_MAX,
    ROLLUP,
    TTL,
    WRONG_LAST,
    Ack,
    Refusal,
    Stored,
    Stream,
)
from lessor.ports import BrokerAway, Silence

IN_FLIGHT: Final = 10164
STALE_S_MAX: Final = 4.0


@dataclass(slots=True)
class Chances:
    """Of a write, each, and of a read to be stale while its line is."""

    lost: float = 0.0
    ghost: float = 0.0
    in_flight: float = 0.0
    lagging: float = 0.0
    """A scan answered by a replica that is a few messages behind."""
    ghost_s_max: float = 15.0

    def silence(self) -> None:
        self.lost = self.ghost = self.in_flight = self.lagging = 0.0


@dataclass(slots=True)
class _Subject:
    is_rolled_up: bool = False
    kept: list[Stored] = field(default_factory=list[Stored])
    """All there ever were; a rolled-up subject holds the last one only."""
    until_s: float | None = None
    removed: set[int] = field(default_factory=set[int])


@dataclass
class Store:
    """The server. `now_s` is its clock; `later` runs something after a time, whoever lives by then."""

    random: random.Random
    now_s: Callable[[], float]
    later: Callable[[float, Callable[[], object]], None]
    stored: Callable[[Stored], None]
    """Told of every message, in order."""
    counted: Callable[[str], None]
    """Told of every fault by its kind."""
    chances: Chances = field(default_factory=Chances)
    down_until_s: float = 0.0
    last: int = 0
    _subjects: dict[str, _Subject] = field(default_factory=dict[str, _Subject])

    @property
    def is_down(self) -> bool:
        return self.now_s() < self.down_until_s

    def apply(self, subject: str, data: bytes, headers: dict[str, str]) -> Ack | Refusal:
        """One write, in the order of the stream."""
        if EXPECTED in headers:
            last = max((found.sequence for found in self.view(headers.get(EXPECTED_FILTER, subject))), default=0)
            if last != int(headers[EXPECTED]):
                return Refusal(WRONG_LAST, f"wrong last sequence: {last}")
        self.last += 1
        raw = "".join(f"{name}: {value}\r\n" for name, value in headers.items()).encode()
        message = Stored(self.last, subject, data, raw)
        at = self._subjects.setdefault(subject, _Subject())
        at.kept.append(message)
        at.is_rolled_up = ROLLUP in headers
        at.until_s = self.now_s() + int(headers[TTL].removesuffix("ms")) / 1000 if TTL in headers else None
        self.stored(message)
        return Ack(self.last)

    def view(self, subject: str, at_most: int | None = None) -> list[Stored]:
        """What a reader finds by that filter, or found when the stream ended at `at_most`."""
        found: list[Stored] = []
        for name, at in self._subjects.items():
            if not matches(subject, name) or (at.until_s is not None and at.until_s <= self.now_s()):
                continue
            kept = at.kept if at_most is None else [message for message in at.kept if message.sequence <= at_most]
            kept = [
                message for message in (kept[-1:] if at.is_rolled_up else kept) if message.sequence not in at.removed
            ]
            found += kept
        return sorted(found, key=lambda message: message.sequence)

    def remove(self, sequence: int) -> bool:
        for at in self._subjects.values():
            if any(message.sequence == sequence for message in at.kept):
                at.removed.add(sequence)
                return True
        return False


def matches(subject: str, name: str) -> bool:
    """A subject filter: `*` is one token, a last `>` the rest."""
    if subject in (name, ">"):
        return True
    if subject.endswith(".>"):
        return name.startswith(subject[:-1]) if "*" not in subject else matches(".".join(subject.split(".")[:-1]), name)
    if "*" not in subject:
        return False
    wanted, tokens = subject.split("."), name.split(".")
    return len(wanted) == len(tokens) and all(want in ("*", token) for want, token in zip(wanted, tokens, strict=True))


@dataclass(slots=True)
class Line:
    """One process's way to the broker."""

    store: Store
    cut_until_s: float = 0.0
    stale_until_s: float = 0.0
    stale_at: int = 0

    @property
    def is_open(self) -> bool:
        return self.store.now_s() >= self.cut_until_s and not self.store.is_down

    @property
    def heals_s(self) -> float:
        return max(self.cut_until_s, self.store.down_until_s) - self.store.now_s()

    def goes_stale(self, seconds: float) -> None:
        """Reads are served for a while by a leader that has been cut off: it knows nothing newer."""
        self.stale_at, self.stale_until_s = self.store.last, self.store.now_s() + min(seconds, STALE_S_MAX)


class ModelStream(Stream):
    """`broker.jetstream.Stream` over a `Line`: what the real ports are run on."""

    def __init__(self, line: Line) -> None:
        self._line, self._store = line, line.store

    def __repr__(self) -> str:
        return f"ModelStream(last {self._store.last})"

    async def publish(
        self, subject: str, data: bytes, headers: dict[str, str], timeout_s: float = PUBLISH_S
    ) -> Ack | Refusal | Silence:
        store, draw = self._store, self._store.random.random()
        chances = store.chances
        if not self._line.is_open:
            if draw < 0.3:
                # Left in a buffer on the way: it arrives when the way is open again, whoever still wants it.
                store.counted("ghost write")
                store.later(self._line.heals_s + 0.1, lambda: self._arrives(subject, data, headers))
            await asyncio.sleep(0.05 if draw < 0.6 else timeout_s)
            return Silence.DISCONNECTED if draw < 0.6 else Silence.TIMEOUT
        if draw < chances.in_flight:
            store.counted("spurious 10164")
            await self._way()
            return Refusal(IN_FLIGHT, "another write is in flight")
        draw -= chances.in_flight
        if draw < chances.ghost:
            store.counted("ghost write")
            ghost_s = store.random.uniform(0.01, chances.ghost_s_max)
            store.later(ghost_s, lambda: self._arrives(subject, data, headers))
            await asyncio.sleep(timeout_s)
            return Silence.TIMEOUT
        draw -= chances.ghost
        answer: asyncio.Future[Ack | Refusal] = asyncio.get_running_loop().create_future()
        loop = asyncio.get_running_loop()

        def arrive() -> None:
            told = self._arrives(subject, data, headers)
            if told is None or (draw < chances.lost and isinstance(told, Ack)):
                if told is not None:
                    store.counted("lost acknowledgement")
                return
            loop.call_soon_threadsafe(hear, told)

        def hear(told: Ack | Refusal) -> None:
            if not answer.done():
                answer.set_result(told)

        store.later(self._way_s(), arrive)
        await asyncio.wait({answer}, timeout=timeout_s)
        if not answer.done():
            return Silence.TIMEOUT
        await self._way()
        return self._unless_cut(answer.result())

    def _arrives(self, subject: str, data: bytes, headers: dict[str, str]) -> Ack | Refusal | None:
        return None if self._store.is_down else self._store.apply(subject, data, headers)

    def _unless_cut(self, told: Ack | Refusal) -> Ack | Refusal | Silence:
        """The answer was on its way: the line may have been cut meanwhile."""
        return told if self._line.is_open else Silence.TIMEOUT

    def _way_s(self) -> float:
        return self._store.random.uniform(0.0001, 0.003)

    async def _way(self) -> None:
        await asyncio.sleep(self._way_s())

    async def _view(self, subject: str) -> list[Stored]:
        """Bounded as the real reads are."""
        loop = asyncio.get_running_loop()
        until_s = loop.time() + READ_S_MAX
        while True:
            await self._way()
            if self._line.is_open:
                is_stale = self._store.now_s() < self._line.stale_until_s
                if is_stale:
                    self._store.counted("stale read")
                found = self._store.view(subject, self._line.stale_at if is_stale else None)
                await self._way()
                return found
            if loop.time() >= until_s:
                raise BrokerAway("the broker did not answer in time")
            await asyncio.sleep(0.25)

    async def last(self, subject: str) -> Stored | None:
        found = await self._view(subject)
        return found[-1] if found else None

    async def last_sequence(self) -> int:
        await self._way()
        return self._store.last

    async def at(self, sequence: int) -> Stored | None:
        return next((found for found in await self._view(">") if found.sequence == sequence), None)

    async def after(self, subject: str, sequence: int) -> Stored | None:
        return next((found for found in await self._view(subject) if found.sequence > sequence), None)

    async def delete(self, sequence: int) -> bool:
        await self._way()
        return self._line.is_open and self._store.remove(sequence)

    async def scan(self, subject: str) -> list[Stored]:
        found, store = await self._view(subject), self._store
        if store.random.random() >= store.chances.lagging:
            return found
        store.counted("lagging replica")
        behind = store.last - store.random.randrange(1, 12)
        return [message for message in store.view(subject, behind) if message in found]
