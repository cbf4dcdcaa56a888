"""Acceptance of steps, journal and reconciliation, over the real broker: one effect, and UNKNOWN where nobody knows."""

import asyncio
from dataclasses import dataclass

import msgspec
import pytest

import lessor
from lessor.client import Lease, Step
from lessor.errors import Code, Effect, problem
from lessor.findings import NotSent
from lessor.ids import fresh_id
from lessor.messages.ids import request_key
from lessor.messages.record import Intent, Outcome, Skipped
from lessor.messages.reply import Acted, ActOutcome, Navigated, OutcomeTold, StepState
from lessor.messages.request import AskStatus
from tests.support.processes import worker_process
from tests.support.stage import URL, Stage, refused
from tests.support.wire import GO, code


@dataclass
class Book:
    """The outside world, where a step's effect is looked up."""

    stage: Stage

    async def look_up(self, key: str) -> str | None:
        return "the effect is there" if self.stage.model.hits else None


async def begun(stage: Stage) -> tuple[Lease, Step]:
    """A lease that has seen its page, and a step of it."""
    client = await stage.hosted()
    run = await stage.take(client, "r1")
    lease = await run.acquire("shop")
    await lease.observe()
    return lease, run.step(lease, "submit", task="t1")


async def again(lease: Lease) -> tuple[Lease, Step]:
    """The same run, from its next lease on."""
    held = await lease.run.acquire("shop")
    await held.observe()
    return held, lease.run.step(held, "submit", task="t1")


async def test_s01_a_crash_before_the_intent_leaves_no_trace(stage: Stage) -> None:
    _, step = await begun(stage)
    gate = stage.model.hold("aim")
    committing = asyncio.create_task(step.commit(GO))
    await gate.reached.wait()
    await stage.leave()
    await stage.open_host()
    with refused(Code.NOT_SENT):
        await committing
    assert (await stage.written(Intent), await step.state()) == ([], None)
    acted = await step.commit(GO)
    assert (acted.sequence, acted.recorded, len(stage.model.hits)) == (2, False, 1)


async def test_s02_a_crash_after_the_intent_is_unknown_until_somebody_looked(stage: Stage) -> None:
    lease, step = await begun(stage)
    gate = stage.model.hold("dispatch")
    committing = asyncio.create_task(step.commit(GO))
    await gate.reached.wait()
    assert len(await stage.written(Intent)) == 1, "the intent is on disk before anything is sent"
    await stage.leave()
    await stage.open_host()
    with pytest.raises(lessor.OutcomeUnknown):
        await committing
    _, step = await again(lease)
    with refused(Code.ACTION_NOT_ALLOWED):
        await step.commit(GO)
    assert await step.reconcile(Book(stage).look_up, by="test", timeout_s=10) is StepState.NOT_SENT
    await step.commit(GO)
    assert len(stage.model.hits) == 1


async def test_s03_a_worker_that_dies_after_the_dispatch_is_told_the_outcome(stage: Stage) -> None:
    client = await stage.hosted()
    gate = stage.model.hold("dispatched")
    async with worker_process(stage, run="r1", task="t1", step="submit") as died:
        await gate.reached.wait()
        died.kill()
        await died.ended()
    gate.open()
    run = await stage.take(client, "r1")
    lease = await run.acquire("shop")
    await lease.observe()
    acted = await run.step(lease, "submit", task="t1").commit(GO)
    assert (acted.recorded, acted.sequence, lease.reattached) == (True, 1, True)
    assert (len(stage.model.hits), stage.model.started) == (1, 1)


async def test_s03_a_browser_that_dies_after_the_dispatch_is_reconciled(stage: Stage) -> None:
    lease, step = await begun(stage)
    gate = stage.model.hold("dispatched")
    committing = asyncio.create_task(step.commit(GO))
    await gate.reached.wait()
    stage.model.crash(stage.model.live[0])
    with pytest.raises(lessor.OutcomeUnknown):
        await committing
    assert await step.state() is StepState.UNKNOWN
    assert await step.reconcile(Book(stage).look_up, by="test") is StepState.SUCCEEDED
    _, step = await again(lease)
    assert (await step.commit(GO)).recorded
    assert len(stage.model.hits) == 1
    assert [one.reason for one in await stage.closed(1)] == ["retired"]


async def test_s04_a_host_that_dies_before_the_outcome_is_recorded_leaves_unknown(stage: Stage) -> None:
    _, step = await begun(stage)
    gate = stage.model.hold("dispatched")
    committing = asyncio.create_task(step.commit(GO))
    await gate.reached.wait()
    await stage.leave()
    await stage.open_host()
    with pytest.raises(lessor.OutcomeUnknown):
        await committing
    assert [one.outcome for one in await stage.written(Outcome)] == [ActOutcome.UNKNOWN]
    assert await step.reconcile(Book(stage).look_up, by="test") is StepState.SUCCEEDED
    assert len(stage.model.hits) == 1


async def test_s07_a_request_delivered_again_and_again_has_one_effect(stage: Stage) -> None:
    await stage.hosted()
    wire = stage.wire("r1")
    await wire.granted()
    act = wire.acting()
    gate = stage.model.hold("dispatch")
    deliveries = [asyncio.create_task(wire.touch(act)) for _ in range(3)]
    await gate.reached.wait()
    gate.open()
    answers = await asyncio.gather(*deliveries)
    answers.append(await wire.touch(act))
    assert all(isinstance(answer, Acted) for answer in answers), answers
    assert len({msgspec.json.encode(answer) for answer in answers}) == 1
    assert len(stage.model.hits) == 1


