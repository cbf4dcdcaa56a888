"""Acceptance of declared steps: desired and observed state apart, evidence, dependencies, recovery before new work."""

import asyncio
from dataclasses import replace

import pytest

import lessor
from lessor.client import Client, Lease
from lessor.errors import Code
from lessor.findings import Away
from lessor.messages.action import AnyAction
from lessor.messages.ids import request_key
from lessor.messages.record import Checkpointed, Intent, Outcome, Reconciled, StepDeclared
from lessor.messages.reply import ActOutcome, StepState
from lessor.messages.step import StepRecord
from lessor.reconcilers import Asking, Found
from tests.support.stage import Stage, refused
from tests.support.wire import GO


async def leased(stage: Stage) -> Lease:
    client = await stage.hosted()
    run = await stage.take(client, "r1")
    lease = await run.acquire("shop")
    await lease.observe()
    return lease


def site(stage: Stage, looks: list[str] | None = None) -> Asking:
    """A look-up of the outside world as it is."""

    async def look(step: StepRecord) -> Found:
        if looks is not None:
            looks.append(step.step)
        clicks = [hit for hit in stage.model.hits if isinstance(hit.action, lessor.Click)]
        return Found("succeeded", "the site has it") if clicks else Found("not_sent", "the site has none")

    return Asking(look)


async def lose(stage: Stage, lease: Lease, step: lessor.Step, action: AnyAction = GO) -> None:
    """Commit on a page that reaches the site and never answers."""
    gate = stage.model.hold("dispatched")
    committing = asyncio.create_task(step.commit(action))
    await gate.reached.wait()
    stage.model.crash(stage.model.live[0])
    with pytest.raises(lessor.OutcomeUnknown):
        await committing


async def test_s23_only_the_click_is_the_commit_and_the_evidence_comes_later(stage: Stage) -> None:
    """Type, type, click: desired state is on record before the first of them, observed state after the evidence."""
    lease = await leased(stage)
    expect = lessor.Expectation(text="thanks")
    payload = {"amount": "12.00"}
    target = "http://127.0.0.1:1/pay?token=hush"
    async with lease.run.step("submit-04", target=target, payload=payload, expect=expect) as step:
        assert (step.record.state, step.desired.target) == (None, "http://127.0.0.1:1/pay")
        await step.checkpoint("page_loaded", "http://127.0.0.1:1/pay?token=hush")
        await step.act(lessor.Type(ref="box", text="12.00"))
        await step.act(lessor.Type(ref="box", text="12.00"))
        await step.checkpoint("form_filled", "amount 12.00")
        await step.commit(GO)
        assert (step.record.state, step.done) == (StepState.DISPATCHED, False)
        stage.model.live[0].text = "thanks"
    assert (step.record.state, step.done) == (StepState.SUCCEEDED, True)
    intents = await stage.written(Intent)
    assert [(one.sequence, one.do, one.request_key is not None) for one in intents] == [
        (1, "type", False),
        (2, "type", False),
        (3, "click", True),
    ]
    last = intents[-1]
    assert (last.task, last.step, last.run, last.attempt, last.claim, last.policy) == ("r1", "submit-04", "r1", 1, 1, 1)
    assert (last.lease, last.target) == (lease.id, "button Go")
    assert last.target_fingerprint
    assert last.payload_hash
    declared = await stage.written(StepDeclared)
    assert [one.desired.payload_hash for one in declared] == [step.desired.payload_hash]
    assert [(one.name, one.fact) for one in await stage.written(Checkpointed)] == [
        ("page_loaded", "http://127.0.0.1:1/pay"),
        ("form_filled", "amount 12.00"),
    ]
    assert [(one.verdict, one.how, one.counted) for one in await stage.written(Reconciled)] == [
        ("succeeded", "expectation", True)
    ]


