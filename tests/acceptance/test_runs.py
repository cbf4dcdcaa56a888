"""Acceptance of runs: approvals, grants, parents and children, ends that come from elsewhere (contract 16-20)."""

import asyncio

import msgspec

import lessor
from lessor.client import Client, Lease
from lessor.errors import Code
from lessor.messages.record import LeaseClosed, LeaseClosing, LeaseRenewed
from lessor.messages.run import ApprovalState, RunStatus
from tests.support.stage import ORIGIN, URL, Stage, refused

GO = lessor.Click(ref="go")


async def asking(stage: Stage, *approve: str) -> tuple[Client, Lease]:
    """A lease whose profile wants a yes for these kinds."""
    client = await stage.hosted()
    await client.create_profile("shop", origins=[ORIGIN], settle_s=0, approve=approve)
    lease = await (await stage.take(client, "r1")).acquire("shop")
    await lease.navigate(URL)
    await lease.observe()
    return client, lease


async def parked(client: Client, run: str = "r1") -> str:
    """Wait until the run is parked; the approval that it waits for."""
    async with asyncio.timeout(10):
        while (told := await client.show_run(run)).record.status is not RunStatus.PARKED:  # noqa: ASYNC110  # nobody is told
            await asyncio.sleep(0.01)
    return told.record.approvals[-1].id


async def test_l31_an_approved_act_goes_on_with_the_same_page_and_reference(stage: Stage) -> None:
    client, lease = await asking(stage, "click")
    acting = asyncio.create_task(lease.act(GO, approval_s=20))
    owner = await stage.worker("owner")
    approval = await parked(owner)
    assert (stage.model.hits, await stage.written(LeaseClosing)) == ([], [])
    told = await owner.approve("r1", approval, by="ann")
    assert told.record.status is RunStatus.QUEUED
    acted = await acting
    assert (acted.sequence, acted.recorded, len(stage.model.hits), stage.model.started) == (1, False, 1, 1)
    assert (await client.show_run("r1")).record.status is RunStatus.RUNNING
    [asked] = await client.approvals("r1")
    assert (asked.state, asked.answered_by) == (ApprovalState.APPROVED, "ann")
    assert asked.question == f"click button Go at {ORIGIN}"


async def test_a_rejected_act_is_never_sent(stage: Stage) -> None:
    client, lease = await asking(stage, "click")
    acting = asyncio.create_task(lease.act(GO, approval_s=20))
    await client.reject("r1", await parked(client))
    with refused(Code.APPROVAL_REJECTED):
        await acting
    assert stage.model.hits == []
    assert (await lease.observe()).revision == "r0"


async def test_an_approval_survives_the_worker_that_asked(stage: Stage) -> None:
    client, lease = await asking(stage, "click")
    with refused(Code.APPROVAL_REQUIRED):
        await lease.act(GO)
    await client.approve("r1")
    other = await stage.worker("b")
    again = await (await stage.take(other, "r1")).acquire("shop")
    assert (again.id, again.reattached) == (lease.id, True)
    await again.act(GO, revision="r0")
    assert len(stage.model.hits) == 1


async def test_an_act_granted_in_advance_needs_no_answer_until_it_is_withdrawn(stage: Stage) -> None:
    client, lease = await asking(stage, "click")
    given = await client.grant("r1", origins=[ORIGIN], kinds=["click"], expires_s=60)
    await lease.act(GO, constraint=given)
    await client.withdraw("r1", given)
    with refused(Code.GRANT_NOT_APPLICABLE):
        await lease.act(GO, constraint=given)
    assert len(stage.model.hits) == 1


async def test_l32_a_child_works_on_the_parents_profile_while_the_parent_waits(stage: Stage) -> None:
    client, other = await stage.hosted(), await stage.worker("b")
    parent = await stage.take(client, "parent")
    lease = await parent.acquire("shop")
    await lease.observe()
    await lease.act(lessor.Type(ref="box", text="of the parent"))
    waiting = asyncio.create_task(parent.wait_for_child("child", timeout_s=20, poll_s=0.05))
    async with other.run("child", parent="parent") as child:
        childs = await child.acquire("shop")
        assert (childs.generation, (await childs.observe()).text) == (1, "of the parent")
        await childs.act(lessor.Type(ref="box", text="of the child"))
        assert not waiting.done()
    told = await waiting
    assert (told.record.status, told.record.parent) == (RunStatus.FINISHED, "parent")
    again = await parent.acquire("shop")
    assert (again.generation, (await again.observe()).text) == (2, "of the child")
    assert [closed.receipt for closed in await stage.written(LeaseClosed)] == ["sealed", "sealed"]


