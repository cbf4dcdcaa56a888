"""Acts, navigates and observes: sequence, repeats, gates, deadlines, overruns (contract 7-10)."""

import msgspec
import pytest

from lessor.errors import Code, Effect, problem
from lessor.findings import Away, NotSent, Sent
from lessor.lease.verdict import Aim, Aimed, Dispatch, DispatchDone, ReadDone, Visit
from lessor.limits import Limits
from lessor.messages.action import Click
from lessor.messages.ids import Caller
from lessor.messages.record import Dispatched, Intent, LeaseRenewed, Outcome, Read, Skipped
from lessor.messages.reply import Acted, ActOutcome, Navigated, Observed, Refused
from lessor.messages.request import Act
from tests.support.rules import PAGE, TARGET, Owner, Worker, code


def leased(*, horizon_s: float = 900, limits: Limits | None = None) -> tuple[Owner, Worker]:
    owner = Owner(limits=limits or Limits())
    owner.set_run("r1")
    worker = Worker(owner, "r1")
    worker.granted(horizon_s=horizon_s)
    return owner, worker


def outcomes(owner: Owner) -> list[ActOutcome]:
    return [outcome.outcome for outcome in owner.written(Outcome)]


def test_s07_same_request_delivered_concurrently_is_one_effect() -> None:
    owner, r1 = leased()
    owner.hold(Dispatch)
    act = r1.acting()
    slots = [owner.ask(act) for _ in range(3)]
    owner.let(Dispatch)
    slots.append(owner.ask(act))
    assert len(owner.hits) == 1
    assert len({str(owner.reply(slot)) for slot in slots}) == 1


def test_s07_late_navigate_is_refused_after_an_act() -> None:
    owner, r1 = leased()
    late = r1.navigating()
    r1.act()
    reply = owner.call(late)
    assert code(reply) is Code.SEQUENCE_MISMATCH
    assert reply.lease is not None
    assert reply.lease.next_sequence == 2
    assert owner.ordered(Visit) == []


def test_s09_other_payload_conflicts_gap_mismatches_repeat_is_recorded() -> None:
    owner, r1 = leased()
    r1.act(ref="e1")
    assert code(r1.act(ref="e2", sequence=1)) is Code.SEQUENCE_CONFLICT
    gap = r1.act(sequence=3)
    assert isinstance(gap, Refused)
    assert (gap.error.code, gap.error.next_sequence) == (Code.SEQUENCE_MISMATCH, 2)
    repeat = r1.act(ref="e1", sequence=1)
    assert isinstance(repeat, Acted)
    assert repeat.recorded
    assert len(owner.hits) == 1


@pytest.mark.parametrize("refused", [Code.ELEMENT_NOT_FOUND, Code.PAGE_CHANGED, Code.URL_DISALLOWED])
def test_s10_refusal_before_the_intent_keeps_the_number(refused: Code) -> None:
    owner, r1 = leased()
    owner.hold(Aim)
    slot = owner.ask(r1.acting())
    owner.tell(Aimed(owner.take(Aim).slot, problem(refused, "Look again.")))
    assert code(owner.reply(slot)) is refused
    assert owner.written(Intent) == []
    owner.let(Aim)
    assert isinstance(r1.act(sequence=1), Acted)


@pytest.mark.parametrize("away", list(Away))
def test_s10_page_away_before_the_intent_leaves_no_trace(away: Away) -> None:
    owner, r1 = leased()
    owner.hold(Aim)
    slot = owner.ask(r1.acting())
    owner.tell(Aimed(owner.take(Aim).slot, away))
    assert code(owner.reply(slot)) in (Code.BROWSER_GONE, Code.OP_TIMEOUT)
    assert owner.written(Intent) == []


def test_s10_not_sent_after_the_intent_consumes_the_number() -> None:
    owner, r1 = leased()
    owner.hold(Dispatch)
    slot = owner.ask(r1.acting())
    owner.tell(DispatchDone(owner.take(Dispatch).slot, NotSent("covered")))
    reply = owner.reply(slot)
    assert code(reply) is Code.NOT_SENT
    assert reply is not None
    assert reply.lease is not None
    assert reply.lease.next_sequence == 2
    assert outcomes(owner) == [ActOutcome.NOT_SENT]
    assert code(r1.act(sequence=1)) is Code.NOT_SENT


def test_answer_and_outcome_follow_the_intent() -> None:
    owner, r1 = leased()
    owner.hold(Dispatch)
    slot = owner.ask(r1.acting())
    assert len(owner.written(Intent)) == 1
    assert owner.written(Outcome) == []
    assert owner.reply(slot) is None
    owner.let(Dispatch)
    assert isinstance(owner.reply(slot), Acted)


