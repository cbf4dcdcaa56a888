"""`ports.Hosts` in memory."""

from lessor.messages.record import HostSession
from lessor.ports import BrokerAway
from tests.model.world import Acknowledged, Publish, World, WrongLast

WATCHES_MAX = 20


class MemoryHosts:
    """One host's session. `ttl_s` runs on the world's clock."""

    def __init__(self, world: World, ttl_s: float = 40.0) -> None:
        self._world = world
        self._ttl_ms = round(ttl_s * 1000)
        self._session: HostSession | None = None
        self._sequence = 0
        self._acknowledged_ms = 0

    async def begin(self, session: HostSession) -> bool:
        found = await self._world.last(_subject(session.host))
        if found is not None:
            assert isinstance(found.value, HostSession)
            if found.value.boot != session.boot and await self._is_beaten(session.host, found.sequence):
                return False
        expected = found.sequence if found else 0
        for _ in range(WATCHES_MAX):
            sent_ms = self._world.clock.now_ms()
            told = await self._world.publish(self._write(session, expected))
            if isinstance(told, Acknowledged):
                self._session, self._sequence, self._acknowledged_ms = session, told.sequence, sent_ms
                return True
            if isinstance(told, WrongLast):
                found = await self._world.last(_subject(session.host))
                if found is not None and found.nonce != session.nonce:
                    return False
                expected = found.sequence if found else 0
            await self._world.pause()
        raise BrokerAway("the session cannot be written")

    async def _is_beaten(self, host: str, seen: int) -> bool:
        for _ in range(WATCHES_MAX):
            await self._world.pause()
            found = await self._world.last(_subject(host))
            if found is None:
                return False
            if found.sequence != seen:
                return True
        return False

    async def beat(self) -> int | None:
        session = self._session
        while True:
            sent_ms = self._world.clock.now_ms()
            if session is None or sent_ms - self._acknowledged_ms >= self._ttl_ms:
                break
            told = await self._world.publish(self._write(session, self._sequence))
            if isinstance(told, Acknowledged):
                self._sequence, self._acknowledged_ms = told.sequence, sent_ms
                return sent_ms
            if isinstance(told, WrongLast) and not await self._still_mine(session):
                break
            await self._world.pause()
        self._session = None
        return None

    async def _still_mine(self, session: HostSession) -> bool:
        try:
            found = await self._world.last(_subject(session.host))
        except BrokerAway:
            return True
        if found is None or found.nonce != session.nonce:
            return False
        self._sequence = found.sequence
        return True

    async def alive(self, host: str) -> HostSession | None:
        found = await self._world.last(_subject(host))
        if found is None:
            return None
        assert isinstance(found.value, HostSession)
        return found.value

    async def end(self) -> None:
        session, self._session = self._session, None
        if session is not None and not self._world.away:
            self._world.remove(self._sequence)

    def _write(self, session: HostSession, expected: int) -> Publish:
        subject = _subject(session.host)
        return Publish(subject, subject, expected, session, session.nonce, rollup=True, ttl_ms=self._ttl_ms)


def _subject(host: str) -> str:
    return f"host/{host}/"
