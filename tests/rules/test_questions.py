"""What happened to an act: outcome questions and reconciliation (contract 11, Steps)."""

import pytest

from lessor.errors import Code
from lessor.findings import Away
from lessor.lease.verdict import Aim, Dispatch, DispatchDone
from lessor.messages.ids import request_key
from lessor.messages.record import Intent, Skipped
from lessor.messages.record import Reconciled as ReconciledRecord
from lessor.messages.reply import Acted, ActOutcome, OutcomeTold, Reconciled, Reply, StepState
from lessor.messages.request import CreateProfile
from tests.support.rules import Owner, Worker, code


def leased() -> tuple[Owner, Worker]:
    owner = Owner()
    owner.set_run("r1")
    worker = Worker(owner, "r1")
    worker.granted()
    return owner, worker


def told(reply: Reply | None) -> OutcomeTold:
    assert isinstance(reply, OutcomeTold), reply
    return reply


def unknown_commit(*, idempotent: bool = False) -> tuple[Owner, Worker]:
    """A commit whose page never answered; its lease is retired and its page gone at `owner.now_ms`."""
    owner, r1 = leased()
    if idempotent:
        r1.close()
        owner.call(CreateProfile(id="c1", origins=("https://shop.test",), idempotent_target=True))
        r1.granted()
    owner.hold(Dispatch)
    owner.ask(r1.acting(step="pay"))
    owner.tell(DispatchDone(owner.take(Dispatch).slot, Away.SILENT))
    owner.let(Dispatch)
    return owner, r1


def test_s08_recorded_outcome_is_the_truth_without_a_second_dispatch() -> None:
    owner, r1 = leased()
    r1.act()
    reply = told(r1.outcome(1))
    assert (reply.outcome, reply.sequence, reply.by_lease) == (ActOutcome.APPLIED, 1, r1.lease)
    assert reply.lease is not None
    assert reply.lease.next_sequence == 2
    assert len(owner.hits) == 1


def test_outcome_is_answered_after_the_lease_is_gone() -> None:
    _, r1 = leased()
    r1.act()
    r1.close()
    reply = told(r1.outcome(1))
    assert (reply.outcome, reply.lease_live, reply.lease) == (ActOutcome.APPLIED, False, None)


def test_s21_question_before_the_act_arrives_settles_it() -> None:
    owner, r1 = leased()
    late = r1.acting()
    reply = told(r1.outcome(1))
    assert reply.outcome is ActOutcome.NOT_SENT
    assert reply.lease is not None
    assert reply.lease.next_sequence == 2
    assert len(owner.written(Skipped)) == 1
    assert code(owner.call(late)) is Code.NOT_SENT
    assert owner.hits == []
    assert isinstance(r1.act(sequence=2), Acted)


def test_s21_question_during_the_dry_run_joins_the_act() -> None:
    owner, r1 = leased()
    owner.hold(Aim)
    act = owner.ask(r1.acting())
    question = owner.ask(r1.asking(1))
    assert owner.reply(question) is None
    owner.let(Aim)
    assert isinstance(owner.reply(act), Acted)
    assert told(owner.reply(question)).outcome is ActOutcome.APPLIED
    assert owner.written(Skipped) == []


def test_question_about_an_act_that_waits_in_the_lane_joins_it() -> None:
    owner, r1 = leased()
    owner.hold(Dispatch)
    owner.ask(r1.acting(ref="e1", sequence=1))
    second = owner.ask(r1.acting(ref="e2", sequence=2))
    question = owner.ask(r1.asking(2))
    owner.go_well(owner.take(Dispatch))
    assert owner.written(Skipped) == []
    owner.let(Dispatch)
    assert isinstance(owner.reply(second), Acted)
    assert told(owner.reply(question)).outcome is ActOutcome.APPLIED


def test_question_about_the_next_number_leaves_the_open_act_open() -> None:
    owner, r1 = leased()
    owner.hold(Dispatch)
    owner.ask(r1.acting())
    assert told(r1.outcome(2)).outcome is ActOutcome.NOT_SENT
    assert owner.ledger.lease is not None
    assert owner.ledger.lease.open_act == 1
    owner.crash()
    assert told(r1.outcome(1)).outcome is ActOutcome.UNKNOWN


