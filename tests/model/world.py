"""A broker in memory: one stream with sequences, expectations, rollup and TTL, and switches for its faults.

Knows neither asyncio nor a real clock: every await is `pause`, which a simulator replaces by its scheduler.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from lessor.ports import BrokerAway, Clock


class VirtualClock:
    """A clock that stands until it is told to go."""

    def __init__(self, boot: str = "boot-1", now_ms: int = 1_000_000) -> None:
        self.boot = boot
        self._now_ms = now_ms

    def now_ms(self) -> int:
        return self._now_ms

    def unix_ms(self) -> int:
        return self._now_ms + 1_700_000_000_000

    def advance(self, seconds: float) -> None:
        self._now_ms += round(seconds * 1000)


@dataclass(frozen=True, slots=True)
class Kept:
    """One stored message. `value` is what was written, as it is."""

    sequence: int
    subject: str
    value: object
    nonce: str
    until_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Acknowledged:
    sequence: int


@dataclass(frozen=True, slots=True)
class WrongLast:
    last: int


class Unclear:
    """Timeout, 10163, 10164: nobody knows."""


Told = Acknowledged | WrongLast | Unclear


@dataclass(frozen=True, slots=True)
class Publish:
    """A conditional write: `below` is the subject prefix whose last sequence must be `expected`."""

    subject: str
    below: str
    expected: int
    value: object
    nonce: str
    rollup: bool = False
    ttl_ms: int | None = None


@dataclass
class World:
    """Shared by all models of one simulated broker."""

    clock: Clock
    pause: Callable[[], Awaitable[None]]
    kept: list[Kept] = field(default_factory=list[Kept])
    objects: dict[str, bytes] = field(default_factory=dict[str, bytes])
    away: bool = False
    """Nothing is stored and nothing can be read."""
    _last: int = 0
    _losses: int = 0
    _refusals: int = 0
    _delays: int = 0
    _ghosts: list[Publish] = field(default_factory=list[Publish])

    def lose_acknowledgements(self, count: int = 1) -> None:
        """The next writes are stored, their acknowledgements lost."""
        self._losses = count

    def refuse(self, count: int) -> None:
        """The next writes are answered by an error that says nothing about ownership."""
        self._refusals = count

    def delay(self, count: int = 1) -> None:
        """The next writes time out and stay in the network until `release_ghosts`."""
        self._delays = count

    async def release_ghosts(self) -> None:
        """Let the delayed writes arrive now."""
        ghosts, self._ghosts = self._ghosts, []
        for ghost in ghosts:
            self._apply(ghost)

    async def publish(self, write: Publish) -> Told:
        await self.pause()
        if self.away:
            return Unclear()
        if self._refusals:
            self._refusals -= 1
            return Unclear()
        if self._delays:
            self._delays -= 1
            self._ghosts.append(write)
            return Unclear()
        told = self._apply(write)
        await self.pause()
        if self._losses and isinstance(told, Acknowledged):
            self._losses -= 1
            return Unclear()
        return told

    def _apply(self, write: Publish) -> Told:
        last = max((kept.sequence for kept in self._live() if kept.subject.startswith(write.below)), default=0)
        if last != write.expected:
            return WrongLast(last)
        self._last += 1
        if write.rollup:
            self.kept = [kept for kept in self.kept if kept.subject != write.subject]
        until_ms = None if write.ttl_ms is None else self.clock.now_ms() + write.ttl_ms
        self.kept.append(Kept(self._last, write.subject, write.value, write.nonce, until_ms))
        return Acknowledged(self._last)

    async def read(self, below: str) -> list[Kept]:
        """All live messages under a subject prefix, in order. Raises BrokerAway."""
        await self.pause()
        if self.away:
            raise BrokerAway("the simulated broker is away")
        return [kept for kept in self._live() if kept.subject.startswith(below)]

    async def last(self, below: str) -> Kept | None:
        found = await self.read(below)
        return found[-1] if found else None

    async def at(self, sequence: int) -> Kept | None:
        return next((kept for kept in await self.read("") if kept.sequence == sequence), None)

    def remove(self, sequence: int) -> None:
        self.kept = [kept for kept in self.kept if kept.sequence != sequence]

    def _live(self) -> list[Kept]:
        now = self.clock.now_ms()
        return [kept for kept in self.kept if kept.until_ms is None or kept.until_ms > now]
