"""Acceptance of what interrupts a step: lost pages, expiries, cancels, slow networks; and what an act may cost."""

import asyncio

import pytest

import lessor
from lessor.client import Lease
from lessor.errors import Code
from lessor.findings import Away
from lessor.ids import fresh_id
from lessor.messages.record import Dispatched, Entry, Intent, Outcome, Reconciled
from lessor.messages.reply import Acted, ActOutcome, StepState
from lessor.messages.request import Cancel
from lessor.messages.step import StepRecord
from lessor.reconcilers import Asking, Found
from tests.support.stage import ORIGIN, URL, Stage, refused
from tests.support.wire import GO


async def leased(stage: Stage, *, horizon_s: float = 600.0, settle_s: float = 0.0) -> Lease:
    client = await stage.hosted()
    if settle_s:
        await client.create_profile("shop", origins=[ORIGIN], settle_s=settle_s)
    run = await stage.take(client, "r1")
    lease = await run.acquire("shop", horizon_s=horizon_s)
    await lease.observe(timeout_s=horizon_s / 2)  # A call that would outlive the lease renews it.
    return lease


async def test_s05_a_browser_that_dies_during_a_navigate_costs_the_step_nothing(stage: Stage) -> None:
    lease = await leased(stage)
    step = lease.run.step("pay", payload={"amount": 1})
    async with step:
        await step.checkpoint("page_loaded")
        gate = stage.model.hold("navigate")
        going = asyncio.create_task(lease.navigate(URL))
        await gate.reached.wait()
        stage.model.crash(stage.model.live[0])
        gate.open()
        with refused(Code.BROWSER_GONE, Code.LEASE_LOST, Code.LEASE_CLOSED):
            await going
    again = await lease.run.acquire("shop")
    await again.observe()
    async with again.run.step("pay", payload={"amount": 1}) as step:
        assert ([one.name for one in step.record.checkpoints], step.record.state) == (["page_loaded"], None)
        await step.commit(GO)
    assert len(stage.model.hits) == 1


async def test_s06_a_click_after_the_expiry_never_arrives(stage: Stage) -> None:
    """The browser lived until its owner ended it; the worker that had the lease is refused."""
    lease = await leased(stage, horizon_s=1.0)
    async with lease.run.step("pay") as step:
        assert [one.reason for one in await stage.closed(1)] == ["expired"]
        with refused(Code.LEASE_EXPIRED, Code.LEASE_CLOSED):
            await step.commit(GO)
    assert (stage.model.hits, await stage.written(Intent), await step.state()) == ([], [], None)


async def test_s12_a_cancelled_act_settles_and_is_not_sent_again(stage: Stage) -> None:
    await stage.hosted()
    wire = stage.wire("r1")
    await wire.granted()
    act = wire.acting()
    gate = stage.model.hold("dispatched")
    acting = asyncio.create_task(wire.touch(act))
    await gate.reached.wait()
    cancel = Cancel(id=fresh_id(), lease=act.lease, claim=act.claim, request=act.id)
    cancelling = asyncio.create_task(wire.send("cancel", cancel))
    await asyncio.sleep(0)
    await cancelling
    gate.open()
    assert isinstance(await acting, Acted)
    assert [one.outcome for one in await stage.written(Outcome)] == [ActOutcome.APPLIED]
    assert [one.reason for one in await stage.closed(1)] == ["retired"]
    assert len(stage.model.hits) == 1


async def test_s24_a_slow_post_is_never_taken_for_not_sent(stage: Stage) -> None:
    """The page is gone, the site answers 404, and half a second later it has the order: one, and only one."""
    lease = await leased(stage, settle_s=1.5)
    site: list[str] = []

    async def look(step: StepRecord) -> Found:
        return Found("succeeded", "there") if step.request_key in site else Found("not_sent", "GET answered 404")

    lease.client.reconcilers["order"] = Asking(look)
    async with lease.run.step("pay", kind="order", evidence=["look-up"]) as step:
        gate = stage.model.hold("dispatched")
        committing = asyncio.create_task(step.commit(GO))
        await gate.reached.wait()
        stage.model.crash(stage.model.live[0])
        with pytest.raises(lessor.OutcomeUnknown):
            await committing
        asyncio.get_running_loop().call_later(0.7, site.append, step.request_key)
    await lease.run.acquire("shop")
    assert await step.state() is StepState.SUCCEEDED
    verdicts = [(one.verdict, one.counted) for one in await stage.written(Reconciled)]
    assert verdicts[-1] == ("succeeded", True)
    assert set(verdicts[:-1]) == {("not_sent", False)}
    assert len(stage.model.hits) == 1


async def during(stage: Stage, lease: Lease) -> list[Entry]:
    """What one act writes."""
    before = len(await stage.entries())
    await lease.act(GO)
    return (await stage.entries())[before:]


async def test_an_act_awaits_exactly_two_durable_writes(stage: Stage) -> None:
    lease = await leased(stage)
    written = await during(stage, lease)
    assert [[type(record) for record in entry.records] for entry in written] == [[Intent], [Outcome]]


async def test_an_act_awaits_three_when_the_page_is_silent_for_250_ms(stage: Stage) -> None:
    lease = await leased(stage)
    gate = stage.model.hold("dispatched")
    acting = asyncio.create_task(during(stage, lease))
    await gate.reached.wait()
    await stage.awaited(Dispatched, 1)
    gate.open()
    written = await acting
    assert [[type(record) for record in entry.records] for entry in written] == [[Intent], [Dispatched], [Outcome]]


async def test_a_refused_act_writes_nothing(stage: Stage) -> None:
    lease = await leased(stage)
    before = len(await stage.entries())
    stage.model.aims.append(Away.SILENT)
    with refused(Code.OP_TIMEOUT):
        await lease.act(GO)
    assert len(await stage.entries()) == before
