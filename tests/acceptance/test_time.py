"""Acceptance of what time does to leases, scaled down: a minute of the contract is a tenth of a second here.

The same promises at their full length stand in tests/rules, on virtual time.
"""

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import msgspec
import pytest

import lessor
from lessor.actors.bridge import LoopIo
from lessor.actors.process import Stop
from lessor.actors.run import RunActor, See, Take, Want
from lessor.client import Client
from lessor.errors import Code, Problem
from lessor.limits import Limits
from lessor.messages.record import LeaseClosing, LeaseGranted, LeaseRenewed
from lessor.messages.reply import Acted, AnyReply, Granted, Observed, Refused, Renewed, Reply, RunTold
from lessor.messages.request import Request
from lessor.messages.run import RunStatus
from lessor.ports import Silence
from tests.support.stage import ORIGIN, URL, Stage, refused
from tests.support.wire import code

SCALE = 0.1 / 60
SCALED = Limits(
    horizon_s_max=900 * SCALE, life_s_max=3600 * SCALE, tick_s=0.1, renew_below_s=300 * SCALE, closing_s=0.3
)
GO = lessor.Click(ref="go")
LATE_MS = 400
"""How much later than due something may be seen on a loaded machine."""


@pytest.fixture
def scaled(stage: Stage) -> Stage:
    stage.limits = SCALED
    return stage


async def in_time(stage: Stage) -> None:
    """The lease was sealed and closed in the last 15 s (scaled) before its cap, and never renewed past it."""
    [closed] = await stage.closed(1)
    [granted] = await stage.written(LeaseGranted)
    entries = await stage.entries()
    [closing] = [entry for entry in entries if any(isinstance(record, LeaseClosing) for record in entry.records)]
    due_ms = granted.cap_ms - round(SCALED.closing_s * 1000)
    assert due_ms <= closing.at_ms <= due_ms + LATE_MS
    assert (closed.reason, closed.receipt) == ("cap", "sealed")
    assert all(renewed.expires_ms <= granted.cap_ms for renewed in await stage.written(LeaseRenewed))


async def test_l13_renewed_to_the_cap_then_sealed_and_closed_in_time(scaled: Stage) -> None:
    await scaled.hosted()
    wire = scaled.wire("r1")
    await wire.granted(horizon_s=1.5)
    while isinstance(told := await wire.touch(wire.renewing(7200)), Renewed):
        assert 0 < wire.seen.expires_in_s <= 1.5
        await asyncio.sleep(1.05)  # one that gains less than a second is not recorded
    assert code(told) in (Code.LEASE_CLOSING, Code.LEASE_CLOSED)
    await in_time(scaled)
    [granted] = await scaled.written(LeaseGranted)
    assert granted.cap_ms == granted.granted_ms + 6000


async def test_l15_renewals_end_at_the_runs_deadline(scaled: Stage) -> None:
    client = await scaled.hosted()
    run = client.run("r1", deadline_s=2.5)
    async with run:
        await run.acquire("shop", horizon_s=1.5)
        await run.park("May I?")
    [renewed] = await scaled.awaited(LeaseRenewed, 1)
    [granted] = await scaled.written(LeaseGranted)
    assert renewed.expires_ms == granted.cap_ms < granted.granted_ms + 2600
    await in_time(scaled)
    assert len(await scaled.written(LeaseRenewed)) == 1


async def test_l16_a_parked_run_keeps_its_page_to_the_cap_without_a_worker(scaled: Stage) -> None:
    client = await scaled.hosted()
    async with client.run("r1") as run:
        await run.acquire("shop", horizon_s=1.5)
        await run.park("May I?")
    await in_time(scaled)
    assert 4 <= len(await scaled.written(LeaseRenewed)) <= 6


