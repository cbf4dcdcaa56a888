"""Who gets the profile: reattach, take over, wait, replace, start (contract 1-6)."""

from dataclasses import replace

import msgspec

from lessor.errors import Code, Problem, problem
from lessor.journal import LeaseState, Ledger
from lessor.lease import chores, ending, queue, starting
from lessor.lease.admit import known
from lessor.lease.answers import lease_view, refusal
from lessor.lease.verdict import (
    Again,
    Asked,
    CancelRead,
    Desk,
    Effect,
    Now,
    ReadRuns,
    RunsRead,
    Say,
    Verdict,
)
from lessor.limits import ms
from lessor.messages.record import AnyRecord, Attached, Scope
from lessor.messages.reply import Granted
from lessor.messages.request import Acquire, Act
from lessor.messages.run import RunReading, RunRecord, RunStatus


def ask(ledger: Ledger, desk: Desk, asked: Asked, now: Now) -> Verdict:
    """An acquire arrives: what needs no run record is refused at once, else the records are read first."""
    refused = _refused_at_the_door(ledger, desk, asked, now)
    if refused is not None:
        return Verdict(desk, replies=(refusal(ledger, desk, asked, refused, now),))
    return Verdict(desk, effects=(_reading(ledger, asked),))


def _reading(ledger: Ledger, asked: Asked, create: RunRecord | None = None) -> ReadRuns:
    acquire = _acquire(asked)
    held = ledger.lease
    other = held is not None and held.phase == "live" and held.scope.run != acquire.run
    holder = held.scope.run if held is not None and other else None
    return ReadRuns(asked, acquire.run, holder, create)


def _refused_at_the_door(ledger: Ledger, desk: Desk, asked: Asked, now: Now) -> Problem | None:
    acquire = _acquire(asked)
    if desk.draining:
        return problem(Code.MOVED, "The host is stopping: ask again.", retry_after_s=0.5)
    strange = known(ledger, desk, asked.caller)
    if strange is not None:
        return strange
    assert ledger.profile is not None
    if ledger.profile.state == "revoked":
        return problem(Code.PROFILE_REVOKED, "The profile is revoked: use another one.")
    if desk.ceremony is not None and now.ms < desk.ceremony.until_ms:
        return chores.ceremony_open(desk.ceremony, now)
    if acquire.horizon_s <= 0:
        return problem(Code.INVALID_REQUEST, "The horizon lies in the past: ask for horizon_s > 0.")
    if acquire.provider != "chromium":
        return problem(Code.UNSUPPORTED, f"There is no engine {acquire.provider!r} here: use chromium.")
    if now.ms >= asked.arrived_ms + ms(acquire.budget_s):
        return problem(Code.DEADLINE_PASSED, "The caller's time was over before this was begun: ask again.")
    return None


def _acquire(asked: Asked) -> Acquire:
    assert isinstance(asked.request, Acquire)
    return asked.request


def scope_of(desk: Desk, asked: Asked) -> Scope:
    acquire = _acquire(asked)
    return Scope(
        tenant=desk.tenant,
        principal=asked.caller.principal,
        profile=desk.profile,
        provider=acquire.provider,
        run=acquire.run,
        attempt=acquire.attempt,
    )


def runs_read(ledger: Ledger, desk: Desk, event: RunsRead, now: Now) -> Verdict:
    """Decide an acquire on run records just read; stale ones are read again (contract 17)."""
    asked, mine = event.asked, event.mine
    refused = _refused_at_the_door(ledger, desk, asked, now)
    if refused is None and isinstance(mine, Problem):
        refused = mine
    if refused is not None:
        return _turn_away(ledger, desk, asked, refused, now)
    assert isinstance(mine, RunReading)
    if _stale(ledger, desk, event, mine, now):
        return Verdict(desk, effects=(_reading(ledger, asked),))
    held = ledger.lease if ledger.lease is not None and ledger.lease.phase != "closed" else None
    if held is not None and held.phase == "live" and _lower_attempt(held, asked):
        # It has ended and will never be granted: it takes no place.
        busy = queue.where(ledger, desk, _acquire(asked), now)
        return Verdict(desk, replies=(refusal(ledger, desk, asked, busy, now),))
    if mine.record is None:
        return _create_run(ledger, desk, asked, now)
    refused = _run_refuses(mine.record, asked, now) or _overtaken(ledger, desk, asked)
    if refused is not None:
        return _turn_away(ledger, desk, asked, refused, now)
    return _grantable(ledger, desk, event, held, mine.record, now)


