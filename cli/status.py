"""`lessor status`: is anybody there, and who holds what."""

import asyncio
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from lessor.cli.answer import Answer, fields, table
from lessor.cli.call import Call, Where, call
from lessor.cli.options import DataDir, Json, Nats, Timeout
from lessor.cli.words import time_left
from lessor.errors import Code, LessorError, Problem, error_of, problem

if TYPE_CHECKING:
    from rich.console import Console

    from lessor.messages.reply import HolderView, StatusTold

SHOWN_MAX = 200
AT_ONCE_MAX = 16


class Overview(msgspec.Struct, frozen=True, kw_only=True):
    """`lessor status --json`."""

    hosts: tuple[str, ...] | None
    """None: the broker does not let this user ping them."""
    profiles: "tuple[StatusTold, ...]" = ()
    unread: dict[str, Problem] = {}
    """Profiles whose owner did not answer, with what it or the broker said."""
    total: int = 0


def status(
    profile: Annotated[str | None, typer.Argument(help="Only this profile, in full.", show_default=False)] = None,
    data_dir: DataDir = None,
    nats: Nats = None,
    as_json: Json = False,
    timeout: Timeout = 10.0,
) -> None:
    """Whether broker and hosts answer; which profile is held by whom, for how long, and who waits."""
    answer, where = Answer(as_json), Where(data_dir, nats)
    if profile is None:
        overview = call(_overview, where, timeout, answer, "asking broker and hosts")
        answer.give(overview, lambda out: _draw(out, overview))
        return
    one = profile

    async def work(at: Call) -> "StatusTold":
        from lessor.cli.session import name

        return await at.client.status(name(one, "profile"), at.deadline.left_s(reserve_s=0.2))

    told = call(work, where, timeout, answer, "asking the profile's owner")
    answer.give(told, lambda out: draw_one(out, told))


async def _overview(at: Call) -> Overview:
    hosts = await at.client.hosts(at.deadline.left_s(0.3))
    if hosts == ():
        raise error_of(
            problem(
                Code.BROKER_UNAVAILABLE, "The broker answers, but no host does: start one (lessor up, lessor host)."
            )
        )
    names = await at.client.profiles(at.deadline.left_s(reserve_s=0.5))
    told = await asked_at_once(at, names[:SHOWN_MAX])
    return Overview(
        hosts=None if isinstance(hosts, Problem) else hosts,
        profiles=tuple(one for one in told.values() if not isinstance(one, Problem)),
        unread={name: one for name, one in told.items() if isinstance(one, Problem)},
        total=len(names),
    )


async def asked_at_once(at: Call, names: tuple[str, ...]) -> "dict[str, StatusTold | Problem]":
    """The status of each profile, or why there is none."""
    gate = asyncio.Semaphore(AT_ONCE_MAX)

    async def ask(profile: str) -> "StatusTold | Problem":
        async with gate:
            try:
                return await at.client.status(profile, at.deadline.left_s(5.0, reserve_s=0.3))
            except LessorError as error:
                return error.problem

    return dict(zip(names, await asyncio.gather(*map(ask, names)), strict=True))


def _draw(out: "Console", overview: Overview) -> None:
    hosts = "unknown (pinging them is forbidden)" if overview.hosts is None else " ".join(overview.hosts)
    fields(out, (("broker", "answers"), ("hosts", hosts)))
    if not overview.total:
        out.print("no profiles: lessor profile create NAME --origin URL")
        return
    rows = [
        (one.profile, *_held(one.holder), str(len(one.queue) or ""), one.host, str(one.generation))
        for one in overview.profiles
    ]
    rows += [(name, f"? {one.code}", "", "", "", "", "") for name, one in overview.unread.items()]
    table(out, ("PROFILE", "RUN", "LEFT", "STATE", "WAITING", "HOST", "GENERATION"), rows)
    if overview.total > len(rows):
        out.print(f"and {overview.total - len(rows)} more: lessor profile list")


def _held(holder: "HolderView | None") -> tuple[str, str, str]:
    if holder is None:
        return ("free", "", "")
    return (holder.run, time_left(holder.expires_in_s), holder.busy or holder.state)


def draw_one(out: "Console", told: "StatusTold") -> None:
    pairs: list[tuple[str, object]] = [
        ("profile", told.profile),
        ("host", told.host),
        ("epoch", told.epoch),
        ("generation", told.generation),
    ]
    holder = told.holder
    if holder is None:
        pairs.append(("held by", "nobody"))
    else:
        pairs += [
            ("held by", f"run {holder.run} attempt {holder.attempt}, worker {holder.worker}"),
            ("state", holder.state),
            ("since", holder.since),
            ("time left", f"{time_left(holder.expires_in_s)} (until {holder.expires_at})"),
            ("next act", holder.next_sequence),
            ("page", holder.page_url),
            ("does", holder.busy),
        ]
    pairs.append(("waiting", " ".join(told.queue) or "nobody"))
    fields(out, pairs)
