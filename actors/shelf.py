"""Where an owner keeps the files of its leases: encrypted in the store, read in pieces."""

import asyncio
import hashlib

from lessor.actors.words import Ports
from lessor.errors import Code, Problem, problem
from lessor.lease.verdict import FileStored, ReadFile, Tended
from lessor.messages.ids import ProfileKey
from lessor.messages.reply import ArtifactTold
from lessor.messages.request import ReadArtifact
from lessor.ports import BrokerAway, FileFound, FileSpec

PIECE_BYTES = 256 << 10
SETTLE_S_MAX = 5.0
AWAY = problem(Code.BROKER_UNAVAILABLE, "The store cannot be read now: ask again.")


class Shelf:
    """Runs on the loop. The file read last is kept open until its last piece was asked for."""

    def __init__(self, ports: Ports, key: ProfileKey) -> None:
        self._ports, self._key = ports, key
        self._opened: tuple[str, bytes] | None = None
        self._storing: set[asyncio.Future[None]] = set()

    async def keep(self, instance: str, found: FileFound) -> FileStored | None:
        """Store it; None when the store did not take it: then the file lives as long as its browser only."""
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._storing.add(done)
        # No hyphen: names with one are sealed state, of which sweeps remove what no generation needs.
        own = f"file_{found.artifact.id}_{self._ports.fresh()}".replace("-", "")
        name = f"{self._key.tenant}/{self._key.profile}/{own}"
        try:
            stored = await self._ports.vault.put(name, found.sealed)
        except BrokerAway:
            return None
        finally:
            self._storing.discard(done)
            done.set_result(None)
        digest = hashlib.sha256(found.sealed).hexdigest()
        return FileStored(instance, found.artifact, name, digest, found.key_id) if stored == digest else None

    async def settled(self) -> None:
        """Nothing that was whole before is under way any more, or 5 s are over."""
        if self._storing:
            await asyncio.wait(self._storing, timeout=SETTLE_S_MAX)

    async def read(self, order: ReadFile) -> Tended:
        """The piece that was asked for."""
        request = order.asked.request
        assert isinstance(request, ReadArtifact)
        body = await self._body(order)
        if isinstance(body, Problem):
            return Tended(order.asked, body)
        piece = body[request.offset : request.offset + PIECE_BYTES]
        if request.offset + len(piece) >= len(body):
            self._opened = None
        told = ArtifactTold(artifacts=(order.kept.artifact,), data=piece, offset=request.offset)
        return Tended(order.asked, told)

    async def drop(self, objects: tuple[str, ...]) -> None:
        """As far as the store takes it; what is left there nobody is given any more."""
        for name in objects:
            try:
                await self._ports.vault.delete(name)
            except BrokerAway:
                return

    async def _body(self, order: ReadFile) -> bytes | Problem:
        kept = order.kept
        if self._opened is not None and self._opened[0] == kept.object:
            return self._opened[1]
        try:
            sealed = await self._ports.vault.get(kept.object, kept.object_sha256)
        except BrokerAway:
            return AWAY
        if sealed is None:
            return problem(Code.NOT_FOUND, "The artifact is missing or damaged in the store.")
        owner = order.asked.caller.principal
        spec = FileSpec(self._key, owner, order.instance, kept.artifact.id)
        body = await self._ports.browser.open_file(spec, sealed)
        if isinstance(body, bytes):
            self._opened = (kept.object, body)
        return body
