"""Who gets the profile: grant, reattach, takeover, replacement (contract 1-6)."""

from datetime import UTC, datetime, timedelta

import pytest

from lessor.errors import Code, problem
from lessor.lease.verdict import KillBrowser, Killed, ReadRuns, RunsRead, StartBrowser, StartFailed
from lessor.messages.ids import Caller
from lessor.messages.record import Attached, LeaseClosed, LeaseClosing, LeaseGranted
from lessor.messages.reply import Granted, Refused
from lessor.messages.request import Acquire
from lessor.messages.run import RunStatus
from tests.support.rules import MINUTE_MS, UNIX_MS, Owner, Worker, code, revoke


def owner_of(*runs: str) -> Owner:
    owner = Owner()
    for run in runs:
        owner.set_run(run)
    return owner


def test_l01_acquire_grants_a_free_profile() -> None:
    owner = owner_of("r1")
    lease = Worker(owner, "r1").granted(horizon_s=600)
    assert (lease.next_sequence, lease.expires_in_s, lease.claim) == (1, 600, 1)
    assert "r1" not in lease.lease
    assert len(owner.ordered(StartBrowser)) == 1


def test_l02_horizon_is_cut_to_15_min() -> None:
    assert Worker(owner_of("r1"), "r1").granted(horizon_s=7200).expires_in_s == 900


@pytest.mark.parametrize("horizon_s", [0, -1])
def test_l02_horizon_in_the_past_starts_nothing(horizon_s: float) -> None:
    owner = owner_of("r1")
    assert code(Worker(owner, "r1").acquire(horizon_s=horizon_s)) is Code.INVALID_REQUEST
    assert owner.ordered(StartBrowser) == []


def test_l03_identical_acquire_reattaches() -> None:
    owner = owner_of("r1")
    r1 = Worker(owner, "r1")
    lease = r1.granted()
    again = r1.acquire()
    assert isinstance(again, Granted)
    assert again.reattached
    assert again.lease == lease
    assert len(owner.ordered(StartBrowser)) == 1


def test_l04_lost_answer_keeps_the_original_expiry() -> None:
    owner = owner_of("r1")
    r1 = Worker(owner, "r1")
    lease = r1.granted(horizon_s=600)
    owner.wait(40)
    again = r1.granted(horizon_s=900)
    assert (again.lease, again.expires_in_s) == (lease.lease, 560)
    assert not isinstance(r1.navigate(), Refused)
    assert not isinstance(r1.close(), Refused)
    assert len(owner.ordered(StartBrowser)) == 1


def test_l05_other_run_is_busy_and_leaves_the_holder_alone() -> None:
    owner = owner_of("r1", "r2")
    r1 = Worker(owner, "r1")
    r1.granted()
    assert code(Worker(owner, "r2").acquire()) is Code.PROFILE_BUSY
    assert not isinstance(r1.act(), Refused)


@pytest.mark.parametrize("stranger", [Caller("acme", "bob"), Caller("acme", "root")])
def test_l05_other_principal_finds_nothing(stranger: Caller) -> None:
    owner = owner_of("r1")
    r1 = Worker(owner, "r1")
    r1.granted()
    assert code(owner.call(r1.acquiring(), stranger)) is Code.NOT_FOUND


def test_l05_other_engine_is_refused() -> None:
    owner = owner_of("r1")
    asked = Acquire(id="a1", run="r1", worker="w", provider="firefox")
    assert code(owner.call(asked)) is Code.UNSUPPORTED


def test_l05_lower_attempt_is_refused_and_takes_no_place() -> None:
    owner = Owner()
    owner.set_run("r1", attempt=2)
    r1 = Worker(owner, "r1", attempt=2)
    r1.granted()
    assert code(Worker(owner, "r1", attempt=1).acquire(wait_s=5)) is Code.PROFILE_BUSY
    assert owner.desk.queue == ()
    assert not isinstance(r1.act(), Refused)


def test_l05_higher_attempt_replaces_the_lower_sealed() -> None:
    owner = owner_of("r1")
    old = Worker(owner, "r1")
    lease = old.granted()
    owner.set_run("r1", attempt=2, claim=2)
    slot = Worker(owner, "r1", attempt=2, claim=2).poll()
    granted = owner.reply(slot)
    assert isinstance(granted, Granted)
    assert granted.lease is not None
    assert granted.lease.lease != lease.lease
    assert granted.generation == 1
    [closing] = owner.written(LeaseClosing)
    assert (closing.reason, closing.seal, closing.run_revision) == ("fenced", True, owner.runs["r1"][0])
    assert code(old.observe()) is Code.LEASE_FENCED


def test_l06_reattach_from_another_worker_continues_the_sequence() -> None:
    owner = owner_of("r1")
    a = Worker(owner, "r1")
    a.granted()
    a.act()
    b = Worker(owner, "r1", name="worker-b")
    assert b.granted().next_sequence == 2
    assert not isinstance(b.act(ref="e2"), Refused)
    assert len(owner.hits) == 2


