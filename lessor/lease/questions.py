"""What happened to an act, and what is found out about it later (contract 11, Steps)."""

from dataclasses import replace
from typing import assert_never

import msgspec

from lessor import redact, steps
from lessor.errors import Code, Effect, problem
from lessor.journal import ActState, Commit, LeaseState, Ledger
from lessor.lease.admit import known
from lessor.lease.answers import lease_view, no_record, refuse, say
from lessor.lease.verdict import Asked, Desk, Now, Say, Verdict
from lessor.messages.record import Reconciled as ReconciledRecord
from lessor.messages.record import Skipped
from lessor.messages.reply import ActOutcome, LeaseView, OutcomeTold, Reconciled, StepState
from lessor.messages.request import Act, AskOutcome, Reconcile


def outcome(ledger: Ledger, desk: Desk, asked: Asked, now: Now) -> Verdict:
    """What happened to an act; asking about the next number settles it with a `Skipped` (contract 11)."""
    ask = asked.request
    assert isinstance(ask, AskOutcome)
    strange = known(ledger, desk, asked.caller)
    if strange is not None:
        return refuse(ledger, desk, asked, strange, now)
    if ask.request_key is not None:
        return _by_key(ledger, desk, asked, ask.request_key, now)
    if ask.lease is None or ask.sequence is None:
        missing = problem(Code.INVALID_REQUEST, "Ask by request_key, or by lease and sequence.")
        return refuse(ledger, desk, asked, missing, now)
    held = ledger.leases.get(ask.lease)
    if held is None:
        return refuse(ledger, desk, asked, no_record("such lease"), now)
    act = held.acts.get(ask.sequence)
    if act is not None and act.outcome is not None:
        lease = lease_view(ledger, desk, now) if held is ledger.lease and ask.claim == held.claim else None
        return say(desk, asked, _told(ledger, desk, held, ask.sequence, act, now, lease=lease))
    if _admitted(desk, held, ask.sequence):
        return Verdict(replace(desk, questions=(*desk.questions, asked)))
    if held.phase == "closed":
        return say(desk, asked, _told(ledger, desk, held, ask.sequence, _never_sent(), now))
    return _unused(ledger, desk, asked, held, ask.sequence, now)


def _unused(ledger: Ledger, desk: Desk, asked: Asked, held: LeaseState, sequence: int, now: Now) -> Verdict:
    """A number nobody has used: only the attached claim may settle it."""
    ask = asked.request
    assert isinstance(ask, AskOutcome)
    if ask.claim != held.claim or held.claim < desk.claim_seen:
        waiting = problem(Code.PENDING, "Nothing is recorded yet: ask again, or as the lease's worker.")
        return refuse(ledger, desk, asked, waiting, now)
    if sequence != held.next_sequence:
        mismatch = problem(
            Code.SEQUENCE_MISMATCH,
            f"The next sequence is {held.next_sequence}: a number beyond it was never used.",
            next_sequence=held.next_sequence,
        )
        return refuse(ledger, desk, asked, mismatch, now)
    told = _told(ledger, desk, held, sequence, _never_sent(), now)
    view = lease_view(ledger, desk, now)
    if view is not None:
        told = msgspec.structs.replace(told, lease=msgspec.structs.replace(view, next_sequence=sequence + 1))
    record = Skipped(lease=held.id, sequence=sequence)
    return Verdict(desk, records=(record,), replies=(Say(asked.slot, told),))


def _admitted(desk: Desk, held: LeaseState, sequence: int) -> bool:
    current = () if desk.operation is None else (desk.operation.op,)
    waiting = (*current, *(asked.request for asked in desk.lane))
    return any(isinstance(op, Act) and (op.lease, op.sequence) == (held.id, sequence) for op in waiting)


def _never_sent() -> ActState:
    return ActState(None, ActOutcome.NOT_SENT, why="never used")


def _by_key(ledger: Ledger, desk: Desk, asked: Asked, key: str, now: Now) -> Verdict:
    step = steps.view(ledger, key)
    if step is None:
        return refuse(ledger, desk, asked, no_record("commit with this request key"), now)
    if step.state is StepState.INTENDED:
        return Verdict(replace(desk, questions=(*desk.questions, asked)))
    return say(desk, asked, _told(ledger, desk, step.commit, step.sequence, step.commit.act, now, step=step))


def _told(
    ledger: Ledger,
    desk: Desk,
    tried: LeaseState | Commit,
    sequence: int,
    act: ActState,
    now: Now,
    *,
    step: steps.StepView | None = None,
    lease: LeaseView | None = None,
) -> OutcomeTold:
    assert act.outcome is not None
    assert ledger.profile is not None
    name = tried.lease if isinstance(tried, Commit) else tried.id
    held = ledger.leases.get(name)
    if step is None and act.intent is not None and act.intent.request_key is not None:
        step = steps.view(ledger, act.intent.request_key)
    return OutcomeTold(
        outcome=act.outcome,
        by_lease=name,
        sequence=sequence,
        dispatched_ms=act.dispatched_ms,
        step=step.state if step else None,
        evidence=step.evidence if step else None,
        lease_live=held is not None and held.live_at(now.ms),
        page_gone_ms=steps.page_gone_ms(ledger, tried, desk.boot),
        settle_s=ledger.profile.settle_s,
        clock_ms=now.ms,
        effect=_effect_of(act.outcome),
        lease=lease,
    )


def _effect_of(outcome: ActOutcome) -> Effect:
    match outcome:
        case ActOutcome.APPLIED:
            return Effect.APPLIED
        case ActOutcome.NOT_SENT:
            return Effect.NONE
        case ActOutcome.UNKNOWN:
            return Effect.UNKNOWN
        case _:
            assert_never(outcome)


def reconcile(ledger: Ledger, desk: Desk, asked: Asked, now: Now) -> Verdict:
    """Weigh a verdict on a step and record it; one that came too early is recorded as not counting."""
    found = asked.request
    assert isinstance(found, Reconcile)
    strange = known(ledger, desk, asked.caller)
    if strange is not None:
        return refuse(ledger, desk, asked, strange, now)
    step = steps.view(ledger, found.request_key)
    if step is None:
        return refuse(ledger, desk, asked, no_record("commit with this request key"), now)
    if step.state is StepState.INTENDED:
        waiting = problem(Code.PENDING, "The commit is still under way: ask for its outcome first.")
        return refuse(ledger, desk, asked, waiting, now)
    if step.state not in (StepState.UNKNOWN, StepState.DISPATCHED):
        return say(desk, asked, Reconciled(step=step.state, counted=True))
    weighed = steps.weigh(ledger, found, step, desk.boot, now.ms)
    record = ReconciledRecord(
        request_key=found.request_key,
        verdict=found.verdict,
        evidence=redact.words(found.evidence),
        by=redact.words(found.by),
        counted=weighed.counted,
        how=found.how,
        looked_up_ms=found.looked_up_ms,
        run=found.run or "",
    )
    state = steps.after(step, found.verdict) if weighed.counted else step.state
    reply = Reconciled(step=state, counted=weighed.counted, retry_after_s=weighed.retry_after_s)
    return Verdict(desk, records=(record,), replies=(Say(asked.slot, reply),))
