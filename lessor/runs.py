"""What may be written into a run record, by whom (contract 16, 17). Pure."""

from typing import assert_never

import msgspec

from lessor.errors import Code, Problem, problem
from lessor.messages.request import CancelRun, ReportRun, RunRequest, ShowRun, TakeRun
from lessor.messages.run import RunRecord, RunStatus


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
            return _report(run, record, request)
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
    )


def _report(run: str, record: RunRecord | None, report: ReportRun) -> RunRecord | Problem:
    if record is None:
        return _missing(run)
    if report.claim < record.claim:
        return problem(Code.RUN_FENCED, f"Another worker has taken run {run!r} over: stop working on it.")
    if report.claim > record.claim:
        return problem(Code.INVALID_REQUEST, "The run record names a lower claim: take the run first.")
    if record.status is report.status:
        return record
    if record.status.ended:
        return problem(Code.RUN_ENDED, f"The run {run!r} has ended ({record.status}): nothing changes that.")
    return msgspec.structs.replace(record, status=report.status)
