"""From a free profile to a grant: failed, slow, overtaken and dropped starts (contract 2, 5)."""

from lessor.errors import Code, problem
from lessor.lease.verdict import BrowserGone, KillBrowser, Killed, ReadRuns, StartBrowser, Started, StartFailed
from lessor.messages.record import LeaseClosed
from lessor.messages.reply import Granted
from tests.support.rules import Owner, Worker, code, revoke


def up(owner: Owner, order: StartBrowser) -> Started:
    return Started(order.instance, "target", owner.ledger.generation, owner.now_ms + owner.keeper_ms)


def test_the_end_of_a_dropped_start_closes_no_lease() -> None:
    owner = Owner()
    owner.set_run("r1")
    r1 = Worker(owner, "r1")
    owner.hold(StartBrowser, KillBrowser)
    r1.poll()
    owner.wait(5)
    owner.tell(up(owner, owner.take(StartBrowser)))
    owner.wait(10)
    dropped = owner.take(KillBrowser)
    owner.let(StartBrowser)
    r1.granted()
    owner.tell(Killed(owner.now_ms, dropped.instance))
    assert owner.written(LeaseClosed) == []
    r1.observe()
    owner.ask(r1.closing())
    owner.tell(Killed(owner.now_ms, dropped.instance))
    assert owner.written(LeaseClosed) == [], "another browser's end confirms nothing"


def test_l09_failed_start_leaves_no_lease() -> None:
    owner = Owner()
    owner.set_run("r1")
    r1 = Worker(owner, "r1")
    owner.hold(StartBrowser)
    slot = r1.poll()
    broken = problem(Code.ENDPOINT_UNREACHABLE, "The browser did not start.")
    owner.tell(StartFailed(owner.take(StartBrowser).instance, broken))
    assert code(owner.reply(slot)) is Code.ENDPOINT_UNREACHABLE
    assert owner.ledger.lease is None
    owner.let(StartBrowser)
    assert r1.granted().next_sequence == 1


def test_l10_revoke_during_a_start_wins() -> None:
    owner = Owner()
    owner.set_run("r1")
    owner.hold(StartBrowser)
    slot = Worker(owner, "r1").poll()
    revoke(owner)
    assert code(owner.reply(slot)) is Code.PROFILE_REVOKED
    owner.tell(up(owner, owner.take(StartBrowser)))
    assert len(owner.ordered(KillBrowser)) == 1
    assert owner.ledger.lease is None


def test_l10_revoke_while_a_started_browser_waits_for_its_poll() -> None:
    owner = Owner()
    owner.set_run("r1")
    r1 = Worker(owner, "r1")
    owner.hold(StartBrowser)
    r1.poll()
    owner.wait(5)
    owner.tell(up(owner, owner.take(StartBrowser)))
    revoke(owner)
    assert len(owner.ordered(KillBrowser)) == 1
    assert code(r1.acquire()) is Code.PROFILE_REVOKED


def test_concurrent_acquires_of_one_scope_join_one_start() -> None:
    owner = Owner()
    owner.set_run("r1")
    r1 = Worker(owner, "r1")
    owner.hold(StartBrowser)
    slots = [r1.poll() for _ in range(3)]
    assert len(owner.ordered(StartBrowser)) == 1
    owner.tell(up(owner, owner.take(StartBrowser)))
    replies = [owner.reply(slot) for slot in slots]
    assert all(isinstance(reply, Granted) for reply in replies)
    assert len({str(reply) for reply in replies}) == 1


def test_start_that_outlasts_its_poll_is_granted_to_the_next_one() -> None:
    owner = Owner()
    owner.set_run("r1")
    r1 = Worker(owner, "r1")
    owner.hold(StartBrowser)
    slot = r1.poll(budget_s=1)
    owner.wait(1)
    assert code(owner.reply(slot)) is Code.STARTING
    owner.tell(up(owner, owner.take(StartBrowser)))
    assert owner.ledger.lease is None, "a grant is only the answer to a poll in hand"
    owner.wait(9)
    assert r1.granted().expires_in_s == 600
    assert len(owner.ordered(StartBrowser)) == 1


def test_browser_nobody_polls_for_is_dropped_after_10_s() -> None:
    owner = Owner()
    owner.set_run("r1")
    owner.hold(StartBrowser)
    Worker(owner, "r1").poll(budget_s=1)
    owner.wait(1)
    owner.tell(up(owner, owner.take(StartBrowser)))
    owner.wait(9.9)
    assert owner.ordered(KillBrowser) == []
    owner.wait(0.2)
    assert len(owner.ordered(KillBrowser)) == 1


def test_browser_that_dies_before_its_grant_answers_its_polls() -> None:
    owner = Owner()
    owner.set_run("r1")
    r1 = Worker(owner, "r1")
    owner.hold(StartBrowser)
    first, second = r1.poll(), r1.poll()
    owner.hold(ReadRuns)
    started = up(owner, owner.take(StartBrowser))
    owner.tell(started)
    owner.tell(BrowserGone(started.instance))
    assert code(owner.reply(first)) is Code.BROWSER_GONE
    owner.let(StartBrowser)
    owner.let(ReadRuns)
    assert isinstance(owner.reply(second), Granted), "the poll that was being decided starts anew"


def test_poll_refused_at_its_grant_leaves_the_browser_to_the_next_in_hand() -> None:
    owner = Owner()
    owner.set_run("r1")
    owner.hold(StartBrowser)
    waiting = Worker(owner, "r1").poll()
    owner.wait(0.5)
    late = Worker(owner, "r1").poll(budget_s=0.5)
    owner.hold(ReadRuns)
    owner.tell(up(owner, owner.take(StartBrowser)))
    owner.wait(0.6)
    owner.let(ReadRuns)
    assert code(owner.reply(late)) is Code.DEADLINE_PASSED
    assert isinstance(owner.reply(waiting), Granted)


def test_l45_lower_claim_read_earlier_does_not_take_a_start_back() -> None:
    owner = Owner()
    owner.set_run("r1")
    owner.hold(StartBrowser, ReadRuns)
    old = Worker(owner, "r1", claim=1).poll()
    delayed = owner.read_runs(owner.take(ReadRuns))
    owner.set_run("r1", claim=2)
    new = Worker(owner, "r1", claim=2).poll()
    owner.let(ReadRuns)
    owner.tell(delayed)
    assert code(owner.reply(old)) is Code.RUN_FENCED
    owner.let(StartBrowser)
    granted = owner.reply(new)
    assert isinstance(granted, Granted)
    assert granted.lease is not None
    assert granted.lease.claim == 2
