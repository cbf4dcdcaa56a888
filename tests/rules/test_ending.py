"""How a lease ends: close, seal, cap, expiry, revoke, sweep (contract 13, 16, 21-26)."""

import pytest

from lessor.errors import Code, problem
from lessor.findings import Away
from lessor.lease.verdict import (
    BrowserGone,
    Dispatch,
    DispatchDone,
    KillBrowser,
    Killed,
    Look,
    Looked,
    RunSeen,
    SealFailed,
    SealState,
    StartBrowser,
    Visit,
)
from lessor.messages.record import Evidence, LeaseClosed, LeaseClosing, Outcome, SealCommitted
from lessor.messages.reply import ActOutcome, Closed, Granted, Receipt, Refused, Reply
from lessor.messages.request import CreateProfile
from lessor.messages.run import RunStatus
from tests.support.rules import PAGE, Owner, Worker, code, revoke

STORE_AWAY = problem(Code.BROKER_UNAVAILABLE, "The store is away.")


def leased(*, horizon_s: float = 900, deadline_s: float = 6 * 3600) -> tuple[Owner, Worker]:
    owner = Owner()
    owner.set_run("r1", deadline_s=deadline_s)
    worker = Worker(owner, "r1")
    worker.granted(horizon_s=horizon_s)
    return owner, worker


def receipt(reply: Reply | None) -> Receipt:
    assert isinstance(reply, Closed), reply
    return reply.receipt


def closings(owner: Owner) -> list[tuple[str, bool]]:
    return [(closing.reason, closing.seal) for closing in owner.written(LeaseClosing)]


def test_close_answers_once_the_generation_is_on_disk_and_stays_exclusive_until_the_browser_is_gone() -> None:
    owner, r1 = leased()
    owner.hold(SealState, KillBrowser)
    slot = owner.ask(r1.closing())
    assert [SealState] == [type(effect) for effect in owner.pending]
    owner.go_well(owner.take(SealState))
    assert [KillBrowser] == [type(effect) for effect in owner.pending]
    assert len(owner.written(SealCommitted)) == 1
    assert receipt(owner.reply(slot)) == Receipt(kind="sealed", reason="ended", generation=1)
    assert owner.written(LeaseClosed) == []
    owner.let(KillBrowser)
    assert len(owner.written(LeaseClosed)) == 1


def test_l36_second_release_gets_the_same_receipt_and_a_strangers_closes_nothing() -> None:
    owner, r1 = leased()
    owner.set_run("r2")
    assert receipt(r1.close()) == receipt(r1.close())
    r2 = Worker(owner, "r2")
    r2.granted()
    assert receipt(r1.close()).generation == 1
    assert isinstance(r2.act(), Reply)
    assert len(owner.written(LeaseClosed)) == 1


def test_l26_close_repeated_while_closing_joins() -> None:
    owner, r1 = leased()
    owner.hold(SealState)
    slots = [owner.ask(r1.closing()) for _ in range(2)]
    owner.let(SealState)
    assert receipt(owner.reply(slots[0])) == receipt(owner.reply(slots[1]))
    assert len(owner.written(LeaseClosing)) == 1


def test_close_that_cannot_wait_hears_closing_and_asks_again() -> None:
    owner, r1 = leased()
    owner.hold(SealState)
    slot = owner.ask(r1.closing(timeout_s=5))
    owner.wait(5)
    assert code(owner.reply(slot)) is Code.CLOSING
    owner.let(SealState)
    assert receipt(r1.close()).kind == "sealed"


def test_close_delivered_after_its_deadline_closes_nothing() -> None:
    owner, r1 = leased()
    ghost = r1.closing(timeout_s=5)
    owner.wait(6)
    assert code(owner.call(ghost)) is Code.DEADLINE_PASSED
    assert closings(owner) == []


def test_close_with_discard_seals_nothing() -> None:
    owner, r1 = leased()
    assert receipt(r1.close(discard=True)) == Receipt(kind="discarded", reason="ended")
    assert owner.ordered(SealState) == []


