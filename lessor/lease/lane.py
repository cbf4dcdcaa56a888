"""The data lane: navigate, observe and act, strictly one at a time (contract 8-10; architecture, One action)."""

from collections.abc import Callable
from dataclasses import replace
from typing import Literal

from lessor import redact, steps
from lessor.errors import Code, Effect, Problem, dialog_open, problem
from lessor.findings import Away
from lessor.journal import LeaseState, Ledger
from lessor.lease import ending
from lessor.lease.admit import bound_ms, holder, in_time, known, page_there
from lessor.lease.answers import not_sent, refusal, remember, unknown_outcome, view_for
from lessor.lease.turn import next_turn
from lessor.lease.verdict import (
    Again,
    Aim,
    Asked,
    Desk,
    Now,
    Operation,
    ReadDone,
    Say,
    Verdict,
    Visit,
)
from lessor.messages.action import Observation, PageView
from lessor.messages.hashing import payload_hash
from lessor.messages.record import AnyRecord, Read
from lessor.messages.reply import Acted, ActOutcome, Navigated, Observed, Reply, StepState
from lessor.messages.request import Act, Navigate, Observe


def ask(ledger: Ledger, desk: Desk, asked: Asked, now: Now) -> Verdict:
    """A page operation arrives, or comes to its turn."""
    op = asked.request
    assert isinstance(op, Act | Navigate | Observe)
    strange = known(ledger, desk, asked.caller)
    if strange is not None:
        return Verdict(desk, replies=(refusal(ledger, desk, asked, strange, now),))
    for kept in desk.remembered:
        if kept.answers(op):
            return Verdict(desk, replies=(Say(asked.slot, kept.reply),))
    current = desk.operation
    if current is not None and not current.answered and current.repeats(op):
        joined = replace(current, joined=(*current.joined, asked.slot))
        return Verdict(replace(desk, operation=joined))
    settled = _settled(ledger, desk, asked, now) if isinstance(op, Act) else None
    if settled is not None:
        return Verdict(desk, replies=(settled,))
    held = holder(ledger, desk, asked, op.lease, op.claim, now)
    if isinstance(held, Problem):
        return Verdict(desk, replies=(refusal(ledger, desk, asked, held, now),))
    desk = replace(desk, last_call_ms=now.ms)
    renewal = in_time(held, op, desk, now)
    if isinstance(renewal, Problem):
        return Verdict(desk, replies=(refusal(ledger, desk, asked, renewal, now),))
    if current is not None and current.dialog is not None:
        return Verdict(desk, replies=(refusal(ledger, desk, asked, dialog_open(current.dialog), now),))
    if current is not None or desk.lane:
        return _queue(ledger, desk, asked, now)
    if renewal:
        return Verdict(desk, records=renewal, effects=(Again(asked),))
    return _begin(ledger, desk, asked, held, now)


def _queue(ledger: Ledger, desk: Desk, asked: Asked, now: Now) -> Verdict:
    if any(waiting.slot == asked.slot for waiting in desk.lane):
        return Verdict(desk)
    if len(desk.lane) >= desk.limits.lane_max:
        full = problem(Code.OVERLOADED, "Too many calls wait for this page: send fewer at a time.")
        return Verdict(desk, replies=(refusal(ledger, desk, asked, full, now),))
    return Verdict(replace(desk, lane=(*desk.lane, asked)))


def _begin(ledger: Ledger, desk: Desk, asked: Asked, held: LeaseState, now: Now) -> Verdict:
    op = asked.request
    assert isinstance(op, Act | Navigate | Observe)
    refused = page_there(desk, now) or _in_order(held, op)
    if refused is None and isinstance(op, Act):
        refused = _key_free(ledger, op)
    if refused is not None:
        return next_turn(Verdict(desk, replies=(refusal(ledger, desk, asked, refused, now),)))
    until_ms = bound_ms(op, desk, now)
    if isinstance(op, Act):
        begun = Operation(asked, op, "aiming", until_ms)
        return Verdict(replace(desk, operation=begun), effects=(Aim(asked.slot, op, until_ms),))
    begun = Operation(asked, op, "reading", until_ms)
    return Verdict(replace(desk, operation=begun), effects=(Visit(asked.slot, op, until_ms),))