def test_act_lane_is_strictly_one_at_a_time_in_order() -> None:
    owner, r1 = leased()
    owner.hold(Dispatch, Visit)
    first = owner.ask(r1.acting(ref="e1", sequence=1))
    read = owner.ask(r1.observing())
    second = owner.ask(r1.acting(ref="e2", sequence=2))
    assert len(owner.pending) == 1
    owner.go_well(owner.take(Dispatch))
    assert isinstance(owner.reply(first), Acted)
    assert [Visit] == [type(effect) for effect in owner.pending]
    owner.go_well(owner.take(Visit))
    assert isinstance(owner.reply(read), Observed)
    owner.let(Dispatch)
    assert isinstance(owner.reply(second), Acted)


def test_lane_keeps_its_order_when_its_first_call_must_renew() -> None:
    owner, r1 = leased(horizon_s=60)
    owner.wait(35)
    owner.hold(Visit)
    read = owner.ask(r1.observing())
    slots = [owner.ask(r1.acting(ref=f"e{number}", sequence=number, timeout_s=30)) for number in (1, 2, 3)]
    owner.let(Visit)
    assert isinstance(owner.reply(read), Observed)
    assert all(isinstance(owner.reply(slot), Acted) for slot in slots)
    assert len(owner.written(LeaseRenewed)) == 1


def test_lane_is_bounded() -> None:
    owner, r1 = leased(limits=msgspec.structs.replace(Limits(), lane_max=2))
    owner.hold(Visit)
    slots = [owner.ask(r1.observing()) for _ in range(4)]
    assert [owner.reply(slot) for slot in slots[:3]] == [None, None, None]
    assert code(owner.reply(slots[3])) is Code.OVERLOADED


def test_control_lane_does_not_wait_for_the_page() -> None:
    owner, r1 = leased(horizon_s=60)
    owner.hold(Visit)
    owner.ask(r1.navigating())
    assert not isinstance(r1.renew(), Refused)


def test_remembered_ids_answer_alike_and_are_bounded() -> None:
    owner, r1 = leased(limits=msgspec.structs.replace(Limits(), remembered_max=2))
    reads = [r1.observing() for _ in range(3)]
    first = [owner.call(read) for read in reads]
    owner.wait(1)
    assert owner.call(reads[2]) == first[2]
    assert owner.call(reads[1]) == first[1]
    assert len(owner.ordered(Visit)) == 3
    assert owner.call(reads[0]) != first[0], "forgotten: read anew"


def test_repeated_id_of_a_stranger_or_another_claim_is_no_repeat() -> None:
    owner, r1 = leased()
    read = r1.observing()
    owner.call(read)
    assert code(owner.call(read, Caller("acme", "bob"))) is Code.NOT_FOUND
    owner.hold(Visit)
    second = r1.observing()
    owner.ask(second)
    assert code(owner.call(second, Caller("acme", "bob"))) is Code.NOT_FOUND
    assert code(owner.call(msgspec.structs.replace(second, claim=7))) is Code.INVALID_REQUEST


def test_id_used_for_another_kind_of_call_is_no_repeat() -> None:
    owner, r1 = leased()
    read = r1.observing()
    owner.call(read)
    assert isinstance(owner.call(msgspec.structs.replace(r1.navigating(), id=read.id)), Navigated)


@pytest.mark.parametrize("timeout_s", [0, -5])
def test_call_past_its_deadline_does_nothing(timeout_s: float) -> None:
    owner, r1 = leased()
    assert code(r1.act(timeout_s=timeout_s)) is Code.DEADLINE_PASSED
    assert code(r1.navigate(timeout_s=timeout_s)) is Code.DEADLINE_PASSED
    assert code(r1.observe(timeout_s=timeout_s)) is Code.DEADLINE_PASSED
    assert owner.pending == []


def test_p21_deadline_that_passes_during_the_dry_run_sends_nothing() -> None:
    owner, r1 = leased()
    owner.hold(Aim)
    slot = owner.ask(r1.acting(timeout_s=5))
    owner.wait(5)
    owner.tell(Aimed(owner.take(Aim).slot, TARGET))
    assert code(owner.reply(slot)) is Code.DEADLINE_PASSED
    assert owner.ordered(Dispatch) == []


