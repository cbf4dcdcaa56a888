"""The host's fsynced high-water mark of the stream's sequence: a store that went back would issue epochs again."""

import asyncio
import os
from pathlib import Path

from lessor.broker.jetstream import Stream
from lessor.errors import Code, Problem, problem
from lessor.messages.record import HostSession
from lessor.ports import BrokerAway, Hosts


class HighWater:
    """One small file per host. Written at activation and on beats, never per append."""

    def __init__(self, path: Path, stream: Stream) -> None:
        self._path, self._stream = path, stream

    async def check(self) -> Problem | None:
        """A problem when the store lies behind what this host has seen. Raises BrokerAway."""
        seen = await asyncio.to_thread(self._read)
        last = await self._stream.last_sequence()
        if last >= seen:
            return None
        return problem(
            Code.SETUP_FAILED,
            f"The broker's store ends at {last}, but this host has seen {seen}: the store was rolled back or replaced."
            f" Restore it; or, if its loss is accepted, remove {self._path}.",
        )

    async def keep(self) -> None:
        """Note where the store is now. Raises BrokerAway."""
        last = await self._stream.last_sequence()
        await asyncio.to_thread(self._write, last)

    async def note(self) -> bool:
        """On a beat: False when the store went back under us."""
        if await self.check() is not None:
            return False
        await self.keep()
        return True

    def _read(self) -> int:
        try:
            return int(self._path.read_text())
        except (FileNotFoundError, ValueError):
            return 0

    def _write(self, last: int) -> None:
        new = self._path.with_suffix(".new")
        with new.open("w") as file:
            file.write(str(last))
            file.flush()
            os.fsync(file.fileno())
        new.replace(self._path)


class WatchedHosts:
    """`ports.Hosts` that notes the high-water mark with each beat; a store that went back ends the session."""

    def __init__(self, hosts: Hosts, water: HighWater) -> None:
        self._hosts, self._water = hosts, water

    async def begin(self, session: HostSession) -> bool:
        return await self._hosts.begin(session)

    async def beat(self) -> int | None:
        sent_ms = await self._hosts.beat()
        if sent_ms is None:
            return None
        try:
            return sent_ms if await self._water.note() else None
        except BrokerAway:
            return sent_ms

    async def alive(self, host: str) -> HostSession | None:
        return await self._hosts.alive(host)

    async def end(self) -> None:
        await self._hosts.end()