def test_close_stops_admission_and_cancels_the_read() -> None:
    owner, r1 = leased()
    owner.hold(Visit, SealState)
    read, waiting = owner.ask(r1.observing()), owner.ask(r1.observing())
    owner.ask(r1.closing())
    assert code(owner.reply(read)) is Code.LEASE_CLOSING
    assert code(owner.reply(waiting)) is Code.LEASE_CLOSING
    assert code(r1.act()) is Code.LEASE_CLOSING
    assert code(r1.renew()) is Code.LEASE_CLOSING


def test_close_waits_for_the_act_under_way() -> None:
    owner, r1 = leased()
    owner.hold(Dispatch)
    act, slot = owner.ask(r1.acting()), owner.ask(r1.closing())
    assert owner.ordered(SealState) == []
    owner.let(Dispatch)
    assert owner.reply(act) is not None
    assert receipt(owner.reply(slot)).kind == "sealed"


def test_l13_renewed_to_the_cap_then_closed_in_time() -> None:
    owner, r1 = leased(horizon_s=900)
    left: list[float] = []
    for minute in (10, 20, 30, 40, 50, 55):
        owner.at(minute)
        assert not isinstance(r1.renew(7200), Refused)
        left.append(minute + r1.left_s / 60)
    assert left == [25, 35, 45, 55, 60, 60]
    owner.at(59, 44.9)
    assert closings(owner) == []
    owner.at(59, 45)
    assert closings(owner) == [("cap", True)]
    assert owner.written(LeaseClosed)[0].receipt == "sealed"


def test_l42_closed_and_sealed_before_the_runs_deadline() -> None:
    owner, _ = leased(horizon_s=900, deadline_s=600)
    owner.at(9, 44.9)
    assert closings(owner) == []
    owner.at(9, 45)
    assert closings(owner) == [("cap", True)]
    owner.set_run("r2")
    granted = Worker(owner, "r2").acquire()
    assert isinstance(granted, Granted)
    assert granted.generation == 1


def test_l18_l21_expiry_closes_the_browser_and_seals_nothing() -> None:
    owner, r1 = leased(horizon_s=60)
    owner.at(1)
    assert closings(owner) == [("expired", False)]
    assert owner.written(LeaseClosed)[0].receipt == "discarded"
    assert code(r1.observe()) is Code.LEASE_EXPIRED
    assert code(r1.renew()) is Code.LEASE_EXPIRED
    assert owner.ordered(SealState) == []


def test_l18_call_that_comes_before_the_sweep_is_refused_as_expired() -> None:
    owner, r1 = leased(horizon_s=60)
    owner.now_ms += 61_000
    assert code(r1.observe()) is Code.LEASE_EXPIRED
    assert code(r1.act()) is Code.LEASE_EXPIRED


def test_l20_late_close_of_an_expired_lease_seals_nothing() -> None:
    owner, r1 = leased(horizon_s=60)
    owner.now_ms += 61_000
    assert receipt(r1.close()) == Receipt(kind="discarded", reason="expired")
    owner.set_run("r2")
    granted = Worker(owner, "r2").acquire()
    assert isinstance(granted, Granted)
    assert granted.generation == 0


def test_l41_failed_seal_is_reported_stays_exclusive_and_is_retried() -> None:
    owner, r1 = leased()
    owner.set_run("r2")
    owner.hold(SealState)
    slot = owner.ask(r1.closing())
    owner.take(SealState)
    owner.tell(SealFailed(STORE_AWAY))
    assert code(owner.reply(slot)) is Code.SEAL_FAILED
    waiting = Worker(owner, "r2").poll()
    assert owner.reply(waiting) is None
    again = owner.ask(r1.closing())
    assert owner.reply(again) is None, "no success without a generation"
    owner.let(SealState)
    owner.wait(1)
    assert receipt(owner.reply(again)) == Receipt(kind="sealed", reason="ended", generation=1)
    granted = owner.reply(waiting)
    assert isinstance(granted, Granted)
    assert granted.generation == 1


