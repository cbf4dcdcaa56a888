"""`lessor acquire|navigate|observe|act|close`: one thing for one run, then gone; the lease stays."""

from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from lessor.cli import words
from lessor.cli.answer import Answer, fields, plain, table
from lessor.cli.call import Call, Where, call, whoami
from lessor.cli.options import DataDir, Json, Nats, Profile, Run, Tab, Timeout
from lessor.errors import Code, Effect, LessorError, Problem, problem

if TYPE_CHECKING:
    from rich.console import Console

    from lessor.cli.session import SessionFile
    from lessor.messages.action import Observation, PageView
    from lessor.messages.reply import Acted, Receipt


class Leased(msgspec.Struct, frozen=True, kw_only=True):
    """`lessor acquire --json`."""

    profile: str
    run: str
    lease: str
    claim: int
    next_sequence: int
    expires_in_s: float
    reattached: bool
    generation: int
    host: str


def acquire(  # noqa: PLR0913 -- an option each
    profile: Profile,
    *,
    run: Run,
    attempt: Annotated[int, typer.Option("--attempt", min=1, help="Which try of the run this is.")] = 1,
    horizon_s: Annotated[float, typer.Option("--horizon-s", min=1, max=900, help="The lease's first term.")] = 900.0,
    wait_s: Annotated[float, typer.Option("--wait-s", min=0, max=3600, help="How long to queue for it.")] = 30.0,
    deadline_s: Annotated[
        float, typer.Option("--deadline-s", min=1, max=86_400, help="When the run has to be over, from now.")
    ] = 3600.0,
    data_dir: DataDir = None,
    nats: Nats = None,
    as_json: Json = False,
    timeout: Timeout = 60.0,
) -> None:
    """Take the run and lease the profile; a run that holds it already gets the same page again."""
    answer, where = Answer(as_json), Where(data_dir, nats)
    file = session_file(where, run, answer)

    async def work(at: Call) -> Leased:
        from lessor.cli.errand import Errand
        from lessor.cli.session import name

        with file.locked():
            told, session = await Errand(at, file).acquire(
                name(profile, "profile"), attempt, deadline_s, horizon_s, wait_s
            )
        assert told.lease is not None
        return Leased(
            profile=profile,
            run=session.run,
            lease=told.lease.lease,
            claim=told.lease.claim,
            next_sequence=told.lease.next_sequence,
            expires_in_s=told.lease.expires_in_s,
            reattached=told.reattached,
            generation=told.generation,
            host=told.lease.host,
        )

    leased = call(work, where, timeout, answer, "starting the profile's browser")
    how = (
        "the same page"
        if leased.reattached
        else (f"sealed generation {leased.generation}" if leased.generation else "a fresh browser")
    )
    answer.give(
        leased,
        lambda out: fields(
            out,
            (
                ("leased", f"{leased.profile} to run {leased.run}, {how}"),
                ("lease", leased.lease),
                ("time left", words.time_left(leased.expires_in_s)),
                ("next act", leased.next_sequence),
                ("host", leased.host),
            ),
        ),
    )


def navigate(
    profile: Profile,
    url: Annotated[str, typer.Argument(help="Of an origin that the profile allows.", show_default=False)],
    run: Run,
    tab: Tab = "main",
    data_dir: DataDir = None,
    nats: Nats = None,
    as_json: Json = False,
    timeout: Timeout = 25.0,
) -> None:
    """Open a URL in the leased page."""
    answer, where = Answer(as_json), Where(data_dir, nats)
    file = session_file(where, run, answer)

    async def work(at: Call) -> "PageView":
        from lessor.cli.errand import Errand

        with file.locked():
            return await Errand(at, file).navigate(profile, url, tab)

    page = call(work, where, timeout, answer, f"opening {url}")
    answer.give(
        page,
        lambda out: fields(
            out, (("url", page.url), ("title", page.title), ("status", page.status), ("revision", page.revision))
        ),
    )


def observe(
    profile: Profile,
    run: Run,
    tab: Tab = "main",
    data_dir: DataDir = None,
    nats: Nats = None,
    as_json: Json = False,
    timeout: Timeout = 15.0,
) -> None:
    """Read the leased page: its text, and the elements that can be acted on."""
    answer, where = Answer(as_json), Where(data_dir, nats)
    file = session_file(where, run, answer)

    async def work(at: Call) -> "Observation":
        from lessor.cli.errand import Errand

        with file.locked():
            return await Errand(at, file).observe(profile, tab)

    page = call(work, where, timeout, answer, "reading the page")
    answer.give(page, lambda out: _draw_page(out, page))


