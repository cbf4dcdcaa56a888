"""Acts that need a yes, and acts granted in advance (contract 16, 20; L29, L31)."""

import msgspec
import pytest

from lessor.errors import Code, Problem
from lessor.findings import Target
from lessor.lease.verdict import Aim, Aimed, GrantRead, ReadGrant
from lessor.messages.record import Intent, LeaseClosed, LeaseClosing
from lessor.messages.reply import Acted, Refused, Reply
from lessor.messages.request import (
    Act,
    ApproveRun,
    CreateProfile,
    GrantRun,
    RejectRun,
    ReportRun,
    TakeRun,
)
from lessor.messages.run import Approval, ApprovalState, Constraint, RunRecord, RunStatus
from tests.support.rules import MINUTE_MS, TARGET, UNIX_MS, Owner, Worker, code

SHOP = "https://shop.test"


def leased(*approve: str, horizon_s: float = 900) -> tuple[Owner, Worker]:
    owner = Owner()
    owner.call(CreateProfile(id=owner.id(), origins=(SHOP,), approve=approve))
    owner.set_run("r1")
    worker = Worker(owner, "r1")
    worker.granted(horizon_s=horizon_s)
    return owner, worker


def record(owner: Owner, run: str = "r1") -> RunRecord:
    return owner.runs[run][1]


def answer(owner: Owner, kind: type[ApproveRun | RejectRun], approval: str | None = None) -> RunRecord | Problem:
    return owner.decide_run("r1", kind(id=owner.id(), approval=approval))


def resume(owner: Owner) -> None:
    owner.decide_run("r1", ReportRun(id=owner.id(), claim=record(owner).claim, status=RunStatus.RUNNING))


def ticks(owner: Owner, *, until_minute: int) -> None:
    """The host's sweeps, a minute apart."""
    while owner.now_ms + MINUTE_MS <= owner.began_ms + until_minute * MINUTE_MS:
        owner.wait(60)
        owner.sweep("r1")


def told(reply: Reply) -> Problem:
    assert isinstance(reply, Refused), reply
    return reply.error


def test_act_of_a_kind_that_needs_a_yes_parks_the_run_and_sends_nothing() -> None:
    owner, r1 = leased("click")
    asked = told(r1.act())
    [approval] = record(owner).approvals
    assert (asked.code, asked.approval) == (Code.APPROVAL_REQUIRED, approval.id)
    assert record(owner).status is RunStatus.PARKED
    assert (approval.lease, approval.sequence, approval.target_fingerprint) == (r1.lease, 1, TARGET.fingerprint)
    assert approval.until_unix_ms == approval.asked_unix_ms + 60 * MINUTE_MS
    assert (owner.hits, owner.written(Intent)) == ([], [])


def test_other_kinds_need_none() -> None:
    owner, r1 = leased("type")
    assert isinstance(r1.act(), Acted)
    assert owner.ordered(ReadGrant) == []


def test_commit_is_a_kind_of_its_own() -> None:
    owner, r1 = leased("commit")
    assert isinstance(r1.act(), Acted)
    assert code(r1.act(step="pay")) is Code.APPROVAL_REQUIRED
    answer(owner, ApproveRun)
    assert isinstance(r1.act(step="pay"), Acted)


def test_policy_with_an_unknown_kind_is_refused() -> None:
    owner = Owner()
    assert code(owner.call(CreateProfile(id="c", origins=(SHOP,), approve=("clik",)))) is Code.INVALID_REQUEST


def test_l31_approved_after_20_min_same_page_and_reference_applied_once() -> None:
    owner, r1 = leased("click")
    act = r1.acting()
    assert code(owner.call(act)) is Code.APPROVAL_REQUIRED
    ticks(owner, until_minute=20)
    answer(owner, ApproveRun)
    assert record(owner).status is RunStatus.QUEUED
    ticks(owner, until_minute=22)
    resume(owner)
    again = again_after(owner, act)
    assert isinstance(owner.call(again), Acted)
    assert isinstance(owner.call(again_after(owner, act)), Acted)
    assert len(owner.hits) == 1
    assert owner.written(LeaseClosing) == []
    [intent] = owner.written(Intent)
    assert intent.approval == record(owner).approvals[0].id


def again_after(owner: Owner, act: Act) -> Act:
    return msgspec.structs.replace(act, id=owner.id(), deadline_ms=owner.now_ms + 20_000)