def test_l41_seal_that_keeps_failing_is_given_up_after_60_s() -> None:
    owner, r1 = leased()
    owner.hold(SealState)
    owner.ask(r1.closing())
    began_ms = owner.now_ms
    while not owner.written(LeaseClosed):
        if owner.pending:
            owner.take(SealState)
            owner.tell(SealFailed(STORE_AWAY))
        owner.wait(0.5)
    [closed] = owner.written(LeaseClosed)
    assert (closed.receipt, closed.generation) == ("seal_failed", None)
    assert closed.gone_ms is not None
    assert closed.gone_ms - began_ms <= 60_000
    assert receipt(r1.close()).kind == "seal_failed"


def test_p13_seal_that_comes_too_late_is_not_committed() -> None:
    owner, r1 = leased()
    owner.hold(SealState)
    owner.ask(r1.closing())
    owner.wait(61)
    owner.let(SealState)
    assert owner.written(SealCommitted) == []
    assert owner.written(LeaseClosed)[0].receipt == "seal_failed"


def test_closing_lease_does_not_expire() -> None:
    owner, r1 = leased(horizon_s=60)
    owner.at(0, 55)
    owner.hold(SealState)
    slot = owner.ask(r1.closing(timeout_s=60))
    owner.at(1, 30)
    owner.let(SealState)
    assert receipt(owner.reply(slot)).kind == "sealed"


def test_retired_lease_keeps_one_look_as_evidence_then_seals_and_kills() -> None:
    owner, r1 = leased()
    owner.hold(Dispatch, Look, SealState, KillBrowser)
    owner.ask(r1.acting())
    owner.tell(DispatchDone(owner.take(Dispatch).slot, Away.SILENT))
    assert [Look] == [type(effect) for effect in owner.pending]
    owner.take(Look)
    owner.tell(Looked(PAGE))
    [evidence] = owner.written(Evidence)
    assert evidence.url == "https://shop.test/pay"
    owner.go_well(owner.take(SealState))
    assert code(r1.act(sequence=2)) is Code.LEASE_CLOSED
    owner.let(KillBrowser)
    assert owner.written(LeaseClosed)[0].reason == "retired"


def test_retired_lease_that_expired_meanwhile_seals_nothing() -> None:
    owner, r1 = leased(horizon_s=60)
    owner.wait(50)
    owner.hold(Dispatch)
    owner.ask(r1.acting(timeout_s=9))
    owner.wait(11)
    owner.tell(DispatchDone(owner.take(Dispatch).slot, Away.SILENT))
    assert closings(owner) == [("retired", False)]


def test_browser_that_dies_loses_the_lease_unsealed() -> None:
    owner, r1 = leased()
    owner.browser_gone()
    assert closings(owner) == [("lost", False)]
    assert code(r1.observe()) is Code.LEASE_LOST


def test_browser_that_dies_under_an_act_waits_for_its_word() -> None:
    owner, r1 = leased()
    owner.hold(Dispatch)
    owner.ask(r1.acting())
    owner.browser_gone()
    assert closings(owner) == []
    owner.tell(DispatchDone(owner.take(Dispatch).slot, Away.GONE))
    assert closings(owner) == [("retired", False)]


def test_death_of_an_earlier_browser_means_nothing() -> None:
    owner, r1 = leased()
    earlier = owner.ordered(StartBrowser)[0].instance
    r1.close()
    r1.granted()
    owner.tell(BrowserGone(earlier))
    assert isinstance(r1.act(), Reply)
    assert len(closings(owner)) == 1


def test_l33_sweep_of_an_ended_run_seals_and_closes_once() -> None:
    for status in (RunStatus.FINISHED, RunStatus.FAILED, RunStatus.CANCELLED):
        owner, r1 = leased()
        owner.set_run("r1", status)
        owner.wait(60)
        owner.sweep("r1")
        owner.sweep("r1")
        assert closings(owner) == [("ended", True)]
        assert owner.written(LeaseClosing)[0].run_revision == owner.runs["r1"][0]
        assert receipt(r1.close()).kind == "sealed"


def test_l32_parent_that_waits_for_a_child_is_sealed() -> None:
    owner, _ = leased()
    owner.set_run("r1", RunStatus.WAITING_CHILD)
    owner.wait(1)
    owner.sweep("r1")
    assert closings(owner) == [("ended", True)]


