"""`lessor lease list|show|renew|close`: who holds what, for how long, and who waits."""

import asyncio
import contextlib
import sys
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from lessor.cli.answer import Answer, console, fields, table
from lessor.cli.call import Call, Deadline, Where, call
from lessor.cli.leases import session_file
from lessor.cli.logs import log_to_stderr
from lessor.cli.options import DataDir, Json, Nats, Profile, Run, Timeout
from lessor.cli.progress import Progress
from lessor.cli.status import asked_at_once, draw_one
from lessor.cli.words import time_left
from lessor.errors import LessorError, Problem

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from lessor.messages.reply import Renewed, StatusTold

WATCH_S = 1.0


class Leases(msgspec.Struct, frozen=True, kw_only=True):
    """`lessor lease list --json`; with `--watch` an object a line, whenever something but the time left has changed."""

    leases: "tuple[StatusTold, ...]" = ()
    unread: dict[str, Problem] = {}
    """Profiles whose owner did not answer, with what it or the broker said."""


def list_(
    watch: Annotated[bool, typer.Option("--watch", help="Follow it live, until Ctrl-C.")] = False,
    data_dir: DataDir = None,
    nats: Nats = None,
    as_json: Json = False,
    timeout: Timeout = 10.0,
) -> None:
    """The leases of your profiles: holder, page, time left, queue. Profiles that nobody holds are not woken."""
    answer, where = Answer(as_json), Where(data_dir, nats)
    if watch:
        _watch(answer, where, timeout)
        return
    told = call(_leases, where, timeout, answer, "asking the owners")
    answer.give(told, lambda out: _draw(out, told))


async def _leases(at: Call) -> Leases:
    active = await at.client.active_profiles(at.deadline.left_s(reserve_s=0.5))
    told = await asked_at_once(at, active)
    return Leases(
        leases=tuple(
            one for one in told.values() if not isinstance(one, Problem) and (one.holder is not None or one.queue)
        ),
        unread={name: one for name, one in told.items() if isinstance(one, Problem)},
    )


def _watch(answer: Answer, where: Where, timeout_s: float) -> None:
    log_to_stderr("warning")

    async def follow() -> None:
        from rich.live import Live

        async with where.client() as client:
            live = None if answer.as_json else Live(console=console(sys.stdout.isatty()), auto_refresh=False)
            before: object = None
            with live if live is not None else contextlib.nullcontext():
                while True:
                    told = await _leases(Call(client, Deadline(timeout_s), Progress("following")))
                    if live is not None:
                        live.update(_table(told), refresh=True)
                    elif (now := _without_time(told)) != before:
                        before = now
                        answer.json(told)
                    await asyncio.sleep(WATCH_S)

    try:
        asyncio.run(follow())
    except LessorError as error:
        answer.refuse(error.problem)
    except KeyboardInterrupt:
        return


def _without_time(told: Leases) -> object:
    return (
        tuple(
            msgspec.structs.replace(
                one,
                clock_ms=0,
                holder=one.holder and msgspec.structs.replace(one.holder, expires_in_s=0.0),
            )
            for one in told.leases
        ),
        told.unread,
    )


HEAD = ("PROFILE", "RUN", "WORKER", "LEFT", "STATE", "PAGE", "QUEUE")


def _rows(told: Leases) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = []
    for one in told.leases:
        holder = one.holder
        queue = " ".join(one.queue)
        if holder is None:
            rows.append((one.profile, "free", "", "", "", "", queue))
            continue
        left, state = time_left(holder.expires_in_s), holder.busy or holder.state
        rows.append((one.profile, holder.run, holder.worker, left, state, holder.page_url or "", queue))
    rows += [(name, f"? {one.code}", "", "", "", "", "") for name, one in told.unread.items()]
    return rows


def _draw(out: "Console", told: Leases) -> None:
    rows = _rows(told)
    if rows:
        table(out, HEAD, rows)
    else:
        out.print("no leases")


def _table(told: Leases) -> "Table | str":
    from lessor.cli.answer import drawn

    return drawn(HEAD, _rows(told)) if _rows(told) else "no leases"


def show(
    profile: Profile, data_dir: DataDir = None, nats: Nats = None, as_json: Json = False, timeout: Timeout = 10.0
) -> None:
    """One profile's lease in full."""

    async def work(at: Call) -> "StatusTold":
        from lessor.cli.session import name

        return await at.client.status(name(profile, "profile"), at.deadline.left_s(reserve_s=0.2))

    answer = Answer(as_json)
    told = call(work, Where(data_dir, nats), timeout, answer, "asking the profile's owner")
    answer.give(told, lambda out: draw_one(out, told))


def renew(
    profile: Profile,
    run: Run,
    horizon_s: Annotated[float, typer.Option("--horizon-s", min=1, max=900, help="How long from now.")] = 900.0,
    data_dir: DataDir = None,
    nats: Nats = None,
    as_json: Json = False,
    timeout: Timeout = 10.0,
) -> None:
    """Keep the lease for longer: 15 min at a time, 60 min in all, never past the run's deadline."""
    answer, where = Answer(as_json), Where(data_dir, nats)
    file = session_file(where, run, answer)

    async def work(at: Call) -> "Renewed":
        from lessor.cli.errand import Errand

        return await Errand(at, file).renew(profile, horizon_s)

    told = call(work, where, timeout, answer, "renewing the lease")
    assert told.lease is not None
    left = time_left(told.lease.expires_in_s)
    answer.give(told, lambda out: fields(out, (("renewed", profile), ("time left", left))))
