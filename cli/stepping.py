"""`lessor steps`, `lessor resolve`, `lessor outcome`: what became of what was done, and a person's word on it."""

import getpass
from typing import TYPE_CHECKING, Annotated, Literal

import msgspec
import typer

from lessor.cli.answer import Answer, fields, table
from lessor.cli.call import Call, Where, call, whoami
from lessor.cli.options import DataDir, Json, Nats, Profile, Timeout
from lessor.errors import Code, error_of, problem
from lessor.messages.step import StepRecord

if TYPE_CHECKING:
    from rich.console import Console

    from lessor.messages.reply import OutcomeTold, Reconciled

KEY_SHOWN = 12
"""Characters of a request key in a table; any beginning of at least so many names a step."""


class Placed(msgspec.Struct, frozen=True, kw_only=True):
    """A step and its profile: `lessor steps --json`, in `steps`."""

    profile: str
    step: StepRecord


class Steps(msgspec.Struct, frozen=True, kw_only=True):
    """`lessor steps --json`."""

    steps: tuple[Placed, ...]


def steps(
    *,
    unknown: Annotated[bool, typer.Option("--unknown", help="Only those that nobody knows about.")] = False,
    unverified: Annotated[bool, typer.Option("--unverified", help="Only those done without evidence.")] = False,
    open_: Annotated[bool, typer.Option("--open", help="Only those that somebody must look into.")] = False,
    profile: Annotated[str | None, typer.Option("--profile", help="Only this profile's.")] = None,
    run: Annotated[str | None, typer.Option("--run", help="Only this run's.")] = None,
    data_dir: DataDir = None,
    nats: Nats = None,
    as_json: Json = False,
    timeout: Timeout = 30.0,
) -> None:
    """The steps on record: what is known of each, and what rests on what."""
    only: Literal["all", "open", "unknown", "unverified"] = "all"
    if unknown + unverified + open_ > 1:
        raise typer.BadParameter("one of --unknown, --unverified, --open")
    if unknown or unverified or open_:
        only = "unknown" if unknown else "unverified" if unverified else "open"
    answer = Answer(as_json)

    async def work(at: Call) -> Steps:
        return Steps(steps=tuple(await _all(at, profile, run, only)))

    found = call(work, Where(data_dir, nats), timeout, answer, "asking the profiles' owners")
    answer.give(found, lambda out: _draw(out, found.steps))


async def _all(
    at: Call, profile: str | None, run: str | None, only: Literal["all", "open", "unknown", "unverified"]
) -> list[Placed]:
    names = (profile,) if profile is not None else await at.client.profiles(at.deadline.left_s(reserve_s=0.5))
    found: list[Placed] = []
    for name in names:
        told = await at.client.steps(name, run=run, only=only, timeout_s=at.deadline.left_s(10.0, reserve_s=0.3))
        found.extend(Placed(profile=name, step=step) for step in told)
    return found


def _draw(out: "Console", found: tuple[Placed, ...]) -> None:
    if not found:
        out.print("no such steps")
        return
    rows = [
        (
            one.profile,
            one.step.run,
            f"{one.step.task}:{one.step.step}",
            word(one.step),
            one.step.request_key[:KEY_SHOWN],
            one.step.evidence or ", ".join(f"waits for {key[:KEY_SHOWN]}" for key in one.step.blocked_by),
        )
        for one in found
    ]
    table(out, ("PROFILE", "RUN", "STEP", "STATE", "KEY", "EVIDENCE"), rows)


def word(step: StepRecord) -> str:
    """A step's state for people."""
    if step.state is None:
        return "not committed" if step.desired.effects else "without effects"
    return "DISPATCHED, unverified" if step.unverified else str(step.state)


