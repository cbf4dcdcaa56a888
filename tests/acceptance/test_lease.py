"""Acceptance of leases, over the real broker: who gets a profile, keeps it, renews it, and how it ends."""

import asyncio

import msgspec

import lessor
from lessor.actors.clock import BootClock
from lessor.errors import Code, problem
from lessor.ids import fresh_id
from lessor.messages.record import LeaseGranted, Outcome, SealCommitted
from lessor.messages.reply import ActOutcome, Granted, Refused, Renewed
from lessor.messages.request import Close
from lessor.messages.run import RunStatus
from tests.support.processes import worker_process
from tests.support.stage import URL, Stage, refused
from tests.support.wire import code

GO = lessor.Click(ref="go")


async def test_l01_a_free_profile_is_granted(stage: Stage) -> None:
    client = await stage.hosted()
    async with client.run("r1") as run:
        lease = await run.acquire("shop", horizon_s=600)
        assert 590 < lease.expires_in_s <= 600
        assert (lease.next_sequence, lease.reattached, lease.generation) == (1, False, 0)
        assert len(stage.model.live) == 1
        granted = (await stage.written(LeaseGranted))[0]
        assert granted.lease == lease.id
        assert granted.expires_ms == granted.granted_ms + 600_000


async def test_l02_a_horizon_is_cut_to_15_min_and_one_in_the_past_refused(stage: Stage) -> None:
    client = await stage.hosted()
    async with client.run("r1") as run:
        with refused(Code.INVALID_REQUEST):
            await run.acquire("shop", horizon_s=0)
        assert stage.model.started == 0
        lease = await run.acquire("shop", horizon_s=7200)
        assert 890 < lease.expires_in_s <= 900


async def test_l03_asking_again_gives_the_same_lease(stage: Stage) -> None:
    client = await stage.hosted()
    async with client.run("r1") as run:
        first, second = await run.acquire("shop"), await run.acquire("shop")
        assert (second.id, second.reattached) == (first.id, True)
        assert stage.model.started == 1


async def test_l04_a_lost_acquire_answer_reattaches(stage: Stage) -> None:
    client = await stage.hosted()
    async with client.run("r1") as run:
        wire = stage.wire("r1")
        lost = await wire.acquire(horizon_s=300)  # the run actor never hears of it
        assert isinstance(lost, Granted)
        lease = await run.acquire("shop", horizon_s=900)
        assert lease.id == wire.seen.lease
        assert lease.expires_in_s <= 300
        assert stage.model.started == 1
        assert (await lease.navigate(URL)).url == URL
        assert (await lease.close()).kind == "sealed"


async def test_l05_only_the_same_scope_reattaches(stage: Stage) -> None:
    stage.limits = msgspec.structs.replace(stage.limits, place_s=0.1)
    client = await stage.hosted()
    r1 = stage.wire("r1")
    r1.attempt = 2
    held = await r1.granted()
    for stranger in (stage.wire("r1", principal="other"), stage.wire("r1", tenant="nobody")):
        assert code(await stranger.acquire()) is Code.NOT_FOUND
    firefox = msgspec.structs.replace(r1.acquiring(), provider="firefox")
    assert code(await r1.send("acquire", firefox)) is Code.UNSUPPORTED
    r2, lower = stage.wire("r2"), stage.wire("r1")
    await r2.take()
    assert code(await r2.acquire()) is Code.PROFILE_BUSY
    assert code(await lower.acquire()) in (Code.PROFILE_BUSY, Code.RUN_FENCED)
    assert (stage.model.started, len(stage.model.live)) == (1, 1)

    higher = await stage.take(client, "r1", attempt=3)
    lease = await higher.acquire("shop")
    assert held.lease is not None
    assert (lease.id != held.lease.lease, lease.reattached, lease.generation) == (True, False, 1)
    closed = await stage.closed(1)
    assert [(one.lease, one.receipt) for one in closed] == [(held.lease.lease, "sealed")]


async def test_l06_another_worker_of_the_run_continues_the_sequence(stage: Stage) -> None:
    a, b = await stage.hosted(), await stage.worker("b")
    first = await (await stage.take(a, "r1")).acquire("shop")
    page = await first.observe()
    await first.act(GO)
    second = await (await stage.take(b, "r1")).acquire("shop")
    assert (second.id, second.reattached, second.next_sequence) == (first.id, True, 2)
    acted = await second.act(GO, revision=page.revision)
    assert acted.sequence == 2
    assert [keeper.clicks for keeper in stage.model.live] == [2]