async def test_evidence_on_the_settled_page_is_in_the_outcomes_own_entry(stage: Stage) -> None:
    lease = await leased(stage)
    stage.model.live[0].text = "thanks"
    async with lease.run.step("pay", expect=lessor.Expectation(text="thanks")) as step:
        acted = await step.commit(GO)
    assert (acted.step, step.record.state) == (StepState.SUCCEEDED, StepState.SUCCEEDED)
    entry = next(one for one in await stage.entries() if any(isinstance(record, Outcome) for record in one.records))
    assert [type(record) for record in entry.records] == [Outcome, Reconciled]


async def test_s22_an_act_whose_form_was_blocked_is_applied_and_no_success(stage: Stage) -> None:
    """The click reached the page, and the page did not submit: its evidence never comes."""
    lease = await leased(stage)
    step = lease.run.step("pay", expect=lessor.Expectation(text="thanks"))
    async with step:
        acted = await step.commit(GO)
        assert (acted.effect, await step.verify(timeout_s=0.1)) == (lessor.Effect.APPLIED, StepState.DISPATCHED)
        left = await lease.client.steps("shop", only="unverified")
        assert [one.step for one in left] == ["pay"]
        stage.model.live[0].text = "thanks"


async def test_a_step_without_evidence_is_done_unverified_and_not_run_again(stage: Stage) -> None:
    lease = await leased(stage)
    async with lease.run.step("pay") as step:
        await step.commit(GO)
    assert (step.done, step.record.state) == (True, StepState.DISPATCHED)
    async with lease.run.step("pay") as step:
        assert step.done
        assert (await step.commit(GO)).recorded
    assert len(stage.model.hits) == 1
    assert [one.step for one in await lease.client.steps("shop", only="open")] == []


async def test_a_step_without_effects_may_be_repeated_freely(stage: Stage) -> None:
    lease = await leased(stage)
    for _ in range(3):
        async with lease.run.step("search", effects=False) as step:
            assert not (await step.commit(GO)).recorded
    assert len(stage.model.hits) == 3
    assert {one.request_key for one in await stage.written(Intent)} == {None}


async def test_the_same_step_never_commits_another_payload(stage: Stage) -> None:
    lease = await leased(stage)
    async with lease.run.step("pay", payload={"amount": 1}) as step:
        await step.commit(GO)
    with refused(Code.ACTION_NOT_ALLOWED):
        await lease.run.step("pay", payload={"amount": 2}).__aenter__()
    async with lease.run.step("pay", payload={"amount": 1}):
        pass


async def test_s14_unknown_without_a_reconciler_stays_and_blocks_what_depends_on_it(stage: Stage) -> None:
    lease = await leased(stage)
    async with lease.run.step("pay", evidence=["person"]) as step:
        await lose(stage, lease, step)
    again = await lease.run.acquire("shop")
    await again.observe()
    assert [(one.step, one.state) for one in again.open_steps] == [("pay", StepState.UNKNOWN)]
    assert [one.step for one in await again.client.steps("shop", only="unknown")] == ["pay"]
    async with again.run.step("ship", depends=["pay"]) as ship:
        assert ship.record.blocked_by == (step.request_key,)
        with refused(Code.ACTION_NOT_ALLOWED) as told:
            await ship.commit(GO)
        assert "pay" in told[0].message
    async with again.run.step("greet") as free:
        await free.commit(GO)
    await again.client.reconcile("shop", step.request_key, "succeeded", evidence="seen in the books", by="anna")
    await ship.commit(GO)
    assert len(stage.model.hits) == 3


