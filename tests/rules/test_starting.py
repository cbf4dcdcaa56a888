"""From a free profile to a grant: failed, slow, overtaken and dropped starts (contract 2, 5)."""

from lessor.errors import Code, problem
from lessor.lease.alarm import alarm_ms
from lessor.lease.verdict import KillBrowser, Killed, ReadRuns, StartBrowser, Started, StartFailed
from lessor.messages.record import LeaseClosed
from lessor.messages.reply import Granted
from tests.support.rules import Owner, Worker, code


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
    assert [] == owner.written(LeaseClosed)
    r1.observe()
    owner.ask(r1.closing())
    owner.tell(Killed(owner.now_ms, dropped.instance))
    assert [] == owner.written(LeaseClosed), "another browser's end confirms nothing"