def _turn_away(ledger: Ledger, desk: Desk, asked: Asked, refused: Problem, now: Now) -> Verdict:
    """Refuse on what was read; a browser that is up, or the place of a run that has ended, goes to the next poll."""
    again: tuple[Again, ...] = ()
    if refused.code is Code.RUN_ENDED:
        desk, again = queue.give_up(ledger, desk, _acquire(asked))
    desk, reads = starting.ready(desk)
    return Verdict(desk, replies=(refusal(ledger, desk, asked, refused, now),), effects=(*reads, *again))


def _stale(ledger: Ledger, desk: Desk, event: RunsRead, mine: RunReading, now: Now) -> bool:
    oldest_ms = now.ms - ms(desk.limits.reading_s_max)
    if mine.read_ms < oldest_ms:
        return True
    held = ledger.lease
    if held is None or held.phase != "live" or held.scope.run == _acquire(event.asked).run:
        return False
    if not isinstance(event.holder, RunReading):
        return event.holder is None
    return event.holder.run != held.scope.run or event.holder.read_ms < oldest_ms


def _lower_attempt(held: LeaseState, asked: Asked) -> bool:
    acquire = _acquire(asked)
    return held.scope.run == acquire.run and acquire.attempt < held.scope.attempt


def _create_run(ledger: Ledger, desk: Desk, asked: Asked, now: Now) -> Verdict:
    """A run without a record becomes `running` by its first acquire; later it means the run has ended (16)."""
    acquire = _acquire(asked)
    seen_before = any(lease.scope.run == acquire.run for lease in ledger.leases.values())
    refused: Problem | None = None
    if seen_before:
        refused = problem(Code.RUN_ENDED, f"The run {acquire.run!r} has no record any more: it has ended.")
    elif acquire.run_deadline is None:
        refused = problem(
            Code.INVALID_REQUEST,
            f"The run {acquire.run!r} has no record yet: name its run_deadline, or take the run first.",
        )
    elif acquire.claim != 1:
        refused = problem(Code.INVALID_REQUEST, "A run without a record is acquired with claim 1.")
    if refused is not None:
        return Verdict(desk, replies=(refusal(ledger, desk, asked, refused, now),))
    assert acquire.run_deadline is not None
    record = RunRecord(
        principal=asked.caller.principal,
        status=RunStatus.RUNNING,
        attempt=acquire.attempt,
        deadline_unix_ms=round(acquire.run_deadline.timestamp() * 1000),
        claim=1,
        worker=acquire.worker,
    )
    return Verdict(desk, effects=(_reading(ledger, asked, create=record),))


def _run_refuses(record: RunRecord, asked: Asked, now: Now) -> Problem | None:
    acquire = _acquire(asked)
    if record.principal != asked.caller.principal:
        return problem(Code.NOT_FOUND, f"There is no run {acquire.run!r} for you.")
    if record.status.ended or record.deadline_unix_ms <= now.unix_ms:
        return problem(Code.RUN_ENDED, f"The run {acquire.run!r} has ended ({record.status}).")
    if acquire.claim < record.claim or acquire.attempt < record.attempt:
        return problem(Code.RUN_FENCED, "Another worker has taken this run over: stop working on it.")
    if acquire.claim > record.claim or acquire.attempt > record.attempt:
        return problem(Code.INVALID_REQUEST, "The run record names a lower claim or attempt: take the run first.")
    return None