def test_question_that_cannot_wait_hears_pending() -> None:
    owner, r1 = leased()
    owner.hold(Dispatch)
    owner.ask(r1.acting())
    question = owner.ask(r1.asking(1))
    owner.wait(9.9)
    assert code(owner.reply(question)) is Code.PENDING


def test_only_the_attached_claim_skips() -> None:
    owner, r1 = leased()
    owner.set_run("r1", claim=2)
    Worker(owner, "r1", claim=2).granted()
    assert code(r1.outcome(1)) is Code.PENDING
    assert code(owner.call(r1.asking(1, claim=9))) is Code.PENDING
    assert owner.written(Skipped) == []


def test_number_beyond_the_next_is_a_mismatch() -> None:
    _, r1 = leased()
    assert code(r1.outcome(3)) is Code.SEQUENCE_MISMATCH


def test_closed_lease_without_an_intent_is_not_sent_and_appends_nothing() -> None:
    owner, r1 = leased()
    r1.close()
    before = len(owner.entries)
    assert told(r1.outcome(1)).outcome is ActOutcome.NOT_SENT
    assert len(owner.entries) == before


def test_unknown_key_answers_no_record_never_not_sent() -> None:
    _, r1 = leased()
    assert code(r1.outcome_of("pay")) is Code.NO_RECORD


def test_key_of_an_act_under_way_joins_it() -> None:
    owner, r1 = leased()
    owner.hold(Dispatch)
    owner.ask(r1.acting(step="pay"))
    by_key = r1.asking(1)
    slot = owner.ask(type(by_key)(id="q", request_key=request_key("t1", "pay")))
    assert owner.reply(slot) is None
    owner.let(Dispatch)
    assert told(owner.reply(slot)).step is StepState.DISPATCHED


def test_commit_whose_key_was_applied_is_answered_from_the_record() -> None:
    owner, r1 = leased()
    r1.act(step="pay")
    again = r1.act(step="pay", sequence=2)
    assert isinstance(again, Acted)
    assert (again.recorded, again.sequence) == (True, 1)
    assert len(owner.hits) == 1


def test_p15_unknown_step_is_not_committed_again() -> None:
    owner, r1 = unknown_commit()
    r1.granted()
    assert code(r1.act(step="pay")) is Code.ACTION_NOT_ALLOWED
    assert len(owner.written(Intent)) == 1
    reply = told(r1.outcome_of("pay"))
    assert (reply.outcome, reply.step) == (ActOutcome.UNKNOWN, StepState.UNKNOWN)
    assert reply.page_gone_ms == owner.now_ms


def test_s24_not_sent_counts_only_settle_s_after_the_page_is_gone() -> None:
    owner, r1 = unknown_commit()
    gone_ms = owner.now_ms
    owner.wait(29.9)
    early = r1.reconcile("pay", "not_sent", looked_up_ms=owner.now_ms)
    assert isinstance(early, Reconciled)
    assert (early.step, early.counted, early.retry_after_s) == (StepState.UNKNOWN, False, 0.1)
    owner.wait(60)
    look_up_before_settle = r1.reconcile("pay", "not_sent", looked_up_ms=gone_ms + 29_999)
    assert isinstance(look_up_before_settle, Reconciled)
    assert not look_up_before_settle.counted
    late = r1.reconcile("pay", "not_sent", looked_up_ms=gone_ms + 30_000)
    assert isinstance(late, Reconciled)
    assert (late.step, late.counted) == (StepState.NOT_SENT, True)


@pytest.mark.parametrize("looked_up_s", [None, 3600])
def test_s24_look_up_without_a_credible_time_does_not_count(looked_up_s: float | None) -> None:
    owner, r1 = unknown_commit()
    owner.wait(120)
    at_ms = None if looked_up_s is None else owner.now_ms + round(looked_up_s * 1000)
    reply = r1.reconcile("pay", "not_sent", looked_up_ms=at_ms)
    assert isinstance(reply, Reconciled)
    assert not reply.counted


