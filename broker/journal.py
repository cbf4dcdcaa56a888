"""The journal that fences: one chain per profile on one stream (architecture, Journal and fence)."""

import asyncio
import itertools
from typing import Final

import msgspec
import structlog

from lessor.broker.jetstream import (
    EXPECTED,
    EXPECTED_FILTER,
    ROLLUP,
    WRONG_LAST,
    Ack,
    Refusal,
    Stored,
    Stream,
    backoff,
    within,
)
from lessor.broker.subjects import Shard
from lessor.messages import wire
from lessor.messages.hashing import digest
from lessor.messages.ids import ProfileKey
from lessor.messages.record import Entry, Own
from lessor.ports import BrokerAway, Chain, Landed, Superseded, UnknownRecord

REPLAY_S_MAX: Final = 10.0
_COMPLAIN_EVERY: Final = 40
"""Attempts between two log lines about one pending append: about 10 s."""

log: Final[structlog.stdlib.BoundLogger] = structlog.get_logger("lessor.broker")


class _Nonce(msgspec.Struct):
    nonce: str


class StreamJournal:
    """`ports.Journal` on a stream. Needs nothing but the stream: safe to share between profiles."""

    def __init__(self, stream: Stream, shard: Shard, replay_s_max: float = REPLAY_S_MAX) -> None:
        self._stream = stream
        self._shard = shard
        self._replay_s_max = replay_s_max

    async def append(self, key: ProfileKey, message: Entry | Own, expected: int) -> Landed | Superseded:
        """Repeat the same bytes under the same expectation until the chain says landed or superseded.

        Never gives up: an append given up might still land behind whatever was tried in its place.
        Cancelling the task is how a stopping host leaves it open for its next activation to read.
        """
        subject = self._shard.journal(key)
        headers = {EXPECTED: str(expected), EXPECTED_FILTER: self._shard.chain(key)}
        if isinstance(message, Own):
            subject = self._shard.own(key)
            headers[ROLLUP] = "sub"
        body = wire.encode(message)
        for attempt in itertools.count():
            told = await self._stream.publish(subject, body, headers)
            if isinstance(told, Ack):
                return Landed(told.sequence)
            if isinstance(told, Refusal) and told.code == WRONG_LAST:
                verdict = await self._whose(key, told, message.nonce)
                if verdict is not None:
                    return verdict
            if attempt % _COMPLAIN_EVERY == _COMPLAIN_EVERY - 1:
                log.warning("append pending", profile=str(key), attempts=attempt + 1, answer=_name(told))
            await asyncio.sleep(backoff(attempt))
        raise AssertionError("unreachable")

    async def _whose(self, key: ProfileKey, refusal: Refusal, nonce: str) -> Landed | Superseded | None:
        """Read the message a 10071 names. Mine: an earlier attempt landed. None: still pending."""
        if refusal.last == 0:
            return Superseded(0)
        try:
            if refusal.last is None:
                found = await self._stream.last(self._shard.chain(key))
            else:
                found = await self._stream.at(refusal.last)
        except BrokerAway:
            return None
        if found is None:
            return None
        mine = msgspec.json.decode(found.data, type=_Nonce).nonce == nonce
        return Landed(found.sequence) if mine else Superseded(found.sequence)

    async def head(self, key: ProfileKey) -> Chain:
        """Last sequence and `own`, read one after the other: a write in between shows only in `last`."""
        async with within(self._replay_s_max):
            own = await self._stream.last(self._shard.own(key))
            last = await self._stream.last(self._shard.chain(key))
        return _chain(([own] if own else []), last.sequence if last else 0)

    async def replay(self, key: ProfileKey, at_least: int) -> Chain:
        """What does not reach `at_least` came from a replica behind: read again, for 10 s at most."""
        async with within(self._replay_s_max):
            for attempt in itertools.count():
                found = await self._stream.scan(self._shard.chain(key))
                last = found[-1].sequence if found else 0
                if last >= at_least:
                    return _chain(found, last)
                await asyncio.sleep(backoff(attempt))
        raise AssertionError("the bound ends it")

    async def owned_by(self, host: str) -> tuple[ProfileKey, ...]:
        owns = await self._owns(self._shard.owns)
        return tuple(key for key, own in owns if own.host == host and own.state == "active")

    async def profiles(self, tenant: str) -> tuple[tuple[ProfileKey, Own], ...]:
        return await self._owns(self._shard.owns_of(tenant))

    async def everyones(self) -> tuple[tuple[ProfileKey, Own], ...]:
        """The profiles of all tenants: for tools of whoever runs the hosts."""
        return await self._owns(self._shard.owns)

    async def _owns(self, subjects: str) -> tuple[tuple[ProfileKey, Own], ...]:
        """`own` is rolled up, so a scan finds one message each; one written meanwhile may be seen twice."""
        latest = {self._shard.profile_of(stored.subject): stored for stored in await self._stream.scan(subjects)}
        return tuple((key, own) for key, stored in sorted(latest.items()) if (own := _own_or_none(stored)) is not None)


def _chain(found: list[Stored], last: int) -> Chain:
    own: Own | None = None
    own_sequence = 0
    tail = ""
    entries: list[tuple[int, Entry]] = []
    for stored in found:
        try:
            if Shard.is_own(stored.subject):
                own, own_sequence = wire.decode(stored.data, Own), stored.sequence
            else:
                entries.append((stored.sequence, wire.decode(stored.data, Entry)))
                tail = digest(stored.data)
        except msgspec.ValidationError as error:
            raise UnknownRecord(f"message {stored.sequence} on {stored.subject}: {error}") from None
    return Chain(last=last, own=own, own_sequence=own_sequence, entries=tuple(entries), tail=tail)


def _own_or_none(stored: Stored) -> Own | None:
    """One profile of a newer lessor must not hide the others."""
    try:
        return wire.decode(stored.data, Own)
    except msgspec.ValidationError:
        log.warning("own of another version", subject=stored.subject, sequence=stored.sequence)
        return None


def _name(told: object) -> str:
    return f"{told.code} {told.text}"[:100] if isinstance(told, Refusal) else str(told)