def test_l31_answer_after_61_min_meets_a_fresh_page_and_sends_nothing() -> None:
    owner, r1 = leased("click")
    act = r1.acting()
    owner.call(act)
    ticks(owner, until_minute=61)
    late = answer(owner, ApproveRun)
    assert isinstance(late, Problem)
    assert late.code is Code.DEADLINE_PASSED
    [closed] = owner.written(LeaseClosed)
    assert (closed.reason, closed.receipt) == ("cap", "sealed")
    resume(owner)
    first = r1.lease
    r1.granted()
    assert r1.lease != first
    owner.hold(Aim)
    slot = owner.ask(r1.acting())
    gone = Problem(code=Code.PAGE_CHANGED, message="Another document.")
    owner.tell(Aimed(owner.take(Aim).slot, gone))
    assert code(owner.reply(slot)) is Code.PAGE_CHANGED
    assert owner.hits == []


def test_rejected_means_that_nothing_was_sent() -> None:
    owner, r1 = leased("click")
    act = r1.acting()
    owner.call(act)
    rejected = answer(owner, RejectRun)
    assert isinstance(rejected, RunRecord)
    resume(owner)
    for _ in range(2):
        assert code(owner.call(again_after(owner, act))) is Code.APPROVAL_REJECTED
    assert (owner.hits, owner.written(Intent)) == ([], [])
    assert code(r1.act(ref="e2")) is Code.APPROVAL_REQUIRED, "another act is another question"


def test_approval_counts_for_nothing_but_what_was_asked() -> None:
    owner, r1 = leased("click")
    act = r1.acting(ref="e1")
    owner.call(act)
    answer(owner, ApproveRun)
    assert code(owner.call(r1.acting(ref="e2"))) is Code.APPROVAL_REQUIRED
    owner.hold(Aim)
    slot = owner.ask(again_after(owner, act))
    owner.tell(Aimed(owner.take(Aim).slot, Target("button Pay", "0" * 16, changed=False, token=None)))
    assert code(owner.reply(slot)) is Code.PAGE_CHANGED
    owner.let(Aim)
    assert isinstance(owner.call(again_after(owner, act)), Acted)
    assert code(r1.act(sequence=2, ref="e1")) is Code.APPROVAL_REQUIRED, "the same click again is another act"


def test_s18_approved_act_replayed_after_it_finished_is_answered_from_the_record() -> None:
    owner, r1 = leased("click")
    act = r1.acting()
    owner.call(act)
    answer(owner, ApproveRun)
    first, second = (owner.call(again_after(owner, act)) for _ in range(2))
    assert isinstance(first, Acted)
    assert isinstance(second, Acted)
    assert (first.recorded, second.recorded, len(owner.hits)) == (False, True, 1)


def test_s18_approved_act_replayed_while_uncertain_is_refused() -> None:
    owner, r1 = leased("click")
    act = r1.acting(step="pay")
    owner.call(act)
    answer(owner, ApproveRun)
    owner.hold(Aim)
    owner.ask(again_after(owner, act))
    owner.let(Aim)
    owner.crash()
    assert len(owner.hits) == 1
    assert isinstance(owner.call(again_after(owner, act)), Reply)
    assert len(owner.hits) == 1


def test_approval_survives_a_takeover_and_serves_the_successor() -> None:
    owner, r1 = leased("click")
    act = r1.acting()
    owner.call(act)
    answer(owner, ApproveRun)
    taken = TakeRun(id=owner.id(), holder="b", worker="worker-b")
    owner.decide_run("r1", taken)
    successor = Worker(owner, "r1", claim=2, name="worker-b")
    successor.granted()
    assert isinstance(successor.act(), Acted)
    assert len(owner.hits) == 1


def test_fenced_workers_act_asks_nobody() -> None:
    owner, r1 = leased("click")
    owner.set_run("r1", claim=2)
    assert code(r1.act()) is Code.LEASE_FENCED
    assert record(owner).approvals == ()


def test_unreadable_record_sends_nothing_and_keeps_the_number() -> None:
    owner, r1 = leased("click")
    owner.hold(ReadGrant)
    slot = owner.ask(r1.acting())
    away = Problem(code=Code.BROKER_UNAVAILABLE, message="Away.")
    owner.tell(GrantRead(owner.take(ReadGrant).slot, away))
    assert code(owner.reply(slot)) is Code.BROKER_UNAVAILABLE
    assert r1.next == 1


def test_asked_again_while_it_waits_the_question_stands() -> None:
    owner, r1 = leased("click")
    first, second = told(r1.act()), told(r1.act())
    assert first.approval == second.approval
    assert len(record(owner).approvals) == 1


def test_answers_are_final_and_may_be_repeated() -> None:
    owner, r1 = leased("click")
    r1.act()
    name = record(owner).approvals[0].id
    assert isinstance(answer(owner, ApproveRun, name), RunRecord)
    assert isinstance(answer(owner, ApproveRun, name), RunRecord)
    other = answer(owner, RejectRun, name)
    assert isinstance(other, Problem)
    assert other.code is Code.INVALID_REQUEST


