"""What every `ports.Runs` promises (contract 16, 17)."""

import asyncio

import msgspec
import pytest

from lessor.errors import Code, Effect, Problem
from lessor.messages.ids import RunKey
from lessor.messages.run import RunReading, RunRecord, RunStatus
from tests.contract.conftest import Bench
from tests.support.broker import fresh

RECORD = RunRecord(principal="ann", status=RunStatus.RUNNING, attempt=1, deadline_unix_ms=2_000_000_000_000, claim=1)


@pytest.fixture
def key() -> RunKey:
    return RunKey("acme", fresh("r"))


def claimed(claim: int) -> RunRecord:
    return msgspec.structs.replace(RECORD, claim=claim)


async def test_a_run_nobody_wrote_has_revision_zero(bench: Bench, key: RunKey) -> None:
    before = bench.clock.now_ms()
    reading = await bench.runs.read(key)

    assert isinstance(reading, RunReading)
    assert (key.run, 0, None) == (reading.run, reading.revision, reading.record)
    assert before <= reading.read_ms <= bench.clock.now_ms()


async def test_a_record_is_read_at_the_revision_it_was_written(bench: Bench, key: RunKey) -> None:
    revision = await bench.runs.write(key, RECORD, 0)
    reading = await bench.runs.read(key)

    assert isinstance(reading, RunReading)
    assert (revision, RECORD) == (reading.revision, reading.record)


async def test_who_expects_an_old_revision_writes_nothing(bench: Bench, key: RunKey) -> None:
    first = await bench.runs.write(key, RECORD, 0)
    assert isinstance(first, int)
    assert await bench.runs.write(key, claimed(2), 0) is None
    second = await bench.runs.write(key, claimed(2), first)
    assert await bench.runs.write(key, claimed(3), first) is None

    reading = await bench.runs.read(key)
    assert isinstance(reading, RunReading)
    assert (second, 2) == (reading.revision, reading.record and reading.record.claim)


async def test_a_lost_acknowledgement_is_no_loss(bench: Bench, key: RunKey) -> None:
    bench.faults.lose_acknowledgements()
    revision = await bench.runs.write(key, RECORD, 0)

    reading = await bench.runs.read(key)
    assert isinstance(reading, RunReading)
    assert reading.revision == revision


async def test_an_equal_record_of_somebody_else_is_not_mine(bench: Bench, key: RunKey) -> None:
    bench.faults.delay()
    pending = asyncio.ensure_future(bench.runs.write(key, RECORD, 0))
    await asyncio.sleep(0)
    other = await bench.runs.write(key, RECORD, 0)

    assert {None, int} == {answer if answer is None else type(answer) for answer in (await pending, other)}


async def test_of_concurrent_writers_one_wins(bench: Bench, key: RunKey) -> None:
    told = await asyncio.gather(*(bench.runs.write(key, claimed(n), 0) for n in range(1, 9)))
    assert [int] == [type(answer) for answer in told if answer is not None]


async def test_a_run_that_cannot_be_read_is_a_problem(bench: Bench, key: RunKey) -> None:
    bench.faults.away = True
    told = await bench.runs.read(key)
    assert isinstance(told, Problem)
    assert (told.code, told.retryable) == (Code.BROKER_UNAVAILABLE, True)


async def test_a_write_that_was_never_answered_is_unknown(bench: Bench, key: RunKey) -> None:
    bench.faults.refuse(1000)
    told = await bench.runs.write(key, RECORD, 0)
    assert isinstance(told, Problem)
    assert (told.code, told.effect) == (Code.BROKER_UNAVAILABLE, Effect.UNKNOWN)
