"""`lessor run list|show|cancel|park|resume|finish`, `lessor approve|reject|grant`: what runs do, and what they ask."""

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from lessor.cli.answer import Answer, fields, table
from lessor.cli.call import Call, Where, call
from lessor.cli.options import DataDir, Json, Nats, Timeout
from lessor.messages.reply import RunsListed, RunTold
from lessor.messages.run import ApprovalState, RunStatus

if TYPE_CHECKING:
    from rich.console import Console

RunName = Annotated[str, typer.Argument(help="The run's name.", show_default=False)]
ApprovalName = Annotated[
    str | None, typer.Argument(help="Which approval; none: the only one that is pending.", show_default=False)
]
By = Annotated[str | None, typer.Option("--by", help="Who answers; else the principal.", show_default=False)]


def list_(
    open_only: Annotated[bool, typer.Option("--open", help="Only those that have not ended.")] = False,
    data_dir: DataDir = None,
    nats: Nats = None,
    as_json: Json = False,
    timeout: Timeout = 10.0,
) -> None:
    """Your runs, the latest change first, with the questions that wait for an answer."""

    async def work(at: Call) -> RunsListed:
        return RunsListed(runs=await at.client.runs(open_only=open_only, timeout_s=at.deadline.left_s(reserve_s=0.2)))

    answer = Answer(as_json)
    told = call(work, Where(data_dir, nats), timeout, answer, "listing the runs")
    answer.give(told, lambda out: _draw_list(out, told))


def show(
    run: RunName, data_dir: DataDir = None, nats: Nats = None, as_json: Json = False, timeout: Timeout = 10.0
) -> None:
    """A run's record: status, worker, deadline, approvals, grants."""
    _tell(run, lambda at: at.client.show_run(run, _left_s(at)), Where(data_dir, nats), as_json, timeout)


def cancel(
    run: RunName, data_dir: DataDir = None, nats: Nats = None, as_json: Json = False, timeout: Timeout = 10.0
) -> None:
    """Cancel the run: its leases are sealed and closed. An act under way settles first."""
    _tell(run, lambda at: at.client.cancel_run(run, _left_s(at)), Where(data_dir, nats), as_json, timeout)


def park(
    run: RunName,
    question: Annotated[str, typer.Option("--question", help="What its owner is asked.")] = "May the run go on?",
    data_dir: DataDir = None,
    nats: Nats = None,
    as_json: Json = False,
    timeout: Timeout = 10.0,
) -> None:
    """Park the run on a question. It keeps its page until `lessor approve` or `lessor reject`."""
    _report(run, RunStatus.PARKED, question, Where(data_dir, nats), as_json, timeout)


def resume(
    run: RunName, data_dir: DataDir = None, nats: Nats = None, as_json: Json = False, timeout: Timeout = 10.0
) -> None:
    """The run is running again, under the worker that has it."""
    _report(run, RunStatus.RUNNING, None, Where(data_dir, nats), as_json, timeout)


def finish(
    run: RunName,
    failed: Annotated[bool, typer.Option("--failed", help="It has failed.")] = False,
    data_dir: DataDir = None,
    nats: Nats = None,
    as_json: Json = False,
    timeout: Timeout = 10.0,
) -> None:
    """The run is over: its leases are sealed and closed."""
    status = RunStatus.FAILED if failed else RunStatus.FINISHED
    _report(run, status, None, Where(data_dir, nats), as_json, timeout)


def approve(
    run: RunName,
    approval: ApprovalName = None,
    by: By = None,
    data_dir: DataDir = None,
    nats: Nats = None,
    as_json: Json = False,
    timeout: Timeout = 10.0,
) -> None:
    """Say yes to what the run asks: it goes on with the same page and the same act."""

    def work(at: Call) -> Awaitable[RunTold]:
        return at.client.approve(run, approval, by=by, timeout_s=_left_s(at))

    _tell(run, work, Where(data_dir, nats), as_json, timeout)