async def test_l43_a_dead_workers_lease_lapses_and_the_next_run_is_granted(scaled: Stage) -> None:
    client = await scaled.hosted()
    dead = scaled.wire("r1")
    await dead.granted(horizon_s=0.6)
    run = await scaled.take(client, "r2")
    lease = await run.acquire("shop", horizon_s=1.5, wait_s=5)
    assert (lease.reattached, lease.generation) == (False, 0)
    first = (await scaled.closed(1))[0]
    assert (first.reason, first.receipt) == ("expired", "discarded")


async def test_l35_a_parked_run_whose_renewals_were_missed_is_replaced_unsealed(stage: Stage) -> None:
    client = await stage.hosted()  # ticks of a minute: nobody renews in time
    r1 = stage.wire("r1")
    await r1.granted(horizon_s=0.5)
    await stage.write_run("r1", status=RunStatus.PARKED)
    lease = await (await stage.take(client, "r2")).acquire("shop", wait_s=5)
    assert (lease.reattached, lease.generation) == (False, 0)
    assert (await stage.closed(1))[0].receipt == "discarded"


async def test_l14_an_earlier_horizon_does_not_shorten(stage: Stage) -> None:
    await stage.hosted()
    wire = stage.wire("r1")
    await wire.granted(horizon_s=600)
    assert isinstance(await wire.touch(wire.renewing(60)), Renewed)
    assert wire.seen.expires_in_s > 590


async def test_l22_a_lost_renew_answer_costs_nothing(stage: Stage) -> None:
    await stage.hosted()
    wire = stage.wire("r1")
    await wire.granted(horizon_s=100)
    await stage.connection.publish(f"{wire.seen.route}.renew", msgspec.json.encode(wire.renewing(300)))
    await stage.awaited(LeaseRenewed, 1)
    assert isinstance(await wire.touch(wire.acting()), Acted)
    assert isinstance(await wire.touch(wire.renewing(900)), Renewed)
    assert 890 < wire.seen.expires_in_s <= 900


async def test_l28_a_call_that_would_outlive_the_expiry_renews_first(stage: Stage) -> None:
    await stage.hosted()
    wire = stage.wire("r1")
    await wire.granted(horizon_s=5)
    assert isinstance(await wire.touch(wire.acting(timeout_s=10)), Acted)
    kinds = [type(record).__name__ for entry in await stage.entries() for record in entry.records]
    assert kinds.index("LeaseRenewed") < kinds.index("Intent")


async def test_l28_at_the_cap_it_is_refused_before_dispatch(scaled: Stage) -> None:
    await scaled.hosted()
    wire = scaled.wire("r1")
    await wire.granted(horizon_s=1.5)
    assert code(await wire.touch(wire.acting(timeout_s=5.9))) is Code.LEASE_CLOSING
    assert scaled.model.hits == []


async def test_l08_a_revoked_profile_and_a_strangers_start_no_browser(stage: Stage) -> None:
    client = await stage.hosted()
    stranger = stage.wire("r2", principal="other")
    assert code(await stranger.acquire()) is Code.NOT_FOUND
    await client.revoke_profile("shop")
    with refused(Code.PROFILE_REVOKED):
        await (await stage.take(client, "r1")).acquire("shop")
    assert stage.model.started == 0


async def test_l10_a_revoke_during_the_start_wins_and_gives_the_capacity_back(stage: Stage) -> None:
    stage.limits = msgspec.structs.replace(stage.limits, browsers_max=1)
    client = await stage.hosted()
    await client.create_profile("other", origins=[ORIGIN])
    gate = stage.model.hold("start")
    acquiring = asyncio.create_task((await stage.take(client, "r1")).acquire("shop"))
    await gate.reached.wait()
    await client.revoke_profile("shop")
    with refused(Code.PROFILE_REVOKED):
        await acquiring
    gate.open()
    await (await stage.take(client, "r2")).acquire("other")
    assert len(stage.model.live) == 1


async def test_l12_a_slow_start_delays_no_other_profile(stage: Stage) -> None:
    client = await stage.hosted()
    await client.create_profile("other", origins=[ORIGIN])
    gate = stage.model.hold("start")
    acquiring = asyncio.create_task((await stage.take(client, "r1")).acquire("shop"))
    await gate.reached.wait()
    async with asyncio.timeout(2):
        lease = await (await stage.take(client, "r2")).acquire("other")
        await lease.observe()
    assert not acquiring.done()
    gate.open()
    assert (await acquiring).next_sequence == 1