async def test_l07_a_renewed_lease_reattaches_with_its_renewed_expiry(stage: Stage) -> None:
    await stage.hosted()
    wire = stage.wire("r1")
    await wire.granted(horizon_s=300)
    renewed = await wire.touch(wire.renewing(840))
    assert isinstance(renewed, Renewed)
    again = await wire.acquire(horizon_s=60)
    assert isinstance(again, Granted)
    assert 830 < wire.seen.expires_in_s <= 840


async def test_l09_a_failed_start_leaves_nothing(stage: Stage) -> None:
    client = await stage.hosted()
    run = await stage.take(client, "r1")
    stage.model.start_fails = problem(Code.ENDPOINT_UNREACHABLE, "The browser did not start.")
    with refused(Code.ENDPOINT_UNREACHABLE):
        await run.acquire("shop")
    assert (stage.model.live, await stage.written(LeaseGranted)) == ([], [])
    assert (await client.status("shop")).holder is None
    stage.model.start_fails = None
    assert (await run.acquire("shop")).next_sequence == 1


async def test_l18_an_expired_lease_is_refused_and_not_sealed(stage: Stage) -> None:
    client = await stage.hosted()
    lease = await (await stage.take(client, "r1")).acquire("shop", horizon_s=0.5)
    await stage.model.none_lives()
    with refused(Code.LEASE_EXPIRED):
        await lease.observe()
    assert await stage.written(SealCommitted) == []


async def test_l19_an_operation_across_the_expiry_is_awaited_to_its_end(stage: Stage) -> None:
    client = await stage.hosted()
    lease = await (await stage.take(client, "r1")).acquire("shop", horizon_s=0.8)
    await lease.observe(timeout_s=0.1)
    gate = stage.model.hold("dispatched")
    acting = asyncio.create_task(lease.act(GO, timeout_s=0.5))
    await gate.reached.wait()
    expires_ms = (await stage.written(LeaseGranted))[0].expires_ms
    await BootClock().wait((expires_ms - BootClock().now_ms()) / 1000 + 0.05)
    assert len(stage.model.live) == 1, "the page stays until the operation is over"
    gate.open()
    assert (await acting).sequence == 1
    await stage.model.none_lives()
    with refused(Code.LEASE_EXPIRED, Code.LEASE_CLOSED):
        await lease.observe()
    assert [one.outcome for one in await stage.written(Outcome)] == [ActOutcome.APPLIED]
    assert await stage.written(SealCommitted) == []


async def test_l20_a_close_after_the_expiry_does_not_seal(stage: Stage) -> None:
    client = await stage.hosted()
    run = await stage.take(client, "r1")
    lease = await run.acquire("shop", horizon_s=0.5)
    gate = stage.model.hold("kill")
    await gate.reached.wait()
    closing = asyncio.create_task(lease.close())
    await client.status("shop")
    gate.open()
    assert (await closing).kind == "discarded"
    assert await stage.written(SealCommitted) == []
    assert (await run.acquire("shop")).generation == 0


async def test_l21_without_traffic_the_expiry_closes_the_browser(stage: Stage) -> None:
    client = await stage.hosted()
    await (await stage.take(client, "r1")).acquire("shop", horizon_s=0.5)
    await stage.model.none_lives()
    status = await client.status("shop")
    assert status.generation == 0
    assert await stage.written(SealCommitted) == []


async def test_l26_a_close_that_did_not_arrive_is_settled_before_the_next_acquire(stage: Stage) -> None:
    client = await stage.hosted()
    run = await stage.take(client, "r1")
    first = await run.acquire("shop")
    await stage.leave()
    with refused(Code.BROKER_UNAVAILABLE):
        await first.close(timeout_s=0.5)
    await stage.open_host()
    second = await run.acquire("shop")
    assert (second.id != first.id, second.reattached, second.generation) == (True, False, 1)
    closed = await stage.closed(1)
    assert [(one.lease, one.receipt) for one in closed] == [(first.id, "sealed")]


async def test_l27_calls_with_later_deadlines_share_one_lease(stage: Stage) -> None:
    client = await stage.hosted()
    run = await stage.take(client, "r1")
    one = await run.acquire("shop", horizon_s=60)
    await one.navigate(URL, timeout_s=5)
    two = await run.acquire("shop", horizon_s=300)
    assert (two.id, (await two.observe(timeout_s=9)).url) == (one.id, URL)
    assert stage.model.started == 1


