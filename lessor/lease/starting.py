"""From a free profile to a grant: one browser start per scope, granted only to a poll in hand (contract 2, 5)."""

from dataclasses import replace

from lessor.errors import Code, Problem, problem
from lessor.journal import Ledger
from lessor.lease import queue
from lessor.lease.answers import lease_view, refusal, refuse
from lessor.lease.verdict import (
    Again,
    Asked,
    Desk,
    GrantLanded,
    KillBrowser,
    Now,
    ReadRuns,
    Say,
    Start,
    StartBrowser,
    Started,
    StartFailed,
    Verdict,
)
from lessor.limits import ms
from lessor.messages.record import LeaseGranted, Scope
from lessor.messages.reply import Granted
from lessor.messages.request import Acquire
from lessor.messages.run import RunReading, RunRecord

ANSWER_MARGIN_MS = 200


def ask(ledger: Ledger, desk: Desk, asked: Asked, record: RunRecord, mine: RunReading | Problem, now: Now) -> Verdict:
    """No lease: join the start under way, wait behind others, or start."""
    acquire = asked.request
    assert isinstance(acquire, Acquire)
    assert isinstance(mine, RunReading)
    start = desk.start
    if start is not None:
        if not _joins(start, asked):
            return queue.wait(ledger, desk, asked, now)
        return _join(ledger, desk, start, asked, mine, now)
    if not queue.first(desk, acquire, now):
        return queue.wait(ledger, desk, asked, now)
    desk, along = queue.leave(queue.forget(desk, now), acquire)
    begun = Start(
        acquire=acquire,
        caller=asked.caller,
        instance=now.fresh,
        deadline_unix_ms=record.deadline_unix_ms,
        waiters=(*along, asked),
    )
    assert ledger.profile is not None
    order = StartBrowser(
        instance=now.fresh,
        principal=ledger.profile.principal,
        provider=acquire.provider,
        deadline_ms=now.ms + ms(desk.limits.start_s),
    )
    return Verdict(replace(desk, start=begun), effects=(order,))


def _joins(start: Start, asked: Asked) -> bool:
    ours, theirs = start.acquire, asked.request
    assert isinstance(theirs, Acquire)
    same = (ours.run, ours.attempt, ours.provider) == (theirs.run, theirs.attempt, theirs.provider)
    return same and start.caller == asked.caller


def _join(ledger: Ledger, desk: Desk, start: Start, asked: Asked, mine: RunReading, now: Now) -> Verdict:
    """The claim may have risen since the start began: the newest acquire of the scope is granted."""
    acquire = asked.request
    assert isinstance(acquire, Acquire)
    if acquire.claim < start.acquire.claim:
        fenced = problem(Code.RUN_FENCED, "Another worker has taken this run over: stop working on it.")
        return refuse(ledger, desk, asked, fenced, now)
    newer = replace(
        start,
        acquire=acquire,
        waiters=(*start.waiters, asked),
    )
    desk = replace(desk, start=newer)
    if newer.started is None:
        return Verdict(desk)
    return _grant(desk, newer, newer.started, mine, now)


def _answer_by_ms(desk: Desk, asked: Asked) -> int:
    """How long this poll is in hand: its budget, at most the bound of a start, less the way back."""
    patience_s = min(asked.request.budget_s, desk.limits.start_s)
    return asked.arrived_ms + ms(patience_s) - ANSWER_MARGIN_MS


def started(ledger: Ledger, desk: Desk, event: Started, now: Now) -> Verdict:
    """The browser is up: grant to a poll in hand, on a run record read just now; else hold it for 10 s."""
    start = desk.start
    if start is None or start.instance != event.instance:
        return Verdict(desk, effects=(KillBrowser(event.instance),))
    up = replace(start, started=event, hold_until_ms=now.ms + ms(desk.limits.hold_s))
    desk = replace(desk, start=up, browser="live", keeper_until_ms=event.keeper_until_ms)
    if desk.draining:
        return drop(ledger, desk, problem(Code.MOVED, "The host is stopping: ask again.", retry_after_s=0.5), now)
    desk, reads = ready(desk)
    return Verdict(desk, effects=reads)


def ready(desk: Desk) -> tuple[Desk, tuple[ReadRuns, ...]]:
    """A browser that is up goes to the newest poll in hand, on a run record read now.

    While it is read the poll is the reading's: nobody else answers it.
    """
    start = desk.start
    if start is None or start.started is None or not start.waiters:
        return desk, ()
    newest = start.waiters[-1]
    return replace(desk, start=replace(start, waiters=start.waiters[:-1])), (ReadRuns(newest, start.acquire.run, None),)