def test_takeover_during_the_dry_run_fences_the_act() -> None:
    owner, r1 = leased()
    owner.hold(Aim)
    slot = owner.ask(r1.acting())
    owner.set_run("r1", claim=2)
    b = Worker(owner, "r1", claim=2)
    assert b.granted().next_sequence == 1
    owner.tell(Aimed(owner.take(Aim).slot, TARGET))
    reply = owner.reply(slot)
    assert code(reply) is Code.LEASE_FENCED
    assert reply is not None
    assert reply.lease is None
    owner.let(Aim)
    assert isinstance(b.act(), Acted)


def test_takeover_while_the_old_workers_call_waits_in_the_lane_fences_it() -> None:
    owner, r1 = leased()
    owner.hold(Dispatch)
    owner.ask(r1.acting())
    waiting = owner.ask(r1.acting(ref="e2", sequence=2))
    owner.set_run("r1", claim=2)
    assert Worker(owner, "r1", claim=2).granted().next_sequence == 2
    owner.let(Dispatch)
    assert code(owner.reply(waiting)) is Code.LEASE_FENCED
    assert len(owner.hits) == 1


def test_l38_same_act_as_the_successors_is_not_answered_as_ones_own() -> None:
    owner, a = leased()
    owner.set_run("r1", claim=2)
    b = Worker(owner, "r1", claim=2)
    b.granted()
    b.act(ref="e1", sequence=1)
    assert code(a.act(ref="e1", sequence=1)) is Code.LEASE_FENCED
    assert isinstance(b.act(ref="e1", sequence=1), Acted)


def test_l19_operation_that_overruns_the_expiry_is_awaited() -> None:
    owner, r1 = leased(horizon_s=60)
    owner.wait(55)
    owner.hold(Visit)
    slot = owner.ask(r1.observing(timeout_s=4.9))
    owner.wait(6)
    owner.let(Visit)
    assert isinstance(owner.reply(slot), Observed)
    assert code(r1.observe()) is Code.LEASE_EXPIRED


def test_l19_act_that_overruns_the_expiry_keeps_its_outcome() -> None:
    owner, r1 = leased(horizon_s=60)
    owner.wait(55)
    owner.hold(Dispatch)
    slot = owner.ask(r1.acting(timeout_s=4.9))
    owner.wait(6)
    assert code(owner.reply(slot)) is Code.PENDING, "the caller has its answer by its deadline all the same"
    owner.let(Dispatch)
    assert outcomes(owner) == [ActOutcome.APPLIED]
    assert code(r1.act(sequence=2)) is Code.LEASE_EXPIRED
    assert owner.ledger.generation == 0


def test_answer_by_the_deadline_says_pending_with_unknown_effect() -> None:
    owner, r1 = leased()
    owner.hold(Dispatch)
    act = r1.acting(timeout_s=5)
    slot = owner.ask(act)
    owner.wait(4.9)
    reply = owner.reply(slot)
    assert isinstance(reply, Refused)
    assert (reply.error.code, reply.effect) == (Code.PENDING, Effect.UNKNOWN)
    again = owner.ask(act)
    assert code(owner.reply(again)) is Code.PENDING, "a repeat after the late answer is answered too"
    owner.let(Dispatch)
    recorded = owner.call(r1.acting(sequence=1))
    assert isinstance(recorded, Acted)
    assert len(owner.hits) == 1


def test_silence_of_250_ms_puts_the_dispatch_time_on_record() -> None:
    owner, r1 = leased()
    owner.hold(Dispatch)
    sent_ms = owner.now_ms
    owner.ask(r1.acting())
    owner.wait(0.24)
    assert owner.written(Dispatched) == []
    owner.wait(5)
    [dispatched] = owner.written(Dispatched)
    assert dispatched.dispatched_ms == sent_ms


@pytest.mark.parametrize("away", list(Away))
def test_act_without_an_answer_is_unknown_and_retires(away: Away) -> None:
    owner, r1 = leased()
    owner.hold(Dispatch)
    slot = owner.ask(r1.acting())
    owner.tell(DispatchDone(owner.take(Dispatch).slot, away))
    reply = owner.reply(slot)
    assert isinstance(reply, Refused)
    assert (reply.error.code, reply.effect) == (Code.OUTCOME_UNKNOWN, Effect.UNKNOWN)
    assert outcomes(owner) == [ActOutcome.UNKNOWN]
    assert owner.ledger.lease is not None
    assert owner.ledger.lease.reason == "retired"
    assert (owner.ledger.lease.generation is not None) is (away is Away.SILENT)


def test_s12_cancel_of_an_act_under_way_lets_it_settle_and_retires() -> None:
    owner, r1 = leased()
    owner.hold(Dispatch)
    act = r1.acting()
    slot = owner.ask(act)
    r1.cancel(act.id)
    owner.let(Dispatch)
    assert isinstance(owner.reply(slot), Acted)
    assert len(owner.hits) == 1
    assert owner.ledger.lease is not None
    assert owner.ledger.lease.reason == "retired"