# -- granted in advance


def constraint(
    owner: Owner, *, origins: tuple[str, ...] = (SHOP,), kind: str = "click", left_s: int = 60
) -> Constraint:
    return Constraint(origins=origins, kinds=(kind,), expires_unix_ms=owner.now().unix_ms + left_s * 1000)


def granted(owner: Owner, given: Constraint, *, withdraw: bool = False) -> None:
    written = owner.decide_run("r1", GrantRun(id=owner.id(), constraint=given, withdraw=withdraw))
    assert isinstance(written, RunRecord)


def under(r1: Worker, given: Constraint) -> Reply:
    return r1.owner.call(msgspec.structs.replace(r1.acting(), constraint=given))


def test_act_granted_in_advance_needs_no_approval() -> None:
    owner, r1 = leased("click")
    given = constraint(owner)
    granted(owner, given)
    assert isinstance(under(r1, given), Acted)
    assert record(owner).approvals == ()


def test_grant_that_nobody_gave_does_not_apply() -> None:
    owner, r1 = leased("click")
    assert code(under(r1, constraint(owner))) is Code.GRANT_NOT_APPLICABLE
    assert owner.hits == []


def test_grant_is_checked_at_each_dispatch() -> None:
    owner, r1 = leased("click")
    given = constraint(owner)
    granted(owner, given)
    assert isinstance(under(r1, given), Acted)
    granted(owner, given, withdraw=True)
    r1.renew()
    assert code(under(r1, given)) is Code.GRANT_NOT_APPLICABLE


@pytest.mark.parametrize("origins", [("https://other.test",), ("http://shop.test",), ("https://shop.test:8443",)])
def test_grant_covers_its_origins_only(origins: tuple[str, ...]) -> None:
    owner, r1 = leased("click")
    given = constraint(owner, origins=origins)
    granted(owner, given)
    assert code(under(r1, given)) is Code.GRANT_NOT_APPLICABLE


def test_grant_covers_its_kinds_only() -> None:
    owner, r1 = leased("click")
    given = constraint(owner, kind="type")
    granted(owner, given)
    assert code(under(r1, given)) is Code.GRANT_NOT_APPLICABLE


def test_grant_ends() -> None:
    owner, r1 = leased("click")
    given = constraint(owner, left_s=60)
    granted(owner, given)
    owner.wait(60)
    assert code(under(r1, given)) is Code.GRANT_NOT_APPLICABLE


def test_f09_wall_clock_that_is_put_back_does_not_prolong_a_grant() -> None:
    owner, r1 = leased("click")
    given = constraint(owner, left_s=60)
    granted(owner, given)
    assert isinstance(under(r1, given), Acted)
    owner.unix_ms = UNIX_MS - 3_600_000
    owner.wait(61)
    r1.renew()
    assert code(under(r1, given)) is Code.GRANT_NOT_APPLICABLE


# -- which runs need the page


def own(state: ApprovalState) -> Approval:
    return Approval(id="a1", question="?", state=state, asked_unix_ms=0, until_unix_ms=1)


@pytest.mark.parametrize("status", RunStatus)
@pytest.mark.parametrize("state", [None, *ApprovalState])
def test_l29_only_running_queued_and_parked_on_an_own_approval_keep_the_page(
    status: RunStatus, state: ApprovalState | None
) -> None:
    owner, _ = leased()
    owner.set_run("r1", status)
    approvals = () if state is None else (own(state),)
    owner.write_run("r1", msgspec.structs.replace(record(owner), approvals=approvals))
    owner.wait(0.01)
    owner.sweep("r1")
    keeps = status in (RunStatus.RUNNING, RunStatus.QUEUED) or (status, state) == ("parked", "pending")
    assert [closed.receipt for closed in owner.written(LeaseClosed)] == ([] if keeps else ["sealed"])
    owner.set_run("r2")
    r2 = Worker(owner, "r2")
    assert isinstance(r2.acquire(), Refused) is keeps


def test_l29_a_childs_approval_does_not_keep_the_parents_page() -> None:
    owner, _ = leased()
    owner.set_run("child", RunStatus.PARKED)
    owner.set_run("r1", RunStatus.WAITING_CHILD)
    owner.wait(0.01)
    owner.sweep("r1")
    assert [closed.receipt for closed in owner.written(LeaseClosed)] == ["sealed"]


def test_park_without_a_question_asks_one() -> None:
    owner, _ = leased()
    owner.decide_run("r1", ReportRun(id="park", claim=1, status=RunStatus.PARKED))
    assert record(owner).needs_page
    answer(owner, ApproveRun, "park")
    assert record(owner).status is RunStatus.QUEUED