def test_s24_not_sent_does_not_count_while_the_page_may_still_send() -> None:
    owner, r1 = leased()
    r1.act(step="pay")
    owner.wait(120)
    reply = r1.reconcile("pay", "not_sent", looked_up_ms=owner.now_ms)
    assert isinstance(reply, Reconciled)
    assert (reply.step, reply.counted) == (StepState.DISPATCHED, False)


def test_s24_page_whose_end_nobody_confirmed_never_counts_as_gone() -> None:
    owner, r1 = leased()
    owner.hold(Dispatch)
    owner.ask(r1.acting(step="pay"))
    owner.crash(page=False, gone=False, host="host-2")
    owner.wait(3600)
    reply = r1.reconcile("pay", "not_sent", looked_up_ms=owner.now_ms)
    assert isinstance(reply, Reconciled)
    assert not reply.counted


def test_s24_settle_s_holds_across_a_change_of_machine() -> None:
    owner, r1 = unknown_commit()
    owner.now_ms += 50
    owner.crash(page=False, boot="boot-2", host="host-2")
    moved_ms = owner.now_ms
    owner.wait(29)
    reply = r1.reconcile("pay", "not_sent", looked_up_ms=owner.now_ms)
    assert isinstance(reply, Reconciled)
    assert not reply.counted, "another boot's clock says nothing: settle_s begins with this activation"
    owner.wait(1)
    reply = r1.reconcile("pay", "not_sent", looked_up_ms=moved_ms + 30_000)
    assert isinstance(reply, Reconciled)
    assert reply.counted


def test_s24_idempotent_target_lifts_the_waits() -> None:
    _, r1 = unknown_commit(idempotent=True)
    reply = r1.reconcile("pay", "not_sent")
    assert isinstance(reply, Reconciled)
    assert (reply.step, reply.counted) == (StepState.NOT_SENT, True)


def test_s15_counting_not_sent_lets_the_step_run_once_more_with_its_key() -> None:
    owner, r1 = unknown_commit()
    owner.wait(30)
    r1.reconcile("pay", "not_sent", looked_up_ms=owner.now_ms)
    r1.granted()
    assert isinstance(r1.act(step="pay"), Acted)
    assert len({intent.request_key for intent in owner.written(Intent)}) == 1
    again = r1.act(step="pay", sequence=2)
    assert isinstance(again, Acted)
    assert again.recorded


def test_s16_verdict_is_recorded_with_who_and_evidence() -> None:
    owner, r1 = unknown_commit()
    reply = r1.reconcile("pay", "succeeded")
    assert isinstance(reply, Reconciled)
    assert reply.step is StepState.SUCCEEDED
    [record] = owner.written(ReconciledRecord)
    assert (record.by, record.evidence, record.counted) == ("test", "looked it up", True)
    r1.granted()
    stored = r1.act(step="pay")
    assert isinstance(stored, Acted)
    assert stored.recorded
    later = r1.reconcile("pay", "not_sent", looked_up_ms=owner.now_ms)
    assert isinstance(later, Reconciled)
    assert later.step is StepState.SUCCEEDED, "a fact is not argued away"


def test_dispatched_step_without_effect_has_failed_and_may_run_again() -> None:
    owner, r1 = leased()
    r1.act(step="pay")
    r1.close()
    owner.wait(30)
    reply = r1.reconcile("pay", "not_sent", looked_up_ms=owner.now_ms)
    assert isinstance(reply, Reconciled)
    assert reply.step is StepState.FAILED
    r1.granted()
    assert isinstance(r1.act(step="pay"), Acted)


def test_still_unknown_never_counts() -> None:
    owner, r1 = unknown_commit()
    owner.wait(600)
    reply = r1.reconcile("pay", "still_unknown")
    assert isinstance(reply, Reconciled)
    assert (reply.step, reply.counted) == (StepState.UNKNOWN, False)


def test_reconcile_of_an_open_commit_waits() -> None:
    owner, r1 = leased()
    owner.hold(Dispatch)
    owner.ask(r1.acting(step="pay"))
    assert code(r1.reconcile("pay", "succeeded")) is Code.PENDING
