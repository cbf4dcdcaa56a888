"""An act from its dry run to its outcome: intent on disk first, one dispatch, the outcome before the answer."""

from dataclasses import replace

from msgspec import structs

from lessor import steps
from lessor.errors import Code, Effect, Problem, problem
from lessor.findings import Away, NotSent, Paused, Sent, Target
from lessor.journal import LeaseState, Ledger
from lessor.lease import approval, dialog, ending
from lessor.lease.admit import holder, in_time, page_there
from lessor.lease.answers import not_sent, refusal, unknown_outcome, view_for
from lessor.lease.lane import away_problem, finish
from lessor.lease.verdict import (
    Again,
    Aimed,
    Desk,
    Dispatch,
    DispatchDone,
    GrantRead,
    IntentLanded,
    Now,
    Operation,
    Verdict,
)
from lessor.limits import ms
from lessor.messages.hashing import payload_hash
from lessor.messages.record import AnyRecord, Dispatched, Intent, Outcome, Skipped
from lessor.messages.reply import Acted, ActOutcome, StepState
from lessor.messages.request import Act

SILENCE_RECORDED_MS = 250
"""A page that has not answered for this long gets its dispatch time on record."""


def aimed(ledger: Ledger, desk: Desk, event: Aimed, now: Now) -> Verdict:
    """The dry run is over: refuse without a trace, or write the intent."""
    current = desk.operation
    if current is None or current.asked.slot != event.slot:
        return Verdict(desk)
    assert isinstance(current.op, Act)
    found = event.result if not isinstance(event.result, Away) else away_problem(event.result)
    held = _gates(ledger, desk, current, now)
    # A dry run that took its whole deadline knows better than the clock why there was no answer.
    is_told = isinstance(found, Problem) and isinstance(held, Problem) and held.code is Code.DEADLINE_PASSED
    if isinstance(held, Problem) and not is_told:
        found = held
    if isinstance(found, Problem):
        return _refused(ledger, desk, current, found, now)
    assert isinstance(held, LeaseState)
    if approval.must_ask(ledger, current.op):
        return approval.read(ledger, desk, replace(current, target=found))
    current = replace(current, target=found)
    return _intend(desk, current, held)


def grant_read(ledger: Ledger, desk: Desk, event: GrantRead, now: Now) -> Verdict:
    """What the run's owner said was read just now: the intent, a refusal, or a question to the owner."""
    current = desk.operation
    if current is None or current.asked.slot != event.slot or current.phase != "granting":
        return Verdict(desk)
    held = _gates(ledger, desk, current, now)
    if isinstance(held, Problem):
        return _refused(ledger, desk, current, held, now)
    desk, weighed = approval.weigh(desk, current, held, event, now)
    match weighed:
        case Problem():
            return _refused(ledger, desk, current, weighed, now)
        case Operation():
            return _intend(desk, weighed, held)
        case _:
            return approval.ask(desk, current, held, weighed)


def _refused(ledger: Ledger, desk: Desk, current: Operation, found: Problem, now: Now) -> Verdict:
    """Before the intent a refusal leaves no trace, but a cancelled act uses its number up."""
    reply = refusal(ledger, desk, current.asked, found, now).reply
    skipped: tuple[AnyRecord, ...] = ()
    if found.code is Code.NOT_SENT:
        number = _sequence(current)
        skipped = (Skipped(lease=current.op.lease, sequence=number),)
        if reply.lease is not None:
            reply = structs.replace(reply, lease=structs.replace(reply.lease, next_sequence=number + 1))
    return finish(ledger, desk, reply, skipped, now)


def _intend(desk: Desk, current: Operation, held: LeaseState) -> Verdict:
    assert isinstance(current.op, Act)
    assert current.target is not None
    desk = replace(desk, operation=replace(current, phase="intending"))
    intent = _intent(held, current.op, current.target, current.approval)
    return Verdict(desk, records=(intent,), effects=(Again(IntentLanded(current.asked.slot)),))


def _gates(ledger: Ledger, desk: Desk, current: Operation, now: Now) -> LeaseState | Problem:
    """What was true at the door must be true still: lease, claim, expiry, deadline, browser (contract 7)."""
    held = holder(ledger, desk, current.asked, current.op.lease, current.op.claim, now)
    if isinstance(held, Problem):
        return held
    if current.cancelled:
        return not_sent(_sequence(current), "it was cancelled")
    if current.granted_until_ms is not None and now.ms >= current.granted_until_ms:
        return problem(Code.GRANT_NOT_APPLICABLE, "The approval or grant has ended meanwhile: ask again.")
    late = in_time(held, current.op, desk, now)
    return (late if isinstance(late, Problem) else None) or page_there(desk, now) or held


def _sequence(current: Operation) -> int:
    assert isinstance(current.op, Act)
    return current.op.sequence