async def test_l33_a_parked_run_cancelled_elsewhere_is_closed_and_sealed(stage: Stage) -> None:
    _client, lease = await asking(stage)
    await lease.run.park("May I?")
    other = await stage.worker("b")
    await other.cancel_run("r1")
    [closed] = await stage.closed(1)
    assert (closed.receipt, closed.reason) == ("sealed", "ended")
    assert len(await stage.written(LeaseClosing)) == 1
    with refused(Code.RUN_ENDED):
        await lease.run.wait_for_answer(timeout_s=1)


async def test_l33_a_run_that_fails_on_another_host_is_closed_within_two_ticks(stage: Stage) -> None:
    stage.limits = msgspec.structs.replace(stage.limits, tick_s=0.3)
    _client, lease = await asking(stage)
    await lease.run.park("May I?")
    await stage.write_run("r1", status=RunStatus.FAILED)  # as any other host would: ours is not told
    began = asyncio.get_running_loop().time()
    [closed] = await stage.closed(1)
    assert asyncio.get_running_loop().time() - began < 3 * stage.limits.tick_s
    assert (closed.receipt, closed.reason) == ("sealed", "ended")


async def test_l33_a_run_cancelled_in_the_same_process_is_closed_at_once(stage: Stage) -> None:
    client, lease = await asking(stage)
    await client.cancel_run("r1")
    [closed] = await stage.closed(1)
    assert closed.receipt == "sealed"
    with refused(Code.RUN_ENDED, Code.LEASE_CLOSED):
        await lease.observe()


async def test_l44_an_ended_runs_lease_is_released_before_the_next_session_of_its_worker(stage: Stage) -> None:
    client, lease = await asking(stage)
    await lease.act(lessor.Type(ref="box", text="first"))
    await stage.write_run("r1", status=RunStatus.FINISHED)
    second = await (await stage.take(client, "r2")).acquire("shop")
    assert (second.generation, (await second.observe()).text) == (1, "first")
    assert [(one.lease, one.receipt) for one in await stage.written(LeaseClosed)] == [(lease.id, "sealed")]


async def test_l17_a_queued_run_is_renewed_by_its_host_without_a_worker(stage: Stage) -> None:
    stage.limits = msgspec.structs.replace(stage.limits, tick_s=0.2, renew_below_s=600)
    client = await stage.hosted()
    async with client.run("r1") as run:
        await run.acquire("shop", horizon_s=5)
        await run.queue()
    renewed = await stage.awaited(LeaseRenewed, 1)
    assert renewed
    assert await stage.written(LeaseClosing) == []


async def test_runs_are_listed_with_their_questions(stage: Stage) -> None:
    client, lease = await asking(stage)
    asked = await lease.run.park("Is it the right one?")
    await stage.take(client, "r2")
    await client.cancel_run("r2")
    listed = {told.run: told.record for told in await client.runs()}
    assert {run: record.status for run, record in listed.items()} == {"r1": "parked", "r2": "cancelled"}
    assert [one.id for one in listed["r1"].approvals] == [asked.id]
    assert [told.run for told in await client.runs(open_only=True)] == ["r1"]
    assert await (await stage.worker("c", principal="other")).runs() == ()


async def test_l11_a_full_host_refuses_then_grants_and_reattaches_at_its_limit(stage: Stage) -> None:
    stage.limits = msgspec.structs.replace(stage.limits, browsers_max=1)
    client, lease = await asking(stage)
    await client.create_profile("other", origins=[ORIGIN])
    second = await stage.take(client, "r2")
    with refused(Code.CAPACITY) as told:
        await second.acquire("other", wait_s=0)
    assert told[0].retryable
    assert (await lease.run.acquire("shop")).reattached
    waiting = asyncio.create_task(second.acquire("other", wait_s=10))
    await lease.close()
    assert (await waiting).generation == 0
    assert len(stage.model.live) == 1


async def test_quota_of_a_tenants_queue(stage: Stage) -> None:
    stage.limits = msgspec.structs.replace(stage.limits, tenant_queue_max=1)
    client, _ = await asking(stage)
    runs = [await stage.take(client, f"w{number}") for number in range(2)]
    first = asyncio.create_task(runs[0].acquire("shop", wait_s=3))
    async with asyncio.timeout(5):
        while not (await client.status("shop")).queue:  # noqa: ASYNC110  # nobody is told
            await asyncio.sleep(0.01)
    with refused(Code.OVERLOADED):
        await runs[1].acquire("shop", wait_s=0)
    with refused(Code.PROFILE_BUSY):
        await first


async def test_quota_of_a_tenants_acts_per_second(stage: Stage) -> None:
    stage.limits = msgspec.structs.replace(stage.limits, tenant_acts_per_s=1.0)
    _, lease = await asking(stage)
    page = await lease.act(GO)
    assert page.page is not None
    with refused(Code.OVERLOADED) as told:
        await lease.act(GO)
    assert told[0].effect == "none"
    assert (len(stage.model.hits), lease.next_sequence) == (1, 2)
