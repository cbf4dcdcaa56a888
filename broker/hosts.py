"""Host sessions: a message with a TTL, beaten by compare-and-set, so a lapsed one cannot be revived."""

import asyncio
import itertools
from typing import Final

from lessor.broker.jetstream import EXPECTED, ROLLUP, TTL, WRONG_LAST, Ack, Refusal, Stored, Stream, backoff
from lessor.broker.subjects import Shard
from lessor.messages import wire
from lessor.messages.record import HostSession
from lessor.ports import BrokerAway, Clock

TTL_S: Final = 40.0
WATCH_S: Final = 10.0
"""Two beats: how long a session of another boot is watched before it counts as silent."""
BEGIN_S_MAX: Final = 10.0


class StreamHosts:
    """`ports.Hosts` on the shard's stream, for one host. Not for concurrent beats."""

    def __init__(
        self, stream: Stream, shard: Shard, clock: Clock, ttl_s: float = TTL_S, watch_s: float = WATCH_S
    ) -> None:
        assert ttl_s >= 1, "the broker knows no shorter TTL"
        self._stream = stream
        self._shard = shard
        self._clock = clock
        self._ttl_ms = round(ttl_s * 1000)
        self._watch_s = watch_s
        self._session: HostSession | None = None
        self._sequence = 0
        self._acknowledged_ms = 0

    def __repr__(self) -> str:
        return f"StreamHosts({self._session}, sequence {self._sequence})"

    async def begin(self, session: HostSession) -> bool:
        """Over an earlier session of the same boot at once: its process has lost the data directory's lock.

        Over one of another boot only when it is not beaten for two beats. Called again with the same
        nonce it changes the state. Raises BrokerAway after its bound (10 s).
        """
        found = await self._stream.last(self._shard.host(session.host))
        if found is not None:
            held = wire.decode(found.data, HostSession)
            if held.boot != session.boot and not await self._falls_silent(found):
                return False
        return await self._write_first(session, found.sequence if found else 0)

    async def _falls_silent(self, found: Stored) -> bool:
        until = asyncio.get_running_loop().time() + self._watch_s
        while asyncio.get_running_loop().time() < until:
            await asyncio.sleep(self._watch_s / 20)
            now = await self._stream.last(found.subject)
            if now is None:
                return True
            if now.sequence != found.sequence:
                return False
        return True

    async def _write_first(self, session: HostSession, seen: int) -> bool:
        until = asyncio.get_running_loop().time() + BEGIN_S_MAX
        expected = seen
        for attempt in itertools.count():
            sent_ms = self._clock.now_ms()
            told = await self._publish(session, expected)
            if isinstance(told, Ack):
                self._session, self._sequence, self._acknowledged_ms = session, told.sequence, sent_ms
                return True
            if isinstance(told, Refusal) and told.code == WRONG_LAST:
                found = await self._stream.last(self._shard.host(session.host))
                if found is not None and not _is(found, session):
                    return False
                expected = found.sequence if found else 0
            if asyncio.get_running_loop().time() >= until:
                break
            await asyncio.sleep(backoff(attempt))
        raise BrokerAway(f"the session of {session.host} cannot be written")

    async def beat(self) -> int | None:
        """Repeated until an attempt is acknowledged, the session is seen lost, or its TTL has passed."""
        session = self._session
        for attempt in itertools.count():
            sent_ms = self._clock.now_ms()
            if session is None or sent_ms - self._acknowledged_ms >= self._ttl_ms:
                break
            told = await self._publish(session, self._sequence)
            if isinstance(told, Ack):
                self._sequence, self._acknowledged_ms = told.sequence, sent_ms
                return sent_ms
            if isinstance(told, Refusal) and told.code == WRONG_LAST and not await self._still_mine(session):
                break
            await asyncio.sleep(backoff(attempt))
        self._session = None
        return None

    async def _still_mine(self, session: HostSession) -> bool:
        """Whether the refusal came from an earlier attempt of mine that landed: then go on from there."""
        try:
            found = await self._stream.last(self._shard.host(session.host))
        except BrokerAway:
            return True
        if found is None or not _is(found, session):
            return False
        self._sequence = found.sequence
        return True

    async def alive(self, host: str) -> HostSession | None:
        """Raises BrokerAway when it cannot be read: silence of the broker is not death of a host."""
        found = await self._stream.last(self._shard.host(host))
        return wire.decode(found.data, HostSession) if found else None

    async def end(self) -> None:
        """Remove the session, so that successors need not wait. When that fails, the TTL does it."""
        session, self._session = self._session, None
        if session is not None:
            await self._stream.delete(self._sequence)

    async def _publish(self, session: HostSession, expected: int) -> object:
        headers = {EXPECTED: str(expected), ROLLUP: "sub", TTL: f"{self._ttl_ms}ms"}
        return await self._stream.publish(self._shard.host(session.host), wire.encode(session), headers)


def _is(found: Stored, session: HostSession) -> bool:
    held = wire.decode(found.data, HostSession)
    return (held.incarnation, held.nonce) == (session.incarnation, session.nonce)