async def test_l34_a_newcomer_is_told_who_holds_the_profile(stage: Stage) -> None:
    client = await stage.hosted()
    lease = await (await stage.take(client, "r1")).acquire("shop")
    await lease.navigate(URL)
    newcomer = await stage.take(await stage.worker("b"), "r2")
    with refused(Code.PROFILE_BUSY) as told:
        await newcomer.acquire("shop", wait_s=0)
    assert (told[0].holder_run, told[0].position) == ("r1", 1)
    assert told[0].since is not None
    assert told[0].expires_at is not None
    assert (await lease.observe()).url == URL
    assert stage.model.started == 1


async def test_l36_a_release_ends_its_own_lease_once(stage: Stage) -> None:
    client = await stage.hosted()
    lease = await (await stage.take(client, "r1")).acquire("shop")
    r2 = stage.wire("r2")
    await r2.take()
    close = Close(id=fresh_id(), lease="not-a-lease", claim=1, deadline_ms=r2.deadline_ms())
    assert code(await r2.send("close", close)) is Code.LEASE_CLOSED
    foreign = msgspec.structs.replace(close, lease=lease.id, claim=7)
    assert code(await r2.send("close", foreign)) is Code.INVALID_REQUEST
    assert len(stage.model.live) == 1
    receipt = await lease.close()
    assert receipt == await lease.close()
    assert (receipt.kind, receipt.generation) == ("sealed", 1)
    assert len(await stage.closed(1)) == 1


async def test_l37_a_worker_that_dies_is_succeeded_on_the_same_page(stage: Stage) -> None:
    b = await stage.hosted("b")
    async with worker_process(stage, run="r1", acts=1) as died:
        told = await died.said("acted")
        died.kill()
    lease = await (await stage.take(b, "r1")).acquire("shop")
    assert (lease.id, lease.next_sequence) == (told["lease"], 2)
    await lease.observe()
    assert (await lease.act(GO)).sequence == 2
    assert (stage.model.started, [keeper.clicks for keeper in stage.model.live]) == (1, [2])


async def test_l38_a_worker_that_wakes_up_late_is_fenced_everywhere(stage: Stage) -> None:
    b = await stage.hosted("b")
    asleep = stage.wire("r1")
    await asleep.granted()
    lease = await (await stage.take(b, "r1")).acquire("shop")
    await lease.navigate(URL)
    fenced = (Code.LEASE_FENCED, Code.RUN_FENCED)
    late = [
        await asleep.touch(asleep.navigating("http://127.0.0.1:1/other")),
        await asleep.touch(asleep.acting()),
        await asleep.touch(asleep.observing()),
        await asleep.touch(asleep.renewing()),
        await asleep.send("close", asleep.closing()),
        await asleep.acquire(),
        await asleep.report(RunStatus.FAILED),
    ]
    for reply in late:
        assert isinstance(reply, Refused), reply
        assert reply.error.code in fenced
        assert (reply.lease, reply.error.next_sequence, reply.error.holder_run) == (None, None, None)
    assert (await lease.observe()).url == URL
    await lease.act(GO)
    assert (await b.show_run("r1")).record.status is RunStatus.RUNNING
    assert len(stage.model.hits) == 1


async def test_l40_an_acquire_during_the_seal_gets_the_new_generation(stage: Stage) -> None:
    client = await stage.hosted()
    first = await (await stage.take(client, "r1")).acquire("shop")
    await first.observe()
    await first.act(lessor.Type(ref="box", text="kept"))
    gate = stage.model.hold("seal")
    closing = asyncio.create_task(first.close())
    await gate.reached.wait()
    second = await stage.take(await stage.worker("b"), "r2")
    waiting = asyncio.create_task(second.acquire("shop"))
    while not (await client.status("shop")).queue:  # noqa: ASYNC110  # nobody is told who waits
        await asyncio.sleep(0.01)
    assert not waiting.done()
    gate.open()
    assert (await closing).generation == 1
    lease = await waiting
    assert (lease.generation, (await lease.observe()).text) == (1, "kept")


async def test_l45_a_replaced_workers_acquire_is_refused_however_late(stage: Stage) -> None:
    client = await stage.hosted()
    replaced = stage.wire("r1")
    await replaced.take()
    lease = await (await stage.take(client, "r1")).acquire("shop")
    assert code(await replaced.acquire()) is Code.RUN_FENCED
    assert (await lease.observe()).revision == "r0"
    await lease.close()
    assert code(await replaced.acquire()) is Code.RUN_FENCED
    await stage.model.none_lives()
    assert stage.model.started == 1
