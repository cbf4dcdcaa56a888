"""What may be written into a run record, by whom (contract 16, 17, 20). Pure."""

from collections.abc import Callable
from typing import Final, assert_never

import msgspec

from lessor.errors import Code, Problem, problem
from lessor.messages.request import (
    AnswerRun,
    ApproveRun,
    CancelRun,
    GrantRun,
    RejectRun,
    ReportRun,
    RunRequest,
    ShowRun,
    TakeRun,
)
from lessor.messages.run import APPROVALS_MAX, GRANTS_MAX, Approval, ApprovalState, RunRecord, RunStatus

APPROVAL_MS: Final = 60 * 60_000
"""How long an approval waits for its answer, and how long the answer is good for (contract 20)."""

Change = Callable[[RunRecord | None], RunRecord | Problem]
"""The record as it should be after a change: the same one when nothing is to be written."""


def decide_run(
    run: str, principal: str, record: RunRecord | None, request: RunRequest, unix_ms: int
) -> RunRecord | Problem:
    """The record as it should be after the request: the same one when nothing is to be written."""
    if record is not None and record.principal != principal:
        return _missing(run)
    match request:
        case TakeRun():
            return _take(run, principal, record, request, unix_ms)
        case ReportRun():
            return _report(run, record, request, unix_ms)
        case ApproveRun() | RejectRun():
            return _answer(run, principal, record, request, unix_ms)
        case GrantRun():
            return _grant(run, record, request, unix_ms)
        case CancelRun():
            if record is None:
                return _missing(run)
            if record.status.ended:
                return record
            return msgspec.structs.replace(record, status=RunStatus.CANCELLED)
        case ShowRun():
            return record if record is not None else _missing(run)
        case _:
            assert_never(request)


def _missing(run: str) -> Problem:
    return problem(Code.NOT_FOUND, f"There is no run {run!r} for you: take it, naming its deadline.")


def _over(run: str, record: RunRecord) -> Problem:
    return problem(Code.RUN_ENDED, f"The run {run!r} has ended ({record.status}): nothing changes that.")


def _fenced(run: str) -> Problem:
    return problem(Code.RUN_FENCED, f"Another worker has taken run {run!r} over: stop working on it.")


def _take(run: str, principal: str, record: RunRecord | None, take: TakeRun, unix_ms: int) -> RunRecord | Problem:
    """Raises the claim, unless the same holder asks again. A higher attempt starts the run anew."""
    if record is None:
        if take.deadline is None:
            return problem(Code.INVALID_REQUEST, f"The run {run!r} has no record yet: name its deadline.")
        return RunRecord(
            principal=principal,
            status=RunStatus.RUNNING,
            attempt=take.attempt,
            deadline_unix_ms=round(take.deadline.timestamp() * 1000),
            claim=1,
            holder=take.holder,
            worker=take.worker,
            parent=take.parent,
        )
    if take.attempt < record.attempt:
        return problem(Code.RUN_FENCED, f"Attempt {record.attempt} of run {run!r} has begun: stop this one.")
    again = take.attempt == record.attempt
    if again and (record.status.ended or record.deadline_unix_ms <= unix_ms):
        return problem(Code.RUN_ENDED, f"The run {run!r} has ended ({record.status}): start another attempt.")
    if again and record.holder == take.holder and record.status is RunStatus.RUNNING:
        return record
    deadline_ms = record.deadline_unix_ms if take.deadline is None else round(take.deadline.timestamp() * 1000)
    return msgspec.structs.replace(
        record,
        status=RunStatus.RUNNING,
        attempt=take.attempt,
        deadline_unix_ms=record.deadline_unix_ms if again else deadline_ms,
        claim=record.claim if again and record.holder == take.holder else record.claim + 1,
        holder=take.holder,
        worker=take.worker,
        parent=take.parent or record.parent,
        approvals=record.approvals if again else (),
    )


def _report(run: str, record: RunRecord | None, report: ReportRun, unix_ms: int) -> RunRecord | Problem:
    if record is None:
        return _missing(run)
    if report.claim < record.claim:
        return _fenced(run)
    if report.claim > record.claim:
        return problem(Code.INVALID_REQUEST, "The run record names a lower claim: take the run first.")
    if record.status is report.status and record.needs_page is report.status.needs_page:
        return record
    if record.status.ended:
        return _over(run, record)
    reported = msgspec.structs.replace(record, status=report.status)
    if report.status is not RunStatus.PARKED or reported.needs_page:
        return reported
    asked = Approval(
        id=report.id,
        question=report.question or "May the run go on?",
        asked_unix_ms=unix_ms,
        until_unix_ms=unix_ms + APPROVAL_MS,
    )
    return _with(reported, asked)


