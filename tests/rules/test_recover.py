"""A new activation: open intents become UNKNOWN, the lease goes on, ends or is lost (contract 13, 15; S01-S04)."""

import pytest

from lessor.errors import Code
from lessor.lease.verdict import Aim, Dispatch, KillBrowser, Killed, SealState
from lessor.messages.record import Activated, Intent, LeaseClosed, LeaseClosing, Outcome
from lessor.messages.reply import Acted, ActOutcome, Closed, Granted, OutcomeTold
from tests.support.rules import Owner, Worker, code


def leased() -> tuple[Owner, Worker]:
    owner = Owner()
    owner.set_run("r1")
    worker = Worker(owner, "r1")
    worker.granted()
    return owner, worker


def test_l24_restart_keeps_page_lease_and_sequence() -> None:
    owner, r1 = leased()
    r1.act()
    lease = r1.lease
    owner.crash()
    again = r1.granted()
    assert (again.lease, again.next_sequence) == (lease, 2)
    assert again.route != "route.1"
    assert isinstance(r1.act(ref="e2"), Acted)
    assert len(owner.written(Activated)) == 2


def test_l24_page_gone_says_lease_lost_then_grants_afresh() -> None:
    owner, r1 = leased()
    owner.crash(page=False)
    assert code(r1.observe()) is Code.LEASE_LOST
    lost = r1.lease
    assert r1.granted().lease != lost
    assert owner.ledger.generation == 0


def test_s01_crash_before_the_intent_leaves_no_trace() -> None:
    owner, r1 = leased()
    owner.hold(Aim)
    owner.ask(r1.acting(step="pay"))
    owner.crash()
    owner.let(Aim)
    assert owner.written(Intent) == []
    assert isinstance(r1.act(step="pay"), Acted)


@pytest.mark.parametrize("page", [True, False])
def test_s02_crash_after_the_intent_is_unknown_and_retires(page: bool) -> None:
    owner, r1 = leased()
    owner.hold(Dispatch)
    owner.ask(r1.acting(step="pay"))
    owner.crash(page=page)
    told = r1.outcome(1)
    assert isinstance(told, OutcomeTold)
    assert told.outcome is ActOutcome.UNKNOWN
    assert owner.written(LeaseClosed)[0].reason == "retired"
    assert owner.ledger.generation == (1 if page else 0)
    owner.let(Dispatch)
    r1.granted()
    assert code(r1.act(step="pay")) is Code.ACTION_NOT_ALLOWED


def test_s03_worker_dies_the_successor_reads_the_outcome_on_the_same_page() -> None:
    owner, a = leased()
    owner.hold(Dispatch)
    owner.ask(a.acting(step="pay"))
    owner.set_run("r1", claim=2)
    b = Worker(owner, "r1", claim=2)
    assert b.granted().next_sequence == 2
    question = owner.ask(b.asking(1))
    owner.let(Dispatch)
    told = owner.reply(question)
    assert isinstance(told, OutcomeTold)
    assert told.outcome is ActOutcome.APPLIED
    assert len(owner.hits) == 1


def test_s04_answered_but_unrecorded_is_unknown() -> None:
    owner, r1 = leased()
    owner.hold(Dispatch)
    owner.ask(r1.acting(step="pay"))
    owner.hit(owner.take(Dispatch))
    owner.crash()
    assert [outcome.outcome for outcome in owner.written(Outcome)] == [ActOutcome.UNKNOWN]
    reply = r1.reconcile("pay", "succeeded")
    assert not isinstance(reply, OutcomeTold)
    assert len(owner.hits) == 1


def test_expired_while_the_host_was_away() -> None:
    owner, _ = leased()
    owner.now_ms += 11 * 60_000
    owner.crash()
    assert (owner.written(LeaseClosing)[0].reason, owner.ledger.generation) == ("expired", 0)


def test_closing_lease_goes_on_to_its_seal_and_receipt() -> None:
    owner, r1 = leased()
    owner.hold(SealState)
    owner.ask(r1.closing())
    owner.crash()
    owner.let(SealState)
    reply = r1.close()
    assert isinstance(reply, Closed)
    assert (reply.receipt.kind, reply.receipt.generation) == ("sealed", 1)


def test_sealed_lease_whose_host_died_before_the_kill_keeps_its_generation() -> None:
    owner, r1 = leased()
    owner.hold(KillBrowser)
    owner.ask(r1.closing())
    owner.crash(page=False)
    reply = r1.close()
    assert isinstance(reply, Closed)
    assert (reply.receipt.kind, reply.receipt.generation) == ("sealed", 1)


def test_closing_lease_whose_page_is_gone_says_seal_failed() -> None:
    owner, r1 = leased()
    owner.hold(SealState)
    owner.ask(r1.closing())
    owner.crash(page=False)
    reply = r1.close()
    assert isinstance(reply, Closed)
    assert (reply.receipt.kind, reply.receipt.generation) == ("seal_failed", None)


def test_lease_ends_with_its_machines_boot() -> None:
    owner, r1 = leased()
    owner.crash(boot="boot-2")
    assert code(r1.observe()) is Code.LEASE_LOST


def test_second_crash_before_anything_was_settled_again_changes_nothing() -> None:
    owner, r1 = leased()
    owner.hold(Dispatch, SealState)
    owner.ask(r1.acting())
    owner.crash()
    owner.crash()
    assert len(owner.written(Outcome)) == 1
    assert [closing.reason for closing in owner.written(LeaseClosing)] == ["retired"]
    owner.let(SealState)
    assert isinstance(r1.acquire(), Granted)


def test_a_page_that_nobody_can_confirm_gone_keeps_its_profile_exclusive_until_its_deadline() -> None:
    """Contract 13: nobody gets the profile while an earlier browser of it may still act."""
    owner, r1 = leased()
    owner.hold(KillBrowser)
    owner.crash(page=False, gone=False)
    owner.set_run("r2")
    r2 = Worker(owner, "r2")
    assert code(r2.acquire()) is Code.CLOSING
    assert code(r1.observe()) is Code.LEASE_LOST
    owner.take(KillBrowser)
    owner.tell(Killed(None, owner.ledger.lease.instance if owner.ledger.lease else None))
    assert owner.written(LeaseClosed) == []
    owner.wait(owner.keeper_ms / 1000 + 3)
    owner.take(KillBrowser)
    owner.tell(Killed(None, owner.ledger.lease.instance if owner.ledger.lease else None))
    assert [closed.gone_ms for closed in owner.written(LeaseClosed)] == [None]