async def test_s07_a_navigate_delivered_after_an_act_keeps_the_draft(stage: Stage) -> None:
    await stage.hosted()
    wire = stage.wire("r1")
    await wire.granted()
    assert isinstance(await wire.touch(wire.navigating(URL)), Navigated)
    late = wire.navigating("http://127.0.0.1:1/elsewhere")
    assert isinstance(await wire.touch(wire.acting(lessor.Type(ref="box", text="draft"))), Acted)
    assert code(await wire.touch(late)) is Code.SEQUENCE_MISMATCH
    assert [(keeper.url, keeper.text) for keeper in stage.model.live] == [(URL, "draft")]


async def test_s08_the_outcome_of_an_act_whose_answer_was_lost(stage: Stage) -> None:
    await stage.hosted()
    wire = stage.wire("r1")
    await wire.granted()
    lost = wire.acting()
    await wire.touch(lost)
    told = await wire.send("outcome", wire.asking(1))
    assert isinstance(told, OutcomeTold)
    assert (told.outcome, told.effect, told.sequence) == (ActOutcome.APPLIED, Effect.APPLIED, 1)
    assert len(stage.model.hits) == 1


async def test_s09_a_number_is_used_once(stage: Stage) -> None:
    await stage.hosted()
    wire = stage.wire("r1")
    await wire.granted()
    first = wire.acting()
    assert isinstance(await wire.touch(first), Acted)
    other = wire.acting(lessor.Type(ref="box", text="other"), sequence=1)
    assert code(await wire.touch(other)) is Code.SEQUENCE_CONFLICT
    gap = await wire.touch(wire.acting(sequence=5, revision="r1"))
    assert code(gap) is Code.SEQUENCE_MISMATCH
    assert wire.seen.next_sequence == 2
    repeated = await wire.touch(msgspec.structs.replace(first, id="another-id"))
    assert isinstance(repeated, Acted)
    assert (repeated.recorded, repeated.sequence, len(stage.model.hits)) == (True, 1, 1)


async def test_s10_a_refusal_before_the_intent_keeps_the_number(stage: Stage) -> None:
    await stage.hosted()
    wire = stage.wire("r1")
    await wire.granted()
    found = (
        Code.PAGE_CHANGED,
        Code.ELEMENT_NOT_FOUND,
        Code.STALE_REFERENCE,
        Code.ACTION_NOT_ALLOWED,
        Code.TAB_NOT_FOUND,
    )
    for one in found:
        stage.model.aims.append(problem(one, "The dry run says no."))
        assert code(await wire.touch(wire.acting())) is one
    assert code(await wire.touch(wire.acting(sequence=2))) is Code.SEQUENCE_MISMATCH
    assert code(await wire.touch(wire.acting(timeout_s=-1))) is Code.DEADLINE_PASSED
    fenced = msgspec.structs.replace(wire.acting(), claim=99)
    assert code(await wire.touch(fenced)) is Code.INVALID_REQUEST
    assert (await stage.written(Intent), wire.seen.next_sequence) == ([], 1)
    acted = await wire.touch(wire.acting())
    assert isinstance(acted, Acted)
    assert (acted.sequence, len(stage.model.hits)) == (1, 1)

    stage.model.dispatches.append(NotSent("the element went away"))
    assert code(await wire.touch(wire.acting(revision="r1"))) is Code.NOT_SENT
    assert wire.seen.next_sequence == 3, "an intent was on disk: its number is used up"
    assert [one.outcome for one in await stage.written(Outcome)] == [ActOutcome.APPLIED, ActOutcome.NOT_SENT]


async def test_s17_request_keys_are_stable_over_attempts_and_differ_between_tasks(stage: Stage) -> None:
    lease, step = await begun(stage)
    await step.commit(GO)
    assert step.request_key == request_key("t1", "submit")
    run = await stage.take(lease.run.client, "r1", attempt=2)
    second = await run.acquire("shop")
    await second.observe()
    repeated = run.step(second, "submit", task="t1")
    assert repeated.request_key == step.request_key
    assert (await repeated.commit(GO)).recorded
    other = run.step(second, "submit", task="t2")
    assert other.request_key != step.request_key
    assert not (await other.commit(GO)).recorded
    keys = [intent.request_key for intent in await stage.written(Intent)]
    assert keys == [step.request_key, other.request_key]


async def test_s21_an_act_that_arrives_after_its_question_is_never_sent(stage: Stage) -> None:
    await stage.hosted()
    wire = stage.wire("r1")
    await wire.granted()
    delayed = wire.acting()
    told = await wire.send("outcome", wire.asking(1))
    assert isinstance(told, OutcomeTold)
    assert told.outcome is ActOutcome.NOT_SENT
    assert code(await wire.touch(delayed)) is Code.NOT_SENT
    assert (stage.model.hits, [one.sequence for one in await stage.written(Skipped)]) == ([], [1])
    assert wire.seen.next_sequence == 2


async def test_s21_a_question_during_the_dry_run_joins_the_act(stage: Stage) -> None:
    await stage.hosted()
    wire = stage.wire("r1")
    await wire.granted()
    gate = stage.model.hold("aim")
    acting = asyncio.create_task(wire.touch(wire.acting()))
    await gate.reached.wait()
    asking = asyncio.create_task(wire.send("outcome", wire.asking(1)))
    await wire.send("status", AskStatus(id=fresh_id()))
    assert not asking.done()
    gate.open()
    acted, told = await acting, await asking
    assert isinstance(acted, Acted)
    assert isinstance(told, OutcomeTold)
    assert (told.outcome, len(stage.model.hits), await stage.written(Skipped)) == (ActOutcome.APPLIED, 1, [])
