"""Acts that need a yes: approvals in the run record, and acts granted in advance (contract 20)."""

from dataclasses import replace
from typing import get_args

from msgspec import structs

from lessor.errors import Code, Problem, problem
from lessor.journal import LeaseState, Ledger
from lessor.lease.answers import refusal
from lessor.lease.lane import finish
from lessor.lease.verdict import (
    ApprovalAsked,
    AskApproval,
    Desk,
    GrantRead,
    Now,
    Operation,
    ReadGrant,
    Verdict,
)
from lessor.messages.action import AnyAction
from lessor.messages.hashing import payload_hash
from lessor.messages.request import Act
from lessor.messages.run import Approval, ApprovalState, Constraint, RunRecord, RunStatus
from lessor.runs import APPROVAL_MS

COMMIT = "commit"
"""The kind of every act that is its step's commit, whatever it does."""
KINDS = frozenset(str(kind.__struct_config__.tag) for kind in get_args(AnyAction)) | {COMMIT}


def kinds_of(act: Act) -> frozenset[str]:
    commit = {COMMIT} if act.step is not None and act.step.request_key is not None else set[str]()
    return frozenset({str(act.action.__struct_config__.tag)} | commit)


def must_ask(ledger: Ledger, act: Act) -> bool:
    """Whether the run record must be read before this act: the policy names its kind, or it rests on a grant."""
    assert ledger.profile is not None
    return act.constraint is not None or bool(kinds_of(act) & set(ledger.profile.approve))


def read(ledger: Ledger, desk: Desk, current: Operation) -> Verdict:
    """The dry run went well: look what the run's owner said, right before the intent."""
    held = ledger.lease
    assert held is not None
    order = ReadGrant(current.asked.slot, held.scope.run)
    return Verdict(replace(desk, operation=replace(current, phase="granting")), effects=(order,))


def weigh(
    desk: Desk, current: Operation, held: LeaseState, event: GrantRead, now: Now
) -> tuple[Desk, Operation | Problem | Approval]:
    """Go ahead (the operation, with what it rests on), refuse, or ask: then the question."""
    assert isinstance(current.op, Act)
    if isinstance(event.reading, Problem):
        return desk, event.reading
    record = event.reading.record
    if record is None or record.status.ended:
        return desk, problem(Code.RUN_ENDED, f"The run {held.scope.run!r} has ended: stop working on it.")
    if record.claim > held.claim:
        desk = replace(desk, claim_seen=max(desk.claim_seen, record.claim))
        return desk, problem(Code.LEASE_FENCED, "Another worker has taken this run over: stop working on it.")
    if current.op.constraint is not None:
        return _granted(desk, current, current.op, current.op.constraint, record, now)
    return desk, _approved(desk, current, current.op, held, record, now)


def _granted(
    desk: Desk, current: Operation, act: Act, constraint: Constraint, record: RunRecord, now: Now
) -> tuple[Desk, Operation | Problem]:
    """Granted in advance, still standing, and covering page and kind. Its end is put on the owner's clock once."""
    assert current.target is not None
    known = dict(desk.grants_until_ms)
    until_ms = now.ms + constraint.expires_unix_ms - now.unix_ms
    until_ms = min(until_ms, known.get(constraint, until_ms))
    if constraint in record.grants:
        desk = replace(desk, grants_until_ms=tuple({**known, constraint: until_ms}.items()))
    covers = kinds_of(act) & set(constraint.kinds) and origin_of(current.target.url) in constraint.origins
    if constraint not in record.grants or not covers or now.ms >= until_ms:
        uncovered = "The grant does not cover this act here and now: act without it, and ask for an approval."
        return desk, problem(Code.GRANT_NOT_APPLICABLE, uncovered)
    return desk, replace(current, granted_until_ms=until_ms)


def origin_of(url: str) -> str:
    """Scheme, host and port as the profile's origins are written; the browser has made the address normal."""
    scheme, _, rest = url.partition("://")
    return f"{scheme}://{rest.split('/', 1)[0].split('?', 1)[0].split('#', 1)[0].rpartition('@')[2]}"


def _approved(
    desk: Desk, current: Operation, act: Act, held: LeaseState, record: RunRecord, now: Now
) -> Operation | Problem | Approval:
    """An approval counts for this very act: payload, target, lease and number, and not for long."""
    assert current.target is not None
    question = _question(desk, current, act, held, now)
    pinned = (held.id, act.sequence, question.payload_hash)
    found = [one for one in record.approvals if (one.lease, one.sequence, one.payload_hash) == pinned]
    if not found:
        return question
    latest = found[-1]
    in_time = latest.boot == desk.boot and latest.until_ms is not None and now.ms < latest.until_ms
    if latest.state is ApprovalState.REJECTED:
        said_no = "The run's owner has rejected this act, and nothing was sent: do something else."
        return problem(Code.APPROVAL_REJECTED, said_no, approval=latest.id)
    if latest.target_fingerprint != current.target.fingerprint:
        changed = "What was to be approved is not what the page shows now: observe, then decide anew."
        return problem(Code.PAGE_CHANGED, changed)
    if not in_time:
        return question
    if latest.state is ApprovalState.PENDING:
        return required(latest) if record.status is RunStatus.PARKED else latest
    return replace(current, granted_until_ms=latest.until_ms, approval=latest.id)


def required(asked: Approval) -> Problem:
    waits = "The act waits for an approval, and nothing was sent: act again, unchanged, when it is given."
    return problem(Code.APPROVAL_REQUIRED, waits, retry_after_s=1.0, approval=asked.id)


def _question(desk: Desk, current: Operation, act: Act, held: LeaseState, now: Now) -> Approval:
    assert current.target is not None
    where = origin_of(current.target.url)
    what = f"{act.action.__struct_config__.tag} {current.target.described}"
    return Approval(
        id=now.fresh,
        question=f"{what} at {where}"[:500],
        asked_unix_ms=now.unix_ms,
        until_unix_ms=now.unix_ms + APPROVAL_MS,
        profile=desk.profile,
        lease=held.id,
        sequence=act.sequence,
        payload_hash=payload_hash(act),
        target_fingerprint=current.target.fingerprint,
        boot=desk.boot,
        until_ms=now.ms + APPROVAL_MS,
    )


def ask(desk: Desk, current: Operation, held: LeaseState, question: Approval) -> Verdict:
    """Park the run on the question; it keeps its page (contract 16)."""
    order = AskApproval(current.asked.slot, held.scope.run, held.claim, question)
    return Verdict(desk, effects=(order,))


def asked(ledger: Ledger, desk: Desk, event: ApprovalAsked, now: Now) -> Verdict:
    """The question is in the run record, or could not be put there: either way nothing was sent."""
    current = desk.operation
    if current is None or current.asked.slot != event.slot or current.phase != "granting":
        return Verdict(desk)
    told = event.result if isinstance(event.result, Problem) else required(event.result)
    if told.code is Code.RUN_FENCED:
        told = structs.replace(told, code=Code.LEASE_FENCED)
    return finish(ledger, desk, refusal(ledger, desk, current.asked, told, now).reply, (), now)
