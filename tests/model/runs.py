"""`ports.Runs` in memory."""

from lessor.errors import Code, Effect, Problem, problem
from lessor.messages.ids import RunKey
from lessor.messages.run import RunReading, RunRecord
from lessor.ports import BrokerAway
from tests.model.world import Acknowledged, Publish, World, WrongLast

ATTEMPTS_MAX = 20


class MemoryRuns:
    """Compare-and-set on one subject per run."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._written = 0

    async def read(self, key: RunKey) -> RunReading | Problem:
        read_ms = self._world.clock.now_ms()
        try:
            found = await self._world.last(_subject(key))
        except BrokerAway:
            return problem(Code.BROKER_UNAVAILABLE, f"The record of run {key} cannot be read now: try again.")
        if found is None:
            return RunReading(run=key.run, revision=0, record=None, read_ms=read_ms)
        assert isinstance(found.value, RunRecord)
        return RunReading(run=key.run, revision=found.sequence, record=found.value, read_ms=read_ms)

    async def of_tenant(self, tenant: str) -> tuple[RunReading, ...]:
        read_ms = self._world.clock.now_ms()
        latest = {kept.subject: kept for kept in await self._world.read(f"run/{tenant}/")}
        found = [
            RunReading(run=kept.subject.split("/")[2], revision=kept.sequence, record=kept.value, read_ms=read_ms)
            for kept in latest.values()
            if isinstance(kept.value, RunRecord)
        ]
        return tuple(sorted(found, key=lambda reading: -reading.revision))

    async def write(self, key: RunKey, record: RunRecord, revision: int) -> int | Problem | None:
        self._written += 1
        write = Publish(_subject(key), _subject(key), revision, record, f"{id(self)}-{self._written}")
        for attempt in range(ATTEMPTS_MAX):
            told = await self._world.publish(write)
            if isinstance(told, Acknowledged):
                return told.sequence
            if isinstance(told, WrongLast):
                return await self._mine(write) if attempt else None
            await self._world.pause()
        return problem(
            Code.BROKER_UNAVAILABLE,
            f"Whether run {key} was written is not known: read it.",
            effect=Effect.UNKNOWN,
        )

    async def _mine(self, write: Publish) -> int | None:
        for kept in await self._world.read(write.subject):
            if kept.sequence > write.expected:
                return kept.sequence if kept.nonce == write.nonce else None
        return None


def _subject(key: RunKey) -> str:
    return f"run/{key.tenant}/{key.run}/"
