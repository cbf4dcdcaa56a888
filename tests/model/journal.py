"""`ports.Journal` in memory."""

from lessor.messages import wire
from lessor.messages.hashing import digest
from lessor.messages.ids import ProfileKey
from lessor.messages.record import Entry, Own
from lessor.ports import BrokerAway, Chain, Landed, Superseded
from tests.model.world import Acknowledged, Kept, Publish, World, WrongLast


class MemoryJournal:
    """The rules of the chain, without a broker."""

    def __init__(self, world: World) -> None:
        self._world = world

    async def append(self, key: ProfileKey, message: Entry | Own, expected: int) -> Landed | Superseded:
        is_own = isinstance(message, Own)
        subject = f"{_chain(key)}{'own' if is_own else 'journal'}"
        write = Publish(subject, _chain(key), expected, message, message.nonce, rollup=is_own)
        while True:
            told = await self._world.publish(write)
            if isinstance(told, Acknowledged):
                return Landed(told.sequence)
            if isinstance(told, WrongLast):
                verdict = await self._whose(told.last, message.nonce)
                if verdict is not None:
                    return verdict
            await self._world.pause()

    async def _whose(self, last: int, nonce: str) -> Landed | Superseded | None:
        if last == 0:
            return Superseded(0)
        try:
            found = await self._world.at(last)
        except BrokerAway:
            return None
        if found is None:
            return None
        return Landed(last) if found.nonce == nonce else Superseded(last)

    async def head(self, key: ProfileKey) -> Chain:
        found = await self._world.read(_chain(key))
        own = next((kept for kept in found if isinstance(kept.value, Own)), None)
        return _told(found, own, with_entries=False)

    async def replay(self, key: ProfileKey, at_least: int) -> Chain:
        found = await self._world.read(_chain(key))
        if (found[-1].sequence if found else 0) < at_least:
            raise BrokerAway(f"the chain of {key} ends before {at_least}")
        own = next((kept for kept in found if isinstance(kept.value, Own)), None)
        return _told(found, own, with_entries=True)

    async def owned_by(self, host: str) -> tuple[ProfileKey, ...]:
        return tuple(key for key, own in await self._owns("p/") if own.host == host and own.state == "active")

    async def profiles(self, tenant: str) -> tuple[tuple[ProfileKey, Own], ...]:
        return await self._owns(f"p/{tenant}/")

    async def _owns(self, below: str) -> tuple[tuple[ProfileKey, Own], ...]:
        found: list[tuple[ProfileKey, Own]] = []
        for kept in await self._world.read(below):
            if isinstance(kept.value, Own):
                _, tenant, profile, _ = kept.subject.split("/")
                found.append((ProfileKey(tenant, profile), kept.value))
        return tuple(sorted(found, key=lambda pair: pair[0]))


def _chain(key: ProfileKey) -> str:
    return f"p/{key.tenant}/{key.profile}/"


def _told(found: list[Kept], own: Kept | None, *, with_entries: bool) -> Chain:
    entries = tuple((kept.sequence, kept.value) for kept in found if with_entries and isinstance(kept.value, Entry))
    return Chain(
        last=found[-1].sequence if found else 0,
        own=own.value if own and isinstance(own.value, Own) else None,
        own_sequence=own.sequence if own else 0,
        entries=entries,
        tail=digest(wire.encode(entries[-1][1])) if entries else "",
    )
