"""Waiting is polling: places, positions, first come first served (contract 2)."""

import msgspec

from lessor.errors import Code
from lessor.lease.verdict import ReadRuns, SealState
from lessor.limits import Limits
from lessor.messages.reply import Granted, Refused, Reply
from lessor.messages.run import RunStatus
from tests.support.rules import Owner, Worker, code


def held(*waiting: str, limits: Limits | None = None) -> tuple[Owner, Worker]:
    owner = Owner(limits=limits or Limits())
    for run in ("r1", *waiting):
        owner.set_run(run)
    holder = Worker(owner, "r1")
    holder.granted()
    return owner, holder


def position(reply: Reply | None) -> int | None:
    assert isinstance(reply, Refused)
    return reply.error.position


def test_l39_positions_are_told_in_order_of_arrival() -> None:
    owner, _ = held("r2", "r3", "r4")
    told = [position(Worker(owner, run).acquire()) for run in ("r2", "r3", "r4", "r2")]
    assert told == [1, 2, 3, 1]


def test_l39_first_come_first_served_among_those_who_still_poll() -> None:
    owner, holder = held("r2", "r3", "r4")
    workers = [Worker(owner, run) for run in ("r2", "r3", "r4")]
    slots = [worker.poll(wait_s=5) for worker in workers]
    owner.wait(5)
    assert [code(owner.reply(slot)) for slot in slots] == [Code.PROFILE_BUSY] * 3
    again = [worker.poll(wait_s=5) for worker in workers[1:]]
    owner.wait(4)
    holder.close()
    assert [owner.reply(slot) for slot in again] == [None, None], "the place of r2 is kept for 10 s"
    owner.wait(1)
    again = [worker.poll(wait_s=5) for worker in workers[1:]]
    owner.wait(5)
    replies = [owner.reply(slot) for slot in again]
    assert isinstance(replies[0], Granted)
    assert code(replies[1]) is Code.PROFILE_BUSY


def test_place_is_kept_10_s_after_the_last_poll() -> None:
    owner, _ = held("r2", "r3")
    Worker(owner, "r2").acquire()
    owner.wait(9)
    assert position(Worker(owner, "r3").acquire()) == 2
    owner.wait(1.1)
    assert position(Worker(owner, "r3").acquire()) == 1


def test_poll_is_answered_by_its_wait() -> None:
    owner, _ = held("r2")
    slot = Worker(owner, "r2").poll(wait_s=3)
    owner.wait(2.9)
    assert owner.reply(slot) is None
    owner.wait(0.1)
    assert code(owner.reply(slot)) is Code.PROFILE_BUSY


def test_newer_poll_of_a_run_answers_its_older_one() -> None:
    owner, holder = held("r2")
    older, newer = Worker(owner, "r2").poll(), Worker(owner, "r2").poll()
    assert code(owner.reply(older)) is Code.PROFILE_BUSY
    holder.close()
    assert isinstance(owner.reply(newer), Granted)


def test_queue_is_bounded() -> None:
    owner, _ = held("r2", "r3", "r4", limits=msgspec.structs.replace(Limits(), queue_max=2))
    told = [code(Worker(owner, run).acquire()) for run in ("r2", "r3", "r4")]
    assert told == [Code.PROFILE_BUSY, Code.PROFILE_BUSY, Code.OVERLOADED]


def test_l40_acquire_during_a_seal_waits_for_the_new_generation() -> None:
    owner, holder = held("r2")
    owner.hold(SealState)
    owner.ask(holder.closing())
    slot = Worker(owner, "r2").poll()
    assert owner.reply(slot) is None
    owner.let(SealState)
    granted = owner.reply(slot)
    assert isinstance(granted, Granted)
    assert granted.generation == 1


def test_run_that_ended_while_it_waited_stands_in_nobodys_way() -> None:
    owner, holder = held("r2", "r3")
    gone, next_ = Worker(owner, "r2").poll(), Worker(owner, "r3").poll()
    owner.set_run("r2", RunStatus.CANCELLED)
    owner.hold(ReadRuns)
    holder.close()
    first = owner.take(ReadRuns)
    owner.let(ReadRuns)
    owner.tell(owner.read_runs(first))
    assert code(owner.reply(gone)) is Code.RUN_ENDED
    assert isinstance(owner.reply(next_), Granted)


def test_place_that_lapses_on_a_free_profile_wakes_the_next() -> None:
    owner, holder = held("r2", "r3")
    Worker(owner, "r2").acquire()
    owner.wait(8)
    slot = Worker(owner, "r3").poll(wait_s=5)
    holder.close()
    assert owner.reply(slot) is None
    owner.wait(2)
    assert isinstance(owner.reply(slot), Granted)


def test_poll_in_hand_is_answered_however_late_the_store_was() -> None:
    owner, holder = held("r2", "r3")
    slot = Worker(owner, "r2").poll(wait_s=0.1)
    owner.append_ms = 20_000
    holder.act()
    Worker(owner, "r3").acquire()
    owner.wait(0)
    assert code(owner.reply(slot)) is Code.PROFILE_BUSY


def test_poll_that_waits_is_granted_with_the_later_one_of_its_run_that_starts() -> None:
    owner, holder = held("r2", "r3")
    Worker(owner, "r3").acquire()
    owner.wait(9)
    waiting = Worker(owner, "r2").poll(wait_s=5)
    holder.close()
    assert owner.reply(waiting) is None, "the place of r3 is kept"
    owner.hold(ReadRuns)
    later = Worker(owner, "r2").poll(wait_s=5)
    owner.now_ms += 1000
    owner.let(ReadRuns)
    assert isinstance(owner.reply(later), Granted)
    assert owner.reply(waiting) == owner.reply(later)