def test_s12_cancel_before_the_intent_uses_the_number_up() -> None:
    owner, r1 = leased()
    owner.hold(Aim)
    act = r1.acting()
    slot = owner.ask(act)
    r1.cancel(act.id)
    owner.let(Aim)
    reply = owner.reply(slot)
    assert code(reply) is Code.NOT_SENT
    assert reply is not None
    assert reply.lease is not None
    assert reply.lease.next_sequence == 2
    assert len(owner.written(Skipped)) == 1
    assert owner.hits == []
    assert isinstance(r1.act(sequence=2), Acted)


def test_cancel_of_a_read_ends_it() -> None:
    owner, r1 = leased()
    owner.hold(Visit)
    read = r1.navigating()
    slot = owner.ask(read)
    r1.cancel(read.id)
    assert code(owner.reply(slot)) is Code.NAVIGATION_CANCELLED


@pytest.mark.parametrize("away", list(Away))
def test_read_without_an_answer_keeps_the_lease(away: Away) -> None:
    owner, r1 = leased()
    owner.hold(Visit)
    slot = owner.ask(r1.observing())
    owner.tell(ReadDone(owner.take(Visit).slot, away))
    assert code(owner.reply(slot)) in (Code.BROWSER_GONE, Code.OP_TIMEOUT)
    assert owner.ledger.lease is not None
    assert owner.ledger.lease.phase == "live"


def test_audit_of_a_read_keeps_no_query() -> None:
    owner, r1 = leased()
    r1.observe()
    assert owner.written(Read)[0].url == "https://shop.test/pay"


def test_l28_call_that_would_outlive_the_expiry_renews_first() -> None:
    owner, r1 = leased(horizon_s=60)
    owner.wait(45)
    r1.act(timeout_s=30)
    assert [LeaseRenewed] == [type(record) for record in owner.written(LeaseRenewed)]
    assert r1.left_s == 900
    assert len(owner.hits) == 1


def test_l28_call_that_would_outlive_the_cap_is_refused_before_dispatch() -> None:
    owner = Owner()
    owner.set_run("r1", deadline_s=120)
    r1 = Worker(owner, "r1")
    r1.granted()
    owner.wait(80)
    assert code(r1.act(timeout_s=30)) is Code.LEASE_CLOSING
    assert owner.ordered(Aim) == []
    assert isinstance(r1.act(timeout_s=20), Acted)


def test_keepers_deadline_gates_the_dispatch() -> None:
    owner = Owner(keeper_ms=10_000)
    owner.set_run("r1")
    r1 = Worker(owner, "r1")
    r1.granted()
    owner.hold(Aim)
    slot = owner.ask(r1.acting())
    owner.wait(10)
    owner.let(Aim)
    assert code(owner.reply(slot)) is Code.BROWSER_GONE
    assert code(r1.observe()) is Code.BROWSER_GONE
    assert owner.written(Intent) == []


def test_reply_without_a_page_is_applied_all_the_same() -> None:
    owner, r1 = leased()
    owner.hold(Dispatch)
    slot = owner.ask(r1.acting())
    owner.tell(DispatchDone(owner.take(Dispatch).slot, Sent(owner.now_ms, None)))
    reply = owner.reply(slot)
    assert isinstance(reply, Acted)
    assert reply.page is None


def test_s17_commit_carries_its_key_into_the_intent() -> None:
    owner, r1 = leased()
    r1.act(step="pay")
    [intent] = owner.written(Intent)
    assert (intent.task, intent.step) == ("t1", "pay")
    assert intent.request_key is not None


def test_intent_names_what_was_done_without_its_value() -> None:
    owner, r1 = leased()
    act = r1.acting()
    assert isinstance(act.action, Click)
    owner.call(act)
    [intent] = owner.written(Intent)
    assert (intent.do, intent.target, intent.run, intent.claim) == ("click", TARGET.described, "r1", 1)


def test_late_completion_of_a_finished_operation_changes_nothing() -> None:
    owner, r1 = leased()
    owner.hold(Dispatch)
    act: Act = r1.acting()
    slot = owner.ask(act)
    order = owner.take(Dispatch)
    owner.tell(DispatchDone(order.slot, Sent(owner.now_ms, PAGE)))
    before = len(owner.entries)
    owner.tell(DispatchDone(order.slot, Away.SILENT))
    assert len(owner.entries) == before
    assert isinstance(owner.reply(slot), Acted)