async def test_l39_first_come_first_served_among_those_who_still_poll(stage: Stage) -> None:
    stage.limits = msgspec.structs.replace(stage.limits, place_s=0.5)
    client = await stage.hosted()
    lease = await (await stage.take(client, "r0")).acquire("shop")
    wires = [stage.wire(f"r{number}") for number in (1, 2, 3)]
    for place, wire in enumerate(wires, 1):
        await wire.take()
        told = await wire.acquire()
        assert isinstance(told, Refused)
        assert (told.error.code, told.error.position) == (Code.PROFILE_BUSY, place)
    await asyncio.sleep(0.3)
    for wire in wires[1:]:
        assert code(await wire.acquire()) is Code.PROFILE_BUSY
    await asyncio.sleep(0.3)  # the first one's place has lapsed, those of the others have not
    await lease.close()
    await stage.closed(1)
    assert code(await wires[2].acquire()) in (Code.PROFILE_BUSY, Code.CLOSING)
    assert isinstance(await wires[1].acquire(), Granted)
    assert code(await wires[0].acquire()) is Code.PROFILE_BUSY


async def test_l24_a_restarted_host_goes_on_with_page_lease_and_sequence(stage: Stage) -> None:
    client = await stage.hosted()
    run = await stage.take(client, "r1")
    lease = await run.acquire("shop")
    await lease.navigate(URL)
    await lease.observe()
    await lease.act(GO)
    await stage.leave()
    await stage.open_host()
    page = await lease.observe()
    assert (page.url, page.revision, lease.next_sequence, stage.model.started) == (URL, "r1", 2, 1)
    await stage.leave()
    stage.model.end(stage.model.live[0])
    await stage.open_host()
    with refused(Code.LEASE_LOST):
        await lease.observe()
    fresh = await run.acquire("shop")
    assert (fresh.id != lease.id, stage.model.started) == (True, 2)


class Lossy:
    """A line that delivers, and loses the next answers to observations."""

    def __init__(self, client: Client, lost: int) -> None:
        self._inner, self.lost = client.talk.line, lost

    async def ask(self, subject: str, request: Request[Reply], timeout_s: float) -> AnyReply | Problem | Silence:
        heard = await self._inner.ask(subject, request, timeout_s)
        if isinstance(heard, Observed) and self.lost:
            self.lost -= 1
            return Silence.TIMEOUT
        return heard


@pytest.mark.parametrize("lost", [1, 2])
async def test_l25_an_observation_whose_answer_is_lost(stage: Stage, lost: int) -> None:
    client = await stage.hosted()
    talk = replace(client.talk, line=Lossy(client, lost))
    io = LoopIo(asyncio.get_running_loop())
    ref = RunActor.start(io, talk, "r1", 1, "a", _ignore, _ignore)
    deadline = datetime.now(UTC) + timedelta(hours=1)
    assert isinstance(await client.tell(ref, lambda answer: Take(deadline, answer), 10), RunTold)

    async def acquire() -> Granted:
        told = await client.tell(ref, lambda answer: Want("shop", 600, 10, answer), 20)
        assert isinstance(told, Granted)
        return told

    first = await acquire()
    if lost == 1:
        assert isinstance(await client.tell(ref, lambda answer: See("shop", "main", 5, answer), 10), Observed)
        assert (await acquire()).reattached
    else:
        with refused(Code.BROKER_UNAVAILABLE):
            await client.tell(ref, lambda answer: See("shop", "main", 5, answer), 10)
        await stage.closed(1)
        again = await acquire()
        assert not again.reattached
        assert again.lease != first.lease
    ref.tell(Stop())
    await asyncio.to_thread(ref.actor_stopped.wait, 5)
    await io.close()


def _ignore(*_: object) -> None:
    """No supervisor listens."""
