"""Run records: one subject each, changed only by compare-and-set (contract 16, 17)."""

import asyncio
import contextlib
import itertools
import secrets
from typing import Final

import msgspec

from lessor.broker.jetstream import EXPECTED, WRONG_LAST, Ack, Refusal, Stream, backoff
from lessor.broker.subjects import Shard
from lessor.errors import Code, Effect, Problem, problem
from lessor.messages import wire
from lessor.messages.ids import RunKey
from lessor.messages.run import RunReading, RunRecord
from lessor.ports import BrokerAway, Clock

WRITE_S_MAX: Final = 5.0
_NONCE: Final = "Lessor-Nonce"


class StreamRuns:
    """`ports.Runs` on the shard's stream. A write carries a nonce, by which an unclear answer is resolved."""

    def __init__(self, stream: Stream, shard: Shard, clock: Clock, write_s_max: float = WRITE_S_MAX) -> None:
        self._stream = stream
        self._shard = shard
        self._clock = clock
        self._write_s_max = write_s_max

    async def read(self, key: RunKey) -> RunReading | Problem:
        """From the stream's leader; `read_ms` is taken before the question, so it never flatters."""
        read_ms = self._clock.now_ms()
        try:
            found = await self._stream.last(self._shard.run(key))
        except BrokerAway:
            return problem(Code.BROKER_UNAVAILABLE, f"The record of run {key} cannot be read now: try again.")
        if found is None:
            return RunReading(run=key.run, revision=0, record=None, read_ms=read_ms)
        try:
            record = wire.decode(found.data, RunRecord)
        except msgspec.ValidationError:
            return problem(Code.UNSUPPORTED, f"The record of run {key} is of a newer lessor: upgrade this one.")
        return RunReading(run=key.run, revision=found.sequence, record=record, read_ms=read_ms)

    async def of_tenant(self, tenant: str) -> tuple[RunReading, ...]:
        """What the stream's replicas say; a record of a newer lessor is left out. Raises BrokerAway."""
        read_ms = self._clock.now_ms()
        latest = {stored.subject: stored for stored in await self._stream.scan(self._shard.runs_of(tenant))}
        found: list[RunReading] = []
        for stored in latest.values():
            with contextlib.suppress(msgspec.ValidationError):
                record = wire.decode(stored.data, RunRecord)
                run = stored.subject.rpartition(".")[2]
                found.append(RunReading(run=run, revision=stored.sequence, record=record, read_ms=read_ms))
        return tuple(sorted(found, key=lambda reading: -reading.revision))

    async def write(self, key: RunKey, record: RunRecord, revision: int) -> int | Problem | None:
        """Unclear answers are repeated for 5 s; then a Problem with effect `unknown`: it may still land."""
        nonce = secrets.token_hex(16)
        headers = {EXPECTED: str(revision), _NONCE: nonce}
        body = wire.encode(record)
        until = asyncio.get_running_loop().time() + self._write_s_max
        for attempt in itertools.count():
            told = await self._stream.publish(self._shard.run(key), body, headers)
            match told:
                case Ack(sequence):
                    return sequence
                case Refusal(code=code) if code == WRONG_LAST:
                    try:
                        return await self._mine(key, revision, nonce) if attempt else None
                    except BrokerAway:
                        break
                case _:
                    pass
            if asyncio.get_running_loop().time() >= until:
                break
            await asyncio.sleep(backoff(attempt))
        return problem(
            Code.BROKER_UNAVAILABLE,
            f"Whether run {key} was written is not known: read it, then decide again.",
            effect=Effect.UNKNOWN,
        )

    async def _mine(self, key: RunKey, revision: int, nonce: str) -> int | None:
        """The first write behind `revision` won: mine if it carries my nonce, even if others followed."""
        won = await self._stream.after(self._shard.run(key), revision)
        if won is not None and f"{_NONCE}: {nonce}\r\n".encode() in won.headers:
            return won.sequence
        return None