def _overtaken(ledger: Ledger, desk: Desk, asked: Asked) -> Problem | None:
    """The reading may be older than the last takeover: a lower claim is fenced, however late it arrives (1)."""
    acquire, last = _acquire(asked), ledger.lease
    if last is None or last.scope.run != acquire.run or acquire.claim >= max(last.claim, desk.claim_seen):
        return None
    return problem(Code.RUN_FENCED, "Another worker has taken this run over: stop working on it.")


def _grantable(
    ledger: Ledger, desk: Desk, event: RunsRead, held: LeaseState | None, record: RunRecord, now: Now
) -> Verdict:
    asked = event.asked
    if held is None and desk.chore is not None:
        return queue.wait(ledger, desk, asked, now)
    if held is None:
        return starting.ask(ledger, desk, asked, record, event.mine, now)
    if held.phase == "closing":
        return queue.wait(ledger, desk, asked, now)
    if now.ms >= held.expires_ms:
        waiting = queue.wait(ledger, desk, asked, now)
        return _ending(ledger, waiting, "expired", False, now, None)
    if held.scope == scope_of(desk, asked):
        return _attach(ledger, desk, asked, held, event.mine, now)
    return _newcomer(ledger, desk, event, held, now)


def _attach(
    ledger: Ledger, desk: Desk, asked: Asked, held: LeaseState, mine: RunReading | Problem, now: Now
) -> Verdict:
    """Same scope: same lease, its current expiry, its next sequence, the same page (contract 1)."""
    acquire = _acquire(asked)
    assert isinstance(mine, RunReading)
    if desk.browser != "live":
        lost = problem(Code.LEASE_LOST, "The page was lost: acquire again, from the last sealed state.")
        return Verdict(desk, replies=(refusal(ledger, desk, asked, lost, now),))
    view = lease_view(ledger, desk, now)
    assert view is not None
    records: tuple[AnyRecord, ...] = ()
    effects: tuple[Effect, ...] = ()
    if acquire.claim > held.claim:
        view = msgspec.structs.replace(view, claim=acquire.claim)
        records = (Attached(lease=held.id, claim=acquire.claim, worker=acquire.worker, run_revision=mine.revision),)
        current = desk.operation
        if current is not None and not isinstance(current.op, Act):
            effects = (CancelRead(),)
    reply = Granted(lease=view, reattached=True, generation=held.base)
    return Verdict(replace(desk, last_call_ms=now.ms), records, (Say(asked.slot, reply),), effects)


def _newcomer(ledger: Ledger, desk: Desk, event: RunsRead, held: LeaseState, now: Now) -> Verdict:
    """Another scope: only an ended or waiting holder, or a higher attempt of the same run, gives way (3)."""
    asked = event.asked
    acquire = _acquire(asked)
    if held.scope.run == acquire.run:
        if acquire.attempt <= held.scope.attempt:
            return queue.busy(ledger, desk, asked, now)
        assert isinstance(event.mine, RunReading)
        reason, revision = "fenced", event.mine.revision
    else:
        holder = event.holder
        if not isinstance(holder, RunReading) or not _gives_way(desk, held, holder):
            return queue.busy(ledger, desk, asked, now)
        reason, revision = "ended", holder.revision
    waiting = queue.wait(ledger, desk, asked, now)
    return _ending(ledger, waiting, reason, True, now, revision)


def _gives_way(desk: Desk, held: LeaseState, holder: RunReading) -> bool:
    record = holder.record
    if holder.read_ms <= desk.last_call_ms:
        return False
    if record is None or not record.needs_page:
        return True
    return record.attempt > held.scope.attempt


def _ending(ledger: Ledger, waiting: Verdict, reason: str, seal: bool, now: Now, revision: int | None) -> Verdict:
    closing = ending.begin(ledger, waiting.desk, reason, seal, now, revision)
    return replace(closing, replies=(*waiting.replies, *closing.replies))