def test_l07_reattach_answers_the_renewed_expiry() -> None:
    owner = owner_of("r1")
    r1 = Worker(owner, "r1")
    r1.granted(horizon_s=900)
    owner.at(10)
    r1.renew(900)
    assert r1.granted().expires_in_s == 15 * 60


def test_l08_revoked_profile_is_refused() -> None:
    owner = owner_of("r1")
    revoke(owner)
    assert code(Worker(owner, "r1").acquire()) is Code.PROFILE_REVOKED
    assert owner.ordered(StartBrowser) == []


def test_l34_holder_that_needs_the_page_is_named() -> None:
    for status in (RunStatus.RUNNING, RunStatus.QUEUED, RunStatus.PARKED):
        owner = owner_of("r1", "r2")
        Worker(owner, "r1").granted(horizon_s=600)
        owner.set_run("r1", status)
        owner.wait(1)
        busy = Worker(owner, "r2").acquire()
        assert isinstance(busy, Refused)
        assert (busy.error.code, busy.error.holder_run) == (Code.PROFILE_BUSY, "r1")
        assert busy.error.since is not None
        assert busy.error.expires_at is not None
        assert owner.written(LeaseClosing) == []


@pytest.mark.parametrize("status", [status for status in RunStatus if not status.needs_page])
def test_l29_holder_that_needs_no_page_gives_way_sealed(status: RunStatus) -> None:
    owner = owner_of("r1", "r2")
    Worker(owner, "r1").granted()
    owner.set_run("r1", status)
    owner.wait(1)
    slot = Worker(owner, "r2").poll()
    granted = owner.reply(slot)
    assert isinstance(granted, Granted)
    assert granted.generation == 1
    assert owner.written(LeaseClosing)[0].run_revision == owner.runs["r1"][0]


def test_run_whose_record_is_gone_gives_way() -> None:
    owner = owner_of("r1", "r2")
    Worker(owner, "r1").granted()
    owner.drop_run("r1")
    owner.wait(1)
    assert isinstance(owner.reply(Worker(owner, "r2").poll()), Granted)


def test_unreadable_holder_keeps_the_page() -> None:
    owner = owner_of("r1", "r2")
    Worker(owner, "r1").granted()
    owner.hold(ReadRuns)
    slot = Worker(owner, "r2").poll(wait_s=0)
    read = owner.read_runs(owner.take(ReadRuns))
    away = problem(Code.BROKER_UNAVAILABLE, "The broker did not answer.")
    owner.tell(RunsRead(read.asked, read.mine, away))
    assert code(owner.reply(slot)) is Code.PROFILE_BUSY


def test_l35_expired_holder_is_discarded_and_replaced() -> None:
    owner = owner_of("r1", "r2")
    Worker(owner, "r1").granted(horizon_s=60)
    owner.now_ms += MINUTE_MS
    slot = Worker(owner, "r2").poll()
    assert isinstance(owner.reply(slot), Granted)
    assert owner.written(LeaseClosed)[0].receipt == "discarded"
    assert owner.ledger.generation == 0


def test_l37_successor_with_a_higher_claim_continues() -> None:
    owner = owner_of("r1")
    a = Worker(owner, "r1")
    a.granted()
    a.act()
    owner.set_run("r1", claim=2)
    b = Worker(owner, "r1", claim=2, name="worker-b")
    assert b.granted().next_sequence == 2
    b.act(ref="e2")
    assert [hit.sequence for hit in owner.hits] == [1, 2]
    assert len(owner.ordered(StartBrowser)) == 1
    assert owner.written(Attached)[0].worker == "worker-b"


def test_l38_replaced_worker_is_fenced_everywhere_and_learns_nothing() -> None:
    owner = owner_of("r1")
    a = Worker(owner, "r1")
    a.granted()
    owner.set_run("r1", claim=2)
    b = Worker(owner, "r1", claim=2)
    b.granted()
    b.act()
    for reply in (a.navigate(), a.act(), a.observe(), a.renew(), a.close(), a.acquire(), a.cancel("x")):
        assert code(reply) in (Code.LEASE_FENCED, Code.RUN_FENCED), reply
        assert reply.lease is None
    assert not isinstance(b.act(ref="e2"), Refused)
    assert len(owner.hits) == 2


def test_claim_that_a_sweep_saw_fences_before_the_successor_acquires() -> None:
    owner = owner_of("r1")
    a = Worker(owner, "r1")
    a.granted()
    owner.set_run("r1", claim=2)
    owner.sweep("r1")
    for reply in (a.act(), a.observe(), a.renew(), a.close(), a.acquire()):
        assert code(reply) in (Code.LEASE_FENCED, Code.RUN_FENCED)
    assert Worker(owner, "r1", claim=2).granted().next_sequence == 1


def test_invented_higher_claim_is_refused() -> None:
    owner = owner_of("r1")
    assert code(Worker(owner, "r1", claim=7).acquire()) is Code.INVALID_REQUEST
    a = Worker(owner, "r1")
    a.granted()
    b = Worker(owner, "r1", claim=7, seen=a.seen)
    assert code(b.acquire()) is Code.INVALID_REQUEST
    assert code(b.act()) is Code.INVALID_REQUEST
    assert code(b.close()) is Code.INVALID_REQUEST