def _intent(held: LeaseState, act: Act, target: Target, approved: str | None) -> Intent:
    assert act.sequence == held.next_sequence, (act.sequence, held.next_sequence)
    step = act.step
    return Intent(
        lease=held.id,
        claim=act.claim,
        run=held.scope.run,
        attempt=held.scope.attempt,
        sequence=act.sequence,
        tab=act.tab,
        do=str(act.action.__struct_config__.tag),
        target=target.described,
        target_fingerprint=target.fingerprint,
        payload_hash=payload_hash(act),
        task=step.task if step else None,
        step=step.step if step else None,
        request_key=step.request_key if step else None,
        approval=approved,
    )


def intent_landed(ledger: Ledger, desk: Desk, event: IntentLanded, now: Now) -> Verdict:
    """The intent is on disk: the gates once more, then the one dispatch. Too late consumes the number."""
    current = desk.operation
    assert current is not None
    assert current.asked.slot == event.slot
    assert isinstance(current.op, Act)
    assert current.target is not None
    shut = _gates(ledger, desk, current, now)
    if isinstance(shut, Problem):
        return _settle(ledger, desk, current, ActOutcome.NOT_SENT, str(shut.code), None, now)
    desk = replace(desk, operation=replace(current, phase="dispatching", dispatched_ms=now.ms))
    until_ms = current.until_ms + ms(desk.limits.overrun_s)
    return Verdict(desk, effects=(Dispatch(event.slot, current.op, current.target, until_ms),))


def dispatched(ledger: Ledger, desk: Desk, event: DispatchDone, now: Now) -> Verdict:
    """The page answered, or nobody can say whether it was reached: four outcomes, four cases."""
    current = desk.operation
    if current is None or current.asked.slot != event.slot:
        return Verdict(desk)
    match event.result:
        case Sent():
            return _applied(ledger, desk, current, event.result, now)
        case NotSent(why=why):
            return _settle(ledger, desk, current, ActOutcome.NOT_SENT, why, None, now)
        case Paused(dialog=opened):
            return dialog.opened(ledger, desk, current, opened, now)
        case Away() as away:
            at_ms = current.dispatched_ms
            if away is not Away.SILENT:
                desk = replace(desk, browser="gone")
            return _settle(ledger, desk, current, ActOutcome.UNKNOWN, away.value, at_ms, now)


def _applied(ledger: Ledger, desk: Desk, current: Operation, sent: Sent, now: Now) -> Verdict:
    assert current.target is not None
    if sent.page is not None:
        desk = replace(desk, page_url=sent.page.url)
    lease = view_for(ledger, desk, current.asked, now)
    records = (_outcome(current, ActOutcome.APPLIED, None, sent.dispatched_ms), *_shown(ledger, current, sent))
    reply = Acted(
        sequence=_sequence(current),
        changed=current.target.changed,
        page=sent.page,
        effect=Effect.APPLIED,
        lease=lease,
        step=_state(current, shown=len(records) > 1),
    )
    if current.cancelled:
        return finish(ledger, desk, reply, records, now, then=ending.retire)
    return finish(ledger, desk, reply, records, now)


def _state(current: Operation, *, shown: bool) -> StepState | None:
    assert isinstance(current.op, Act)
    if current.op.step is None or current.op.step.request_key is None:
        return None
    return StepState.SUCCEEDED if shown else StepState.DISPATCHED


def _shown(ledger: Ledger, current: Operation, sent: Sent) -> tuple[AnyRecord, ...]:
    """The settled page may hold the step's evidence: then the verdict is in the outcome's own entry."""
    assert isinstance(current.op, Act)
    step = current.op.step
    found = steps.shown(ledger, step.request_key, sent.page) if step is not None and sent.page is not None else None
    return () if found is None else (found,)


def _settle(
    ledger: Ledger,
    desk: Desk,
    current: Operation,
    outcome: ActOutcome,
    why: str,
    dispatched_ms: int | None,
    now: Now,
) -> Verdict:
    sequence = _sequence(current)
    refused = not_sent(sequence, why) if outcome is ActOutcome.NOT_SENT else unknown_outcome(sequence, why)
    reply = refusal(ledger, desk, current.asked, refused, now).reply
    records: tuple[AnyRecord, ...] = (_outcome(current, outcome, why, dispatched_ms),)
    if outcome is ActOutcome.UNKNOWN:
        return finish(ledger, desk, reply, records, now, then=ending.retire)
    return finish(ledger, desk, reply, records, now)


def _outcome(current: Operation, outcome: ActOutcome, why: str | None, at_ms: int | None) -> Outcome:
    return Outcome(
        lease=current.op.lease,
        sequence=_sequence(current),
        outcome=outcome,
        dispatched_ms=at_ms,
        why=why,
    )


def silent(desk: Desk, current: Operation) -> Verdict:
    """Nothing heard for 250 ms after the input went out: its time becomes a record of its own."""
    assert current.dispatched_ms is not None
    record = Dispatched(lease=current.op.lease, sequence=_sequence(current), dispatched_ms=current.dispatched_ms)
    return Verdict(replace(desk, operation=replace(current, dispatch_recorded=True)), records=(record,))
