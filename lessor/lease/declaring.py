"""What a worker says about its steps, and what is known of them (contract, Steps)."""

from msgspec import structs

from lessor import redact, steps
from lessor.errors import Code, Problem, problem
from lessor.journal import Ledger, StepHistory
from lessor.lease.admit import known
from lessor.lease.answers import no_record, refuse, say
from lessor.lease.verdict import Asked, Desk, Now, Say, Verdict
from lessor.messages.ids import request_key
from lessor.messages.record import Checkpointed, StepDeclared
from lessor.messages.reply import StepState, StepsTold, StepTold
from lessor.messages.request import Checkpoint, DeclareStep, ListSteps
from lessor.messages.step import CHECKPOINTS_MAX, CheckpointView, Desired, StepRecord

CHECKPOINTS_LISTED = 4
"""Of each step in a list: all of them would not fit into one answer."""


def declare(ledger: Ledger, desk: Desk, asked: Asked, now: Now) -> Verdict:
    """Desired state on record before the first act; the same declaration again changes nothing."""
    wanted = asked.request
    assert isinstance(wanted, DeclareStep)
    refused = known(ledger, desk, asked.caller) or _fenced(ledger, desk, wanted.run, wanted.claim)
    if refused is not None:
        return refuse(ledger, desk, asked, refused, now)
    key = request_key(wanted.task, wanted.step)
    desired = structs.replace(wanted.desired, target=redact.words(wanted.desired.target))
    history = ledger.steps.get(key) or StepHistory()
    conflict = _conflict(ledger, key, history, desired)
    if conflict is not None:
        return refuse(ledger, desk, asked, conflict, now)
    record = StepDeclared(
        request_key=key, task=wanted.task, step=wanted.step, run=wanted.run, claim=wanted.claim, desired=desired
    )
    if history.declared is not None and structs.replace(history.declared, claim=wanted.claim) == record:
        return say(desk, asked, StepTold(step=record_of(ledger, desk, key, now)))
    told = structs.replace(
        record_of(ledger, desk, key, now),
        request_key=key,
        task=wanted.task,
        step=wanted.step,
        run=wanted.run,
        desired=desired,
        blocked_by=steps.not_done(ledger, desired.depends),
    )
    return Verdict(desk, records=(record,), replies=(Say(asked.slot, StepTold(step=told)),))


def _conflict(ledger: Ledger, key: str, history: StepHistory, desired: Desired) -> Problem | None:
    step = steps.view(ledger, key)
    if step is None or step.may_run or history.declared is None:
        return None
    before = history.declared.desired.payload_hash
    if before == desired.payload_hash:
        return None
    return problem(
        Code.ACTION_NOT_ALLOWED,
        f"The step {history.name!r} was committed with another payload and is {step.state}: other content is"
        " another step.",
    )


def _fenced(ledger: Ledger, desk: Desk, run: str, claim: int) -> Problem | None:
    """A worker that was replaced says nothing about the run's steps any more (contract 7)."""
    held = ledger.lease
    if held is None or held.phase == "closed" or held.scope.run != run:
        return None
    if claim >= max(held.claim, desk.claim_seen):
        return None
    return problem(Code.RUN_FENCED, "Another worker has taken this run over: stop working on it.")