def test_l45_delayed_acquire_after_the_takeover_is_fenced() -> None:
    owner = owner_of("r1")
    a = Worker(owner, "r1")
    a.granted()
    owner.hold(ReadRuns)
    slot = a.poll()
    delayed = owner.read_runs(owner.take(ReadRuns))
    owner.let(ReadRuns)
    owner.set_run("r1", claim=2)
    b = Worker(owner, "r1", claim=2)
    b.granted()
    owner.tell(delayed)
    reply = owner.reply(slot)
    assert code(reply) is Code.RUN_FENCED
    assert reply is not None
    assert reply.lease is None
    assert not isinstance(b.act(), Refused)


def test_l45_delayed_acquire_after_the_new_ones_close_is_fenced() -> None:
    owner = owner_of("r1")
    a = Worker(owner, "r1")
    owner.hold(ReadRuns)
    slot = a.poll()
    delayed = owner.read_runs(owner.take(ReadRuns))
    owner.let(ReadRuns)
    owner.set_run("r1", claim=2)
    b = Worker(owner, "r1", claim=2)
    b.granted()
    b.close()
    owner.tell(delayed)
    assert code(owner.reply(slot)) is Code.RUN_FENCED
    assert code(a.acquire()) is Code.RUN_FENCED
    assert len(owner.written(LeaseGranted)) == 1


def test_run_without_record_begins_with_its_deadline() -> None:
    owner = Owner()
    assert code(Worker(owner, "r1").acquire()) is Code.INVALID_REQUEST
    deadline = datetime.fromtimestamp((UNIX_MS + owner.now_ms) / 1000, UTC) + timedelta(minutes=20)
    granted = owner.call(Acquire(id="a1", run="r1", worker="w", run_deadline=deadline))
    assert isinstance(granted, Granted)
    assert owner.runs["r1"][1].status is RunStatus.RUNNING
    owner.drop_run("r1")
    assert code(owner.call(Acquire(id="a2", run="r1", worker="w", run_deadline=deadline))) is Code.RUN_ENDED


def test_ended_run_is_not_granted() -> None:
    owner = Owner()
    owner.set_run("r1", RunStatus.CANCELLED)
    assert code(Worker(owner, "r1").acquire()) is Code.RUN_ENDED
    owner.set_run("r2", deadline_s=-1)
    assert code(Worker(owner, "r2").acquire()) is Code.RUN_ENDED


def test_reading_older_than_1_s_is_read_again() -> None:
    owner = owner_of("r1")
    owner.hold(ReadRuns)
    slot = Worker(owner, "r1").poll()
    stale = owner.read_runs(owner.take(ReadRuns))
    owner.wait(1.1)
    owner.tell(stale)
    assert owner.reply(slot) is None
    owner.let(ReadRuns)
    assert isinstance(owner.reply(slot), Granted)


def test_newcomers_reading_older_than_the_holders_call_closes_nothing() -> None:
    owner = owner_of("r1", "r2")
    r1 = Worker(owner, "r1")
    r1.granted()
    owner.set_run("r1", RunStatus.WAITING_CHILD)
    owner.wait(1)
    owner.hold(ReadRuns)
    slot = Worker(owner, "r2").poll(wait_s=0)
    read = owner.read_runs(owner.take(ReadRuns))
    owner.set_run("r1", RunStatus.RUNNING)
    r1.act()
    owner.tell(read)
    assert code(owner.reply(slot)) is Code.PROFILE_BUSY
    assert owner.written(LeaseClosing) == []


def test_l43_dead_workers_lease_lapses_and_the_next_run_is_granted() -> None:
    owner = owner_of("r1", "r2")
    Worker(owner, "r1").granted(horizon_s=900)
    owner.at(14, 58)
    slot = Worker(owner, "r2").poll(wait_s=5)
    owner.at(15)
    assert isinstance(owner.reply(slot), Granted)
    assert owner.ledger.generation == 0


def test_unconfirmed_kill_keeps_the_profile() -> None:
    owner = owner_of("r1", "r2")
    r1 = Worker(owner, "r1")
    r1.granted()
    owner.hold(KillBrowser)
    owner.ask(r1.closing())
    slot = Worker(owner, "r2").poll()
    owner.tell(Killed(None, owner.take(KillBrowser).instance))
    assert owner.reply(slot) is None
    assert owner.written(LeaseClosed) == []
    owner.wait(0.5)
    owner.let(KillBrowser)
    assert isinstance(owner.reply(slot), Granted)


def test_start_refused_for_capacity_says_so() -> None:
    owner = owner_of("r1")
    owner.hold(StartBrowser)
    slot = Worker(owner, "r1").poll()
    full = problem(Code.CAPACITY, "The host is full.", retry_after_s=1)
    owner.tell(StartFailed(owner.take(StartBrowser).instance, full))
    reply = owner.reply(slot)
    assert isinstance(reply, Refused)
    assert reply.error.retryable
