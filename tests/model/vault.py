"""`ports.Vault` in memory."""

import hashlib

from lessor.messages.ids import ProfileKey
from lessor.ports import BrokerAway
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
