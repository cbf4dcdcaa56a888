"""A journal in front of the real one, whose appends a test can hold: before they are sent, or before they are known."""

from dataclasses import dataclass, field
from typing import Literal

from lessor.messages.ids import ProfileKey
from lessor.messages.record import AnyRecord, Entry, Own
from lessor.ports import Chain, Journal, Landed, Superseded
from tests.model.browser import Gate

When = Literal["before", "after"]


@dataclass
class Holds:
    """What is held: the next entry with a record of that kind."""

    gates: list[tuple[type[AnyRecord], When, Gate]] = field(default_factory=list[tuple[type[AnyRecord], When, Gate]])

    def hold(self, kind: type[AnyRecord], when: When) -> Gate:
        gate = Gate()
        self.gates.append((kind, when, gate))
        return gate

    def take(self, message: Entry | Own) -> tuple[When, Gate] | None:
        records = message.records if isinstance(message, Entry) else ()
        for held in self.gates:
            kind, when, gate = held
            if any(isinstance(record, kind) for record in records):
                self.gates.remove(held)
                return when, gate
        return None


class HeldJournal:
    """`ports.Journal`."""

    def __init__(self, inner: Journal, holds: Holds) -> None:
        self._inner, self._holds = inner, holds

    async def append(self, key: ProfileKey, message: Entry | Own, expected: int) -> Landed | Superseded:
        held = self._holds.take(message)
        if held is not None and held[0] == "before":
            await held[1].passed()
        landed = await self._inner.append(key, message, expected)
        if held is not None and held[0] == "after":
            await held[1].passed()
        return landed

    async def head(self, key: ProfileKey) -> Chain:
        return await self._inner.head(key)

    async def replay(self, key: ProfileKey, at_least: int) -> Chain:
        return await self._inner.replay(key, at_least)

    async def owned_by(self, host: str) -> tuple[ProfileKey, ...]:
        return await self._inner.owned_by(host)

    async def profiles(self, tenant: str) -> tuple[tuple[ProfileKey, Own], ...]:
        return await self._inner.profiles(tenant)
