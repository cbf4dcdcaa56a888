"""The next moment at which something falls due by itself, and what falls due."""

from dataclasses import replace

from lessor.errors import Code, problem
from lessor.journal import Ledger
from lessor.lease import acting, chores, ending, lane, queue, starting
from lessor.lease.answers import refusal
from lessor.lease.turn import next_turn
from lessor.lease.verdict import Asked, Desk, Now, Operation, Release, Say, Verdict
from lessor.limits import ms
from lessor.messages.request import Act, AskOutcome, Close, PageRequest

ANSWER_MARGIN_MS = 100
"""An answer at a deadline leaves a little earlier, so that it is there in time."""


def alarm_ms(ledger: Ledger, desk: Desk) -> int | None:
    """When to wake the owner, on the boot clock; None: nothing is due by itself."""
    moments: list[int] = []
    held = ledger.lease
    if held is not None and held.phase == "live" and desk.ending is None and desk.operation is None:
        moments += [held.expires_ms, held.cap_ms - ms(desk.limits.closing_s)]
    if desk.operation is not None:
        moments += _operation_moments(desk.operation)
    if desk.start is not None:
        moments += starting.moments(desk, desk.start)
    moments += [place.answer_by_ms if place.asked else place.kept_until_ms for place in desk.queue]
    moments += [_late_ms(asked) for asked in (*desk.closers, *desk.questions, *desk.lane)]
    if desk.retry_ms is not None:
        moments.append(desk.retry_ms)
    if (ceremony_ms := chores.moment_ms(desk)) is not None:
        moments.append(ceremony_ms)
    if idle(ledger, desk):
        moments.append(_idle_until_ms(desk))
    return min(moments, default=None)


def _operation_moments(current: Operation) -> list[int]:
    moments: list[int] = []
    if current.phase == "dispatching":
        assert current.dispatched_ms is not None
        if not current.dispatch_recorded:
            moments.append(current.dispatched_ms + acting.SILENCE_RECORDED_MS)
        if not current.answered:
            moments.append(current.until_ms - ANSWER_MARGIN_MS)
    return moments


def _late_ms(asked: Asked) -> int:
    """When a waiting close, question or call is answered with where things stand."""
    request = asked.request
    if isinstance(request, PageRequest):
        return request.deadline_ms - ANSWER_MARGIN_MS
    return asked.arrived_ms + ms(request.budget_s) - ANSWER_MARGIN_MS


def idle(ledger: Ledger, desk: Desk) -> bool:
    """No lease, no start, nobody waiting: the profile may be given back."""
    free = ledger.lease is None or ledger.lease.phase == "closed"
    waited_for = bool(desk.queue) and not desk.draining
    worked_on = desk.start is not None or desk.chore is not None or desk.ceremony is not None
    return free and not worked_on and not waited_for and desk.ending is None and not desk.passive


def _idle_until_ms(desk: Desk) -> int:
    return desk.idle_since_ms + (0 if desk.draining else ms(desk.limits.idle_s))


def ring(ledger: Ledger, desk: Desk, now: Now) -> Verdict:
    """Do one thing that is due; what is due besides is found by the next alarm, at once."""
    current = desk.operation
    if current is not None and isinstance(current.op, Act) and current.phase == "dispatching":
        verdict = _overdue(ledger, desk, current, now)
        if verdict is not None:
            return verdict
    if desk.operation is None and (over := ending.over(ledger, desk, now)) is not None:
        return over
    if desk.retry_ms is not None and now.ms >= desk.retry_ms:
        return ending.retry(ledger, desk, now)
    ceremony_ms = chores.moment_ms(desk)
    if ceremony_ms is not None and now.ms >= ceremony_ms:
        return chores.expire(desk, now)
    late = _late(ledger, desk, now)
    if late is not None:
        return late
    if desk.start is not None:
        begun = starting.due(ledger, desk, now)
        if begun != Verdict(desk):
            return next_turn(begun)
    if any((place.answer_by_ms if place.asked else place.kept_until_ms) <= now.ms for place in desk.queue):
        return queue.due(ledger, desk, now)
    if idle(ledger, desk) and now.ms >= _idle_until_ms(desk):
        return Verdict(replace(desk, passive=True), effects=(Release(),))
    return Verdict(desk)


def _overdue(ledger: Ledger, desk: Desk, current: Operation, now: Now) -> Verdict | None:
    assert current.dispatched_ms is not None
    if not current.answered and now.ms >= current.until_ms - ANSWER_MARGIN_MS:
        return lane.answer_late(ledger, desk, now)
    if not current.dispatch_recorded and now.ms >= current.dispatched_ms + acting.SILENCE_RECORDED_MS:
        return acting.silent(desk, current)
    return None


def _late(ledger: Ledger, desk: Desk, now: Now) -> Verdict | None:
    """Closes, questions and calls in the lane whose callers cannot wait any longer (contract 10)."""
    due = [asked for asked in (*desk.closers, *desk.questions, *desk.lane) if now.ms >= _late_ms(asked)]
    if not due:
        return None
    replies: list[Say] = []
    for asked in due:
        if isinstance(asked.request, AskOutcome):
            told = problem(Code.PENDING, "The act is still under way: ask again.", retry_after_s=1.0)
        elif isinstance(asked.request, Close):
            told = problem(Code.CLOSING, "The lease is still closing: ask again for its receipt.", retry_after_s=0.5)
        else:
            told = problem(Code.DEADLINE_PASSED, "The page was busy all the time and nothing was done: ask again.")
        replies.append(refusal(ledger, desk, asked, told, now))
    closers, questions, waiting = (
        tuple(asked for asked in some if asked not in due) for some in (desk.closers, desk.questions, desk.lane)
    )
    return Verdict(replace(desk, closers=closers, questions=questions, lane=waiting), replies=tuple(replies))