def ask_approval(run: str, claim: int, asked: Approval) -> Change:
    """Park the run on an approval of its own. The profile's owner asks, for an act of the lease that the claim holds.

    Asked again about the same act, the earlier question stands.
    """

    def change(record: RunRecord | None) -> RunRecord | Problem:
        if record is None:
            return problem(Code.RUN_ENDED, f"The run {run!r} has no record any more: it has ended.")
        if record.status.ended:
            return _over(run, record)
        if record.claim != claim:
            return _fenced(run)
        parked = msgspec.structs.replace(record, status=RunStatus.PARKED)
        stale = [one for one in record.approvals if _about(one) == _about(asked) and not _stands(one, asked)]
        kept = tuple(one for one in record.approvals if one not in stale)
        same = any(_about(one) == _about(asked) for one in kept)
        return parked if same else _with(msgspec.structs.replace(parked, approvals=kept), asked)

    return change


def pending(record: RunRecord, asked: Approval) -> Approval:
    """The question as it stands in the record: it may have been asked before."""
    return next(one for one in record.approvals if _about(one) == _about(asked))


def _stands(approval: Approval, asked: Approval) -> bool:
    return approval.state is ApprovalState.PENDING and asked.asked_unix_ms < approval.until_unix_ms


def _about(approval: Approval) -> tuple[object, ...]:
    pinned = (approval.payload_hash, approval.target_fingerprint)
    return (approval.profile, approval.lease, approval.sequence, *pinned)


def _with(record: RunRecord, asked: Approval) -> RunRecord | Problem:
    kept = list(record.approvals)
    while len(kept) >= APPROVALS_MAX:
        answered = next((one for one in kept if one.state is not ApprovalState.PENDING), None)
        if answered is None:
            return problem(Code.OVERLOADED, f"{APPROVALS_MAX} approvals wait for an answer: answer those first.")
        kept.remove(answered)
    return msgspec.structs.replace(record, approvals=(*kept, asked))


def _answer(run: str, principal: str, record: RunRecord | None, answer: AnswerRun, unix_ms: int) -> RunRecord | Problem:
    """Yes or no. The last answer that a parked run waited for queues it to go on."""
    if record is None:
        return _missing(run)
    state = ApprovalState.APPROVED if isinstance(answer, ApproveRun) else ApprovalState.REJECTED
    asked = _asked(record, answer.approval)
    if asked is None:
        nothing = "names no approval of it" if answer.approval else "must name which approval it is for"
        return problem(Code.INVALID_REQUEST, f"The answer to run {run!r} {nothing}: show the run to see what it asks.")
    if asked.state is state:
        return record
    if record.status.ended:
        return _over(run, record)
    if asked.state is not ApprovalState.PENDING:
        return problem(Code.INVALID_REQUEST, f"The approval was {asked.state} by {asked.answered_by}: that stands.")
    if unix_ms >= asked.until_unix_ms:
        late = "The approval's time is over and nothing was sent: the run asks again if it still wants to."
        return problem(Code.DEADLINE_PASSED, late)
    answered = msgspec.structs.replace(asked, state=state, answered_by=answer.by or principal)
    approvals = tuple(answered if one is asked else one for one in record.approvals)
    after = msgspec.structs.replace(record, approvals=approvals)
    if record.status is RunStatus.PARKED and not after.needs_page:
        return msgspec.structs.replace(after, status=RunStatus.QUEUED)
    return after


def _asked(record: RunRecord, name: str | None) -> Approval | None:
    if name is not None:
        return next((one for one in record.approvals if one.id == name), None)
    pending = [one for one in record.approvals if one.state is ApprovalState.PENDING]
    return pending[0] if len(pending) == 1 else None


def _grant(run: str, record: RunRecord | None, grant: GrantRun, unix_ms: int) -> RunRecord | Problem:
    if record is None:
        return _missing(run)
    if record.status.ended:
        return _over(run, record)
    standing = tuple(one for one in record.grants if one.expires_unix_ms > unix_ms and one != grant.constraint)
    if grant.withdraw:
        return msgspec.structs.replace(record, grants=standing)
    if grant.constraint in record.grants:
        return record
    if grant.constraint.expires_unix_ms <= unix_ms:
        return problem(Code.INVALID_REQUEST, "The grant expires in the past: name a later end.")
    if len(standing) >= GRANTS_MAX:
        return problem(Code.OVERLOADED, f"A run has {GRANTS_MAX} grants at most: withdraw one.")
    return msgspec.structs.replace(record, grants=(*standing, grant.constraint))