def failed(ledger: Ledger, desk: Desk, event: StartFailed, now: Now) -> Verdict:
    """A failed start leaves no lease; those who waited behind it are decided again (contract 5)."""
    start = desk.start
    if start is None or start.instance != event.instance:
        return Verdict(desk)
    replies = tuple(refusal(ledger, desk, asked, event.problem, now) for asked in start.waiters)
    desk, again = queue.wake(_without_start(desk, now))
    return Verdict(desk, replies=replies, effects=again)


def _without_start(desk: Desk, now: Now) -> Desk:
    return replace(desk, start=None, browser="none", keeper_until_ms=0, idle_since_ms=now.ms)


def _grant(desk: Desk, start: Start, up: Started, mine: RunReading, now: Now) -> Verdict:
    acquire = start.acquire
    deadline_ms = now.ms + start.deadline_unix_ms - now.unix_ms
    cap_ms = min(now.ms + ms(desk.limits.life_s_max), deadline_ms)
    horizon_ms = ms(min(acquire.horizon_s, desk.limits.horizon_s_max))
    granted = LeaseGranted(
        lease=now.fresh,
        scope=Scope(
            tenant=desk.tenant,
            principal=start.caller.principal,
            profile=desk.profile,
            provider=acquire.provider,
            run=acquire.run,
            attempt=acquire.attempt,
        ),
        claim=acquire.claim,
        worker=acquire.worker,
        granted_ms=now.ms,
        expires_ms=min(now.ms + horizon_ms, cap_ms),
        cap_ms=cap_ms,
        base=up.generation,
        instance=up.instance,
        target=up.target,
        run_revision=mine.revision,
        deadline_unix_ms=start.deadline_unix_ms,
    )
    return Verdict(desk, records=(granted,), effects=(Again(GrantLanded()),))


def grant_landed(ledger: Ledger, desk: Desk, now: Now) -> Verdict:
    """The grant is on disk: answer everyone who joined the start."""
    start, held = desk.start, ledger.lease
    assert start is not None
    assert held is not None
    lease = lease_view(ledger, desk, now)
    replies: list[Say] = []
    for asked in start.waiters:
        assert isinstance(asked.request, Acquire)
        if asked.request.claim == held.claim:
            replies.append(Say(asked.slot, Granted(lease=lease, generation=held.base)))
        else:
            fenced = problem(Code.RUN_FENCED, "Another worker has taken this run over: stop working on it.")
            replies.append(refusal(ledger, desk, asked, fenced, now))
    desk = replace(desk, start=None, last_call_ms=now.ms)
    return Verdict(desk, replies=tuple(replies))


def moments(desk: Desk, start: Start) -> list[int]:
    """When a start needs the clock: for its polls, or, once it is up, for nobody having polled."""
    if start.waiters:
        return [_answer_by_ms(desk, asked) for asked in start.waiters]
    return [start.hold_until_ms] if start.started is not None else []


def due(ledger: Ledger, desk: Desk, now: Now) -> Verdict:
    """Polls whose patience is over hear `starting`; a browser nobody polled for is dropped (contract 2)."""
    start = desk.start
    assert start is not None
    late = tuple(asked for asked in start.waiters if now.ms >= _answer_by_ms(desk, asked))
    if late:
        wait = problem(Code.STARTING, "The browser is still starting: ask again.", retry_after_s=0.1)
        replies = tuple(refusal(ledger, desk, asked, wait, now) for asked in late)
        waiters = tuple(asked for asked in start.waiters if asked not in late)
        return Verdict(replace(desk, start=replace(start, waiters=waiters)), replies=replies)
    if start.started is not None and not start.waiters and now.ms >= start.hold_until_ms:
        return drop(ledger, desk, problem(Code.STARTING, "Nobody asked in time."), now)
    return Verdict(desk)


def drop(ledger: Ledger, desk: Desk, why: Problem, now: Now) -> Verdict:
    """Forget a start, tell its polls why, and end its browser."""
    start = desk.start
    assert start is not None
    replies = tuple(refusal(ledger, desk, asked, why, now) for asked in start.waiters)
    kill = (KillBrowser(start.instance),) if start.started is not None else ()
    desk, again = queue.wake(_without_start(desk, now))
    return Verdict(desk, replies=replies, effects=(*kill, *again))