def checkpoint(ledger: Ledger, desk: Desk, asked: Asked, now: Now) -> Verdict:
    """A fact of the worker's own on record."""
    fact = asked.request
    assert isinstance(fact, Checkpoint)
    refused = known(ledger, desk, asked.caller) or _fenced(ledger, desk, fact.run, fact.claim)
    history = ledger.steps.get(fact.request_key)
    if refused is None and history is None:
        refused = no_record("step with this request key")
    if refused is not None:
        return refuse(ledger, desk, asked, refused, now)
    assert history is not None
    told = record_of(ledger, desk, fact.request_key, now)
    last = history.checkpoints[-1][1] if history.checkpoints else None
    if last is not None and (last.name, last.fact) == (fact.name, fact.fact):
        return say(desk, asked, StepTold(step=told))
    if len(history.checkpoints) >= CHECKPOINTS_MAX:
        full = problem(Code.TOO_LARGE, f"A step has at most {CHECKPOINTS_MAX} checkpoints: record fewer.")
        return refuse(ledger, desk, asked, full, now)
    record = Checkpointed(
        request_key=fact.request_key, run=fact.run, claim=fact.claim, name=fact.name, fact=redact.words(fact.fact)
    )
    seen = (*told.checkpoints, CheckpointView(name=fact.name, fact=record.fact, at_ms=now.ms))
    reply = StepTold(step=structs.replace(told, checkpoints=seen))
    return Verdict(desk, records=(record,), replies=(Say(asked.slot, reply),))


def list_steps(ledger: Ledger, desk: Desk, asked: Asked, now: Now) -> Verdict:
    """The profile's steps; also long after their leases are gone."""
    ask = asked.request
    assert isinstance(ask, ListSteps)
    strange = known(ledger, desk, asked.caller)
    if strange is not None:
        return refuse(ledger, desk, asked, strange, now)
    assert ledger.profile is not None
    keys = ledger.steps if ask.request_key is None else (ask.request_key,) if ask.request_key in ledger.steps else ()
    matching = [key for key in keys if _matches(ledger, key, ask)]
    shown = matching[ask.skip : ask.skip + ask.limit]
    told = StepsTold(
        steps=tuple(_listed(record_of(ledger, desk, key, now)) for key in shown),
        total=len(matching),
        settle_s=ledger.profile.settle_s,
        clock_ms=now.ms,
    )
    return say(desk, asked, told)


def _matches(ledger: Ledger, key: str, ask: ListSteps) -> bool:
    history = ledger.steps[key]
    if ask.run is not None and ask.run != _run_of(history):
        return False
    if ask.only == "all":
        return True
    step = steps.view(ledger, key)
    if step is None:
        return False
    match ask.only:
        case "unknown":
            return step.state is StepState.UNKNOWN
        case "unverified":
            return step.state is StepState.DISPATCHED
        case "open":
            declared = history.declared
            dispatched = step.state is StepState.DISPATCHED and declared is not None and declared.desired.evidence
            return step.state is StepState.UNKNOWN or bool(dispatched)


def _run_of(history: StepHistory) -> str:
    if history.declared is not None:
        return history.declared.run
    intent = history.commits[-1].act.intent if history.commits else None
    return intent.run if intent is not None else ""


def _listed(told: StepRecord) -> StepRecord:
    return structs.replace(told, checkpoints=told.checkpoints[-CHECKPOINTS_LISTED:])


def record_of(ledger: Ledger, desk: Desk, key: str, now: Now) -> StepRecord:
    """Everything on record under a key; of an unknown key, nothing."""
    history = ledger.steps.get(key) or StepHistory()
    step = steps.view(ledger, key)
    intent = step.commit.act.intent if step is not None else None
    held = ledger.leases.get(step.lease) if step is not None else None
    declared = history.declared
    commits = len(history.commits)
    return StepRecord(
        request_key=key,
        task=(declared.task if declared else None) or (intent.task if intent else None) or "?",
        step=history.name,
        run=_run_of(history),
        desired=declared.desired if declared else Desired(),
        state=step.state if step else None,
        verified=step is not None and step.evidence is not None,
        evidence=step.evidence if step else None,
        by=step.by if step else None,
        lease=step.lease if step else None,
        sequence=step.sequence if step else None,
        commits=commits,
        looks=sum(after == commits for after, _ in history.verdicts),
        checkpoints=tuple(
            CheckpointView(name=record.name, fact=record.fact, at_ms=at_ms) for at_ms, record in history.checkpoints
        ),
        blocked_by=steps.blocked_by(ledger, key),
        lease_live=held is not None and held.live_at(now.ms),
        page_gone_ms=steps.page_gone_ms(ledger, step.commit, desk.boot) if step else None,
    )
