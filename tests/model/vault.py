"""`ports.Vault` in memory."""

import asyncio
import hashlib

from lessor.messages.ids import ProfileKey
from lessor.ports import BrokerAway
from tests.model.stream import Line
from tests.model.world import World


class MemoryVault:
    """Objects by name in the world."""

    def __init__(self, world: World) -> None:
        self._world = world

    async def put(self, name: str, sealed: bytes) -> str:
        await self._reach()
        self._world.objects[name] = sealed
        await self._reach()
        return hashlib.sha256(sealed).hexdigest()

    async def get(self, name: str, sha256: str) -> bytes | None:
        await self._reach()
        sealed = self._world.objects.get(name)
        return sealed if sealed is not None and hashlib.sha256(sealed).hexdigest() == sha256 else None

    async def delete(self, name: str) -> None:
        await self._reach()
        self._world.objects.pop(name, None)

    async def names(self, key: ProfileKey) -> tuple[str, ...]:
        await self._reach()
        return tuple(sorted(name for name in self._world.objects if name.startswith(f"{key}/")))

    async def _reach(self) -> None:
        await self._world.pause()
        if self._world.away:
            raise BrokerAway("the simulated broker is away")


class LineVault:
    """Objects of a modelled store, over one process's way to it."""

    def __init__(self, line: Line, objects: dict[str, bytes]) -> None:
        self._line, self._objects = line, objects

    async def put(self, name: str, sealed: bytes) -> str:
        await self._reach()
        assert name not in self._objects, name
        self._objects[name] = sealed
        await self._reach()
        return hashlib.sha256(sealed).hexdigest()

    async def get(self, name: str, sha256: str) -> bytes | None:
        await self._reach()
        sealed = self._objects.get(name)
        return sealed if sealed is not None and hashlib.sha256(sealed).hexdigest() == sha256 else None

    async def delete(self, name: str) -> None:
        await self._reach()
        self._objects.pop(name, None)

    async def names(self, key: ProfileKey) -> tuple[str, ...]:
        await self._reach()
        return tuple(sorted(name for name in self._objects if name.startswith(f"{key}/")))

    async def _reach(self) -> None:
        await asyncio.sleep(self._line.store.random.uniform(0.001, 0.01))
        if not self._line.is_open:
            await asyncio.sleep(self._line.store.random.uniform(0.1, 5))
            raise BrokerAway("the modelled store is away")