def _in_order(held: LeaseState, op: Act | Navigate | Observe) -> Problem | None:
    if isinstance(op, Observe) or op.sequence == held.next_sequence:
        return None
    return problem(
        Code.SEQUENCE_MISMATCH,
        f"The next sequence is {held.next_sequence}, not {op.sequence}: observe, then use that one.",
        next_sequence=held.next_sequence,
    )


def _key_free(ledger: Ledger, op: Act) -> Problem | None:
    """At most once by request key: a commit runs only when no earlier one may have happened."""
    if op.step is None or op.step.request_key is None:
        return None
    waits_for = steps.blocked_by(ledger, op.step.request_key)
    if waits_for:
        names = ", ".join(ledger.steps[key].name if key in ledger.steps else key[:12] for key in waits_for[:3])
        return problem(
            Code.ACTION_NOT_ALLOWED,
            f"The step {op.step.step!r} depends on steps that are not done ({names}): settle those first.",
        )
    step = steps.view(ledger, op.step.request_key)
    if step is None or step.may_run:
        return None
    return problem(
        Code.ACTION_NOT_ALLOWED,
        f"The step {op.step.step!r} is {step.state}: reconcile it (look it up by its request key) before"
        " anyone commits it again.",
    )


def _settled(ledger: Ledger, desk: Desk, asked: Asked, now: Now) -> Say | None:
    """The recorded answer of a number that was used, or of a key that was committed (contract 8)."""
    op = asked.request
    assert isinstance(op, Act)
    act = ledger.act_of(op.lease, op.sequence)
    if act is None:
        return _settled_by_key(ledger, desk, asked, op, now)
    if act.intent is None:
        return refusal(ledger, desk, asked, not_sent(op.sequence, act.why), now)
    if op.claim < act.intent.claim:
        return None  # Its successor's act: the fence answers.
    if act.intent.payload_hash != payload_hash(op):
        conflict = problem(
            Code.SEQUENCE_CONFLICT,
            f"Sequence {op.sequence} was used for another act: take the next one for a new act.",
        )
        return refusal(ledger, desk, asked, conflict, now)
    if act.outcome is None:
        waiting = problem(Code.PENDING, f"Act {op.sequence} is under way: ask for its outcome.")
        return refusal(ledger, desk, asked, waiting, now)
    return Say(asked.slot, _answer(ledger, desk, asked, op.sequence, act.outcome, act.why, now))


def _settled_by_key(ledger: Ledger, desk: Desk, asked: Asked, op: Act, now: Now) -> Say | None:
    if op.step is None or op.step.request_key is None:
        return None
    step = steps.view(ledger, op.step.request_key)
    if step is None or step.state not in (StepState.DISPATCHED, StepState.SUCCEEDED):
        return None
    lease = view_for(ledger, desk, asked, now)
    acted = Acted(sequence=step.sequence, recorded=True, effect=Effect.APPLIED, lease=lease, step=step.state)
    return Say(asked.slot, acted)


def _answer(
    ledger: Ledger, desk: Desk, asked: Asked, sequence: int, outcome: ActOutcome, why: str | None, now: Now
) -> Reply:
    match outcome:
        case ActOutcome.APPLIED:
            lease = view_for(ledger, desk, asked, now)
            return Acted(sequence=sequence, recorded=True, effect=Effect.APPLIED, lease=lease)
        case ActOutcome.NOT_SENT:
            return refusal(ledger, desk, asked, not_sent(sequence, why), now).reply
        case ActOutcome.UNKNOWN:
            return refusal(ledger, desk, asked, unknown_outcome(sequence, why), now).reply