def act(  # noqa: PLR0913 -- an option each
    profile: Profile,
    what: Annotated[list[str], typer.Argument(help=words.HELP, show_default=False, metavar="ACTION...")],
    *,
    run: Run,
    off: Annotated[bool, typer.Option("--off", help="For check: take the mark away.")] = False,
    ref: Annotated[str | None, typer.Option("--ref", help="For press and scroll: on this element.")] = None,
    by_px: Annotated[int, typer.Option("--by-px", help="For scroll: so far, down or (negative) up.")] = 0,
    secret: Annotated[
        str | None, typer.Option("--secret", help="For type: a secret of the host, for password fields.")
    ] = None,
    revision: Annotated[
        str | None, typer.Option("--revision", help="What was seen; else what this run saw last.", show_default=False)
    ] = None,
    match: Annotated[str, typer.Option("--match", help="What must be unchanged: target or page.")] = "target",
    step: Annotated[str | None, typer.Option("--step", help="The step that this act belongs to.")] = None,
    task: Annotated[str | None, typer.Option("--task", help="The step's task; else the run's name.")] = None,
    commit: Annotated[bool, typer.Option("--commit", help="This act is the step's commit: at most once.")] = False,
    tab: Tab = "main",
    data_dir: DataDir = None,
    nats: Nats = None,
    as_json: Json = False,
    timeout: Timeout = 45.0,
) -> None:
    """One input to the page, at most once. The same command again, after an answer was lost, gets the recorded one."""
    answer, where = Answer(as_json), Where(data_dir, nats)
    file = session_file(where, run, answer)
    how = words.How(off=off, ref=ref, by_px=by_px, secret=secret)
    action = words.action(what, how)
    if isinstance(action, Problem):
        answer.refuse(action)
    unchanged = words.match(match)
    if isinstance(unchanged, Problem):
        answer.refuse(unchanged)
    belongs = words.step(task or run, step, commit)
    if isinstance(belongs, Problem):
        answer.refuse(belongs)

    async def work(at: Call) -> "Acted":
        from lessor.cli.errand import Errand

        with file.locked():
            return await Errand(at, file).act(profile, action, revision, tab, unchanged, belongs)

    late = problem(
        Code.PENDING,
        f"There was no word of the act within {timeout:g} s: give the same command again, it gets the recorded"
        " outcome and is never done twice.",
        effect=Effect.UNKNOWN,
    )
    told = call(work, where, timeout, answer, "acting on the page", late)
    answer.give(told, lambda out: _draw_act(out, told))


def close(
    profile: Profile,
    run: Run,
    discard: Annotated[bool, typer.Option("--discard", help="Throw the state away instead of sealing it.")] = False,
    data_dir: DataDir = None,
    nats: Nats = None,
    as_json: Json = False,
    timeout: Timeout = 30.0,
) -> None:
    """Seal the profile's state and end the lease. The run goes on and may acquire again."""
    answer, where = Answer(as_json), Where(data_dir, nats)
    file = session_file(where, run, answer)

    async def work(at: Call) -> "Receipt":
        from lessor.cli.errand import Errand

        # Not locked: closing cancels what another command of this run still does.
        return await Errand(at, file).close(profile, discard)

    receipt = call(work, where, timeout, answer, "sealing the profile's state")
    if receipt.kind == "seal_failed":
        why = f"The lease ended unsealed ({receipt.reason}): the last seal stands."
        if receipt.aside is not None:
            why = f"The state failed the health check and lies aside as generation {receipt.aside}."
        answer.refuse(problem(Code.SEAL_FAILED, why))
    generation = f" as generation {receipt.generation}" if receipt.generation is not None else ""
    answer.give(receipt, lambda out: out.print(f"{receipt.kind}{generation} ({receipt.reason})"))


def session_file(where: Where, run: str, answer: Answer) -> "SessionFile":
    from lessor.cli.session import SessionFile

    try:
        who = whoami()
        return SessionFile(where.config().data_dir, who.tenant, who.principal, run)
    except LessorError as error:
        answer.refuse(error.problem)


def _draw_page(out: "Console", page: "Observation") -> None:
    fields(out, (("url", page.url), ("title", page.title), ("revision", page.revision)))
    out.print()
    out.print(plain(page.text), soft_wrap=True)
    out.print()
    rows = [(one.ref, one.role, one.name, one.value or "", " ".join(one.state)) for one in page.elements]
    if rows:
        table(out, ("REF", "ROLE", "NAME", "VALUE", "STATE"), rows)
    if page.truncated:
        out.print(f"cut: {len(page.elements)} of {page.total} elements, text of {page.text_total} bytes")


def _draw_act(out: "Console", told: "Acted") -> None:
    how = "applied before, as recorded; not done again" if told.recorded else "applied"
    page = told.page
    fields(
        out,
        (
            (f"act {told.sequence}", how),
            ("changed", "something beside the target, too" if told.changed else None),
            ("url", page.url if page is not None else None),
            ("title", page.title if page is not None else None),
            ("revision", page.revision if page is not None else "observe the page before the next act"),
        ),
    )