def test_l46_close_that_rests_on_a_reading_before_the_last_call_is_dropped() -> None:
    owner, r1 = leased()
    owner.set_run("r1", RunStatus.WAITING_CHILD)
    owner.wait(0.1)
    reading = owner.reading("r1")
    owner.set_run("r1", RunStatus.RUNNING)
    owner.wait(0.1)
    r1.act()
    owner.tell(RunSeen(reading))
    assert closings(owner) == []


def test_l46_close_that_rests_on_a_reading_before_a_takeover_is_dropped() -> None:
    owner, _ = leased()
    owner.set_run("r1", RunStatus.WAITING_USER)
    owner.wait(0.1)
    reading = owner.reading("r1")
    owner.set_run("r1", RunStatus.RUNNING, claim=2)
    owner.wait(0.1)
    Worker(owner, "r1", claim=2).granted()
    owner.tell(RunSeen(reading))
    assert closings(owner) == []


def test_reading_older_than_1_s_closes_nothing() -> None:
    owner, _ = leased()
    owner.set_run("r1", RunStatus.FINISHED)
    reading = owner.reading("r1")
    owner.wait(1.1)
    owner.tell(RunSeen(reading))
    assert closings(owner) == []


def test_sweep_of_an_expired_lease_of_an_ended_run_seals_nothing() -> None:
    owner, _ = leased(horizon_s=60)
    owner.set_run("r1", RunStatus.FINISHED)
    owner.now_ms += 61_000
    owner.sweep("r1")
    assert closings(owner) == [("expired", False)]


@pytest.mark.parametrize("waits", [False, True])
def test_revoke_ends_the_lease_unsealed_and_waits_for_no_operation(waits: bool) -> None:
    owner, r1 = leased()
    owner.hold(Dispatch)
    slot = owner.ask(r1.acting()) if waits else 0
    revoke(owner)
    assert closings(owner) == [("revoked", False)]
    assert len(owner.ordered(KillBrowser)) == 1
    assert owner.written(LeaseClosed)[0].receipt == "discarded"
    assert code(r1.observe()) is Code.LEASE_REVOKED
    assert code(r1.acquire()) is Code.PROFILE_REVOKED
    if waits:
        owner.tell(DispatchDone(owner.take(Dispatch).slot, Away.GONE))
        assert code(owner.reply(slot)) is Code.OUTCOME_UNKNOWN
        assert [outcome.outcome for outcome in owner.written(Outcome)] == [ActOutcome.UNKNOWN]


def test_revoke_then_crash_settles_the_act_it_did_not_wait_for() -> None:
    owner, r1 = leased()
    owner.hold(Dispatch)
    owner.ask(r1.acting())
    revoke(owner)
    owner.crash(page=False)
    assert [outcome.outcome for outcome in owner.written(Outcome)] == [ActOutcome.UNKNOWN]


def test_unconfirmed_kill_is_tried_again() -> None:
    owner, r1 = leased()
    owner.hold(KillBrowser)
    slot = owner.ask(r1.closing())
    for _ in range(3):
        owner.tell(Killed(None, owner.take(KillBrowser).instance))
        assert owner.written(LeaseClosed) == []
        owner.wait(0.5)
    owner.let(KillBrowser)
    assert receipt(owner.reply(slot)).kind == "sealed"


def test_idle_profile_is_given_back_after_30_s() -> None:
    owner, r1 = leased()
    r1.close()
    owner.wait(29.9)
    assert not owner.released
    owner.wait(0.2)
    assert owner.released


def test_p14_generations_chain() -> None:
    owner, r1 = leased()
    r1.close()
    r1.granted()
    r1.close()
    sealed = owner.written(SealCommitted)
    assert [(seal.base, seal.generation) for seal in sealed] == [(0, 1), (1, 2)]
    assert len({seal.object for seal in sealed}) == 2


def test_each_generation_remembers_the_origins_it_was_sealed_with() -> None:
    owner, r1 = leased()
    r1.close()
    changed = CreateProfile(id=owner.id(), origins=("https://shop.test", "https://pay.test"))
    assert not isinstance(owner.call(changed), Refused)
    Worker(owner, "r1").granted()
    assert [sealed.origins for sealed in owner.ledger.generations] == [("https://shop.test",)]