async def test_s15_what_a_reconciler_says_was_not_sent_runs_once_more_under_the_same_key(stage: Stage) -> None:
    lease = await leased(stage)
    client = lease.client
    client.reconcilers["order"] = site(stage)
    async with lease.run.step("pay", kind="order", evidence=["look-up"]) as step:
        stage.model.dispatches.append(Away.SILENT)
        with pytest.raises(lessor.OutcomeUnknown):
            await step.commit(GO)
    again = await lease.run.acquire("shop")
    await again.observe()
    assert again.open_steps == ()
    async with again.run.step("pay", kind="order", evidence=["look-up"]) as step:
        states = [step.record.state]
        await step.commit(GO)
    assert [*states, step.record.state] == [StepState.NOT_SENT, StepState.SUCCEEDED]
    assert len({one.request_key for one in await stage.written(Intent)}) == 1
    assert len(stage.model.hits) == 1
    verdicts = [(one.verdict, one.by, one.how) for one in await stage.written(Reconciled) if one.counted]
    assert verdicts == [("not_sent", client.worker, "call"), ("succeeded", client.worker, "call")]


async def test_resuming_reconciles_before_the_first_new_action(stage: Stage) -> None:
    """Another worker takes the run: what was left open is looked up before acquire returns."""
    lease = await leased(stage)
    async with lease.run.step("pay", kind="order", evidence=["look-up"]) as step:
        await lose(stage, lease, step)
    successor = await stage.worker("b")
    looks: list[str] = []
    successor.reconcilers["order"] = site(stage, looks)
    run = await stage.take(successor, "r1")
    held = await run.acquire("shop")
    assert (looks, held.open_steps) == (["pay"], ())
    assert [one.outcome for one in await stage.written(Outcome)] == [ActOutcome.UNKNOWN]
    told = await successor.outcome("shop", key=step.request_key)
    assert told is not None
    assert told.step is StepState.SUCCEEDED
    async with run.step("pay", kind="order", evidence=["look-up"]) as step:
        assert step.done
    assert len(stage.model.hits) == 1


async def test_a_dispatched_step_with_evidence_is_looked_up_by_its_successor(stage: Stage) -> None:
    lease = await leased(stage)
    step = lease.run.step("pay", kind="order", evidence=["look-up"])
    await step.__aenter__()
    await step.commit(GO)
    looks: list[str] = []
    lease.client.reconcilers["order"] = site(stage, looks)
    again = await lease.run.acquire("shop")
    assert (again.reattached, looks, again.open_steps) == (True, ["pay"], ())
    assert await step.state() is StepState.SUCCEEDED


async def test_a_failed_look_up_leaves_the_step_unknown(stage: Stage) -> None:
    lease = await leased(stage)

    async def broken(step: StepRecord) -> Found:
        raise ConnectionError("secret in here")

    lease.client.reconcilers["order"] = replace(Asking(broken), tries_max=2)
    async with lease.run.step("pay", kind="order", evidence=["look-up"]) as step:
        await lose(stage, lease, step)
    again = await lease.run.acquire("shop")
    assert [one.state for one in again.open_steps] == [StepState.UNKNOWN]
    verdicts = await stage.written(Reconciled)
    assert [(one.verdict, one.counted, one.evidence) for one in verdicts] == [
        ("still_unknown", False, "the look-up failed: ConnectionError")
    ] * 2


async def test_a_replaced_worker_declares_nothing_any_more(stage: Stage) -> None:
    lease = await leased(stage)
    client: Client = await stage.worker("b")
    await (await stage.take(client, "r1")).acquire("shop")
    with refused(Code.RUN_FENCED):
        await lease.run.step(lease, "pay").__aenter__()


async def test_what_is_open_is_never_forgotten(stage: Stage) -> None:
    """Long after the lease: by key, and in the list."""
    lease = await leased(stage)
    async with lease.run.step("pay", task="order-1") as step:
        await lose(stage, lease, step)
    for number in range(3):
        run = await stage.take(lease.client, f"r{number + 2}")
        await (await run.acquire("shop")).close()
    told = await lease.client.outcome("shop", key=request_key("order-1", "pay"))
    assert told is not None
    assert told.step is StepState.UNKNOWN
    assert [one.step for one in await lease.client.steps("shop", only="open")] == ["pay"]