def read_done(ledger: Ledger, desk: Desk, event: ReadDone, now: Now) -> Verdict:
    """A navigate or observe came back: gates again, answer, audit (contract 7, 8)."""
    current = desk.operation
    if current is None or current.asked.slot != event.slot:
        return Verdict(desk)
    reply = _read_reply(ledger, desk, current, event, now)
    records: tuple[AnyRecord, ...] = ()
    if isinstance(event.result, PageView | Observation):
        desk = replace(desk, page_url=event.result.url)
        if ledger.lease is not None and ledger.lease.phase != "closed":
            records = (_audit(current, event.result.url), *_shown(ledger, ledger.lease, current, event.result))
    return finish(ledger, desk, reply, records, now)


def _shown(ledger: Ledger, held: LeaseState, current: Operation, page: PageView | Observation) -> tuple[AnyRecord, ...]:
    """What this page proves of the step that was committed on it last."""
    if not isinstance(page, Observation) or current.op.lease != held.id or current.op.tab != "main":
        return ()
    found = steps.shown(ledger, steps.awaiting(ledger, held, StepState.DISPATCHED), page)
    return () if found is None else (found,)


def _audit(current: Operation, url: str) -> Read:
    do: Literal["navigate", "observe"] = "navigate" if isinstance(current.op, Navigate) else "observe"
    return Read(lease=current.op.lease, claim=current.op.claim, do=do, tab=current.op.tab, url=redact.address(url))


def _read_reply(ledger: Ledger, desk: Desk, current: Operation, event: ReadDone, now: Now) -> Reply:
    held = holder(ledger, desk, current.asked, current.op.lease, current.op.claim, now)
    if isinstance(held, Problem) and held.code is not Code.LEASE_EXPIRED:
        return refusal(ledger, desk, current.asked, held, now).reply
    match event.result:
        case PageView() as page:
            return Navigated(page=page, lease=view_for(ledger, desk, current.asked, now))
        case Observation() as page:
            return Observed(page=page, lease=view_for(ledger, desk, current.asked, now))
        case Problem() as refused:
            return refusal(ledger, desk, current.asked, refused, now).reply
        case Away() as away:
            return refusal(ledger, desk, current.asked, away_problem(away), now).reply


def away_problem(away: Away) -> Problem:
    """Why an operation without side effect has no result."""
    match away:
        case Away.GONE | Away.FENCED:
            return problem(Code.BROWSER_GONE, "The browser is gone and nothing was done: acquire again.")
        case Away.SILENT:
            return problem(Code.OP_TIMEOUT, "The page did not answer in time: observe again, or navigate.")


def finish(
    ledger: Ledger,
    desk: Desk,
    reply: Reply,
    records: tuple[AnyRecord, ...],
    now: Now,
    then: Callable[[Ledger, Desk, Now], Verdict] = ending.after_operation,
) -> Verdict:
    """The operation is over: answer everyone who waits for it, then the next turn, or the end of the lease."""
    current = desk.operation
    assert current is not None
    desk = replace(remember(desk, current.op, reply), operation=None)
    replies = () if current.answered else tuple(Say(slot, reply) for slot in current.slots)
    after = next_turn(then(ledger, desk, now))
    if isinstance(current.op, Act):
        return Verdict(after.desk, (*records, *after.records), replies, after.effects)
    # A read's answer waits for no disk: its audit is written behind it.
    return Verdict(after.desk, (*records, *after.records), (), after.effects, early=replies)


def answer_late(ledger: Ledger, desk: Desk, now: Now) -> Verdict:
    """The caller's deadline has come before the page's answer: say so, and go on waiting (contract 10)."""
    current = desk.operation
    assert current is not None
    late = problem(
        Code.PENDING,
        "The page has not answered yet; the act is still awaited: ask for its outcome, do not repeat it.",
        effect=Effect.UNKNOWN,
        retry_after_s=1.0,
    )
    reply = refusal(ledger, desk, current.asked, late, now).reply
    replies = tuple(Say(slot, reply) for slot in current.slots)
    return Verdict(replace(desk, operation=replace(current, answered=True)), replies=replies)