def resolve(
    step: Annotated[str, typer.Argument(help="Its name, task:name, or the beginning of its key.", show_default=False)],
    verdict: Annotated[str, typer.Argument(help="succeeded or not-sent.", show_default=False)],
    *,
    evidence: Annotated[str, typer.Option("--evidence", help="What you saw, and where. It is kept for good.")],
    looked_s: Annotated[float, typer.Option("--looked-s", min=0, help="How long ago you looked, in seconds.")] = 0.0,
    profile: Annotated[str | None, typer.Option("--profile", help="The step's profile.")] = None,
    data_dir: DataDir = None,
    nats: Nats = None,
    as_json: Json = False,
    timeout: Timeout = 30.0,
) -> None:
    """Say what became of a step that nobody knows about. You looked; it goes on record with your name and the time."""
    answer = Answer(as_json)
    said: Literal["succeeded", "not_sent"]
    match verdict.replace("-", "_"):
        case "succeeded":
            said = "succeeded"
        case "not_sent":
            said = "not_sent"
        case _:
            raise typer.BadParameter("succeeded or not-sent")

    async def work(at: Call) -> "Reconciled":
        found = _one(await _all(at, profile, None, "all"), step)
        told = await at.client.outcome(found.profile, key=found.step.request_key)
        if told is None:
            raise error_of(problem(Code.NO_RECORD, f"The step {step!r} was never committed: there is nothing to say."))
        return await at.client.reconcile(
            found.profile,
            found.step.request_key,
            said,
            evidence=evidence,
            by=f"{getpass.getuser()} as {whoami().principal}"[:200],
            looked_up_ms=max(0, told.clock_ms - round(looked_s * 1000)),
            how="person",
        )

    told = call(work, Where(data_dir, nats), timeout, answer, "asking the step's owner")
    if not told.counted:
        when = f" again in {told.retry_after_s:.0f} s" if told.retry_after_s is not None else " again"
        early = "Recorded, but it does not count yet: the try that was lost could still arrive. Look" + when + "."
        answer.refuse(problem(Code.PENDING, early, retry_after_s=told.retry_after_s))
    answer.give(told, lambda out: fields(out, ((step, told.step),)))


def _one(found: list[Placed], step: str) -> Placed:
    """The step that is meant, or LessorError."""
    named = [
        one
        for one in found
        if step in (one.step.step, f"{one.step.task}:{one.step.step}", one.step.request_key)
        or (len(step) >= KEY_SHOWN and one.step.request_key.startswith(step))
    ]
    match named:
        case [one]:
            return one
        case []:
            raise error_of(problem(Code.NOT_FOUND, f"There is no step {step!r} on record: lessor steps."))
        case _:
            several = ", ".join(f"{one.profile} {one.step.request_key[:KEY_SHOWN]}" for one in named[:4])
            raise error_of(problem(Code.INVALID_REQUEST, f"Several steps are meant ({several}): name one by its key."))


def outcome(  # noqa: PLR0913 -- an option each
    profile: Profile,
    *,
    key: Annotated[str | None, typer.Option("--key", help="The request key of a step's commit.")] = None,
    task: Annotated[str | None, typer.Option("--task", help="With --step, instead of the key.")] = None,
    step: Annotated[str | None, typer.Option("--step", help="With --task, instead of the key.")] = None,
    lease: Annotated[str | None, typer.Option("--lease", help="With --sequence: one act of a lease.")] = None,
    sequence: Annotated[int | None, typer.Option("--sequence", min=1, help="The act's number.")] = None,
    data_dir: DataDir = None,
    nats: Nats = None,
    as_json: Json = False,
    timeout: Timeout = 10.0,
) -> None:
    """What is on record of an act, by request key or by number; also long after its lease is gone."""
    answer = Answer(as_json)
    from lessor.messages.ids import request_key

    if key is None and task is not None and step is not None:
        key = request_key(task, step)
    if key is None and (lease is None or sequence is None):
        raise typer.BadParameter("--key, or --task and --step, or --lease and --sequence")

    async def work(at: Call) -> "OutcomeTold":
        told = await at.client.outcome(
            profile, key=key, lease=lease, sequence=sequence, timeout_s=at.deadline.left_s(reserve_s=0.2)
        )
        if told is None:
            none = "There is no such commit on record. That says nothing about the outside world: look there."
            raise error_of(problem(Code.NO_RECORD, none))
        return told

    told = call(work, Where(data_dir, nats), timeout, answer, "asking the profile's owner")
    answer.give(
        told,
        lambda out: fields(
            out,
            (
                ("outcome", told.outcome),
                ("step", told.step),
                ("evidence", told.evidence),
                ("act", f"{told.sequence} of lease {told.by_lease}"),
                ("lease", "live" if told.lease_live else "over"),
            ),
        ),
    )