def reject(
    run: RunName,
    approval: ApprovalName = None,
    by: By = None,
    data_dir: DataDir = None,
    nats: Nats = None,
    as_json: Json = False,
    timeout: Timeout = 10.0,
) -> None:
    """Say no: nothing was sent, and nothing will be."""

    def work(at: Call) -> Awaitable[RunTold]:
        return at.client.reject(run, approval, by=by, timeout_s=_left_s(at))

    _tell(run, work, Where(data_dir, nats), as_json, timeout)


def grant(
    run: RunName,
    origin: Annotated[list[str], typer.Option("--origin", help="On pages of this origin; 1 to 64.")],
    kind: Annotated[list[str], typer.Option("--kind", help="This kind of act: click, type … or commit.")],
    expires_s: Annotated[float, typer.Option("--expires-s", min=1, max=86_400, help="For how long.")] = 900.0,
    data_dir: DataDir = None,
    nats: Nats = None,
    as_json: Json = False,
    timeout: Timeout = 10.0,
) -> None:
    """Allow the run acts in advance; its program names the constraint with each."""

    async def work(at: Call) -> RunTold:
        await at.client.grant(run, origins=origin, kinds=kind, expires_s=expires_s, timeout_s=_left_s(at))
        return await at.client.show_run(run, _left_s(at))

    _tell(run, work, Where(data_dir, nats), as_json, timeout)


def _left_s(at: Call) -> float:
    return at.deadline.left_s(reserve_s=0.2)


def _report(run: str, status: RunStatus, question: str | None, where: Where, as_json: bool, timeout_s: float) -> None:
    """In the name of whoever has the run: a worker that works on it is told by its next answer."""

    async def work(at: Call) -> RunTold:
        from lessor.ids import fresh_id
        from lessor.messages.request import ReportRun

        client = at.client
        claim = (await client.show_run(run, _left_s(at))).record.claim
        request = ReportRun(id=fresh_id(), claim=claim, status=status, question=question)
        return await client.ask(client.talk.to.run(run, "report"), request, RunTold, _left_s(at))

    _tell(run, work, where, as_json, timeout_s)


def _tell(run: str, work: Callable[[Call], Awaitable[RunTold]], where: Where, as_json: bool, timeout_s: float) -> None:
    from lessor.cli.session import name

    async def checked(at: Call) -> RunTold:
        name(run, "run")
        return await work(at)

    answer = Answer(as_json)
    told = call(checked, where, timeout_s, answer, "asking for the run")
    answer.give(told, lambda out: _draw(out, told))


def _draw(out: "Console", told: RunTold) -> None:
    record = told.record
    pairs: list[tuple[str, object]] = [
        ("run", told.run),
        ("status", record.status),
        ("attempt", record.attempt),
        ("deadline", _moment(record.deadline_unix_ms)),
        ("worker", f"{record.worker}, claim {record.claim}"),
        ("parent", record.parent),
    ]
    for one in record.approvals:
        by = f" by {one.answered_by}" if one.answered_by else f" until {_moment(one.until_unix_ms)}"
        pairs.append((f"approval {one.id}", f"{one.question} ({one.state}{by})"))
    for given in record.grants:
        what = f"{' '.join(given.kinds)} at {' '.join(given.origins)} until {_moment(given.expires_unix_ms)}"
        pairs.append(("granted", what))
    fields(out, pairs)


def _draw_list(out: "Console", told: RunsListed) -> None:
    rows = [
        (
            one.run,
            one.record.status,
            str(one.record.attempt),
            one.record.worker or "",
            _moment(one.record.deadline_unix_ms),
            "; ".join(asked.question for asked in one.record.approvals if asked.state is ApprovalState.PENDING),
        )
        for one in told.runs
    ]
    if rows:
        table(out, ("RUN", "STATUS", "ATTEMPT", "WORKER", "DEADLINE", "ASKS"), rows)
    else:
        out.print("no runs")


def _moment(unix_ms: int) -> str:
    return datetime.fromtimestamp(unix_ms / 1000, UTC).isoformat(timespec="seconds")
