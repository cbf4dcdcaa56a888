"""`lessor profile create|list|show|revoke|delete|check|generations|rollback`."""

from typing import TYPE_CHECKING, Annotated

import typer

from lessor.cli.answer import Answer, fields, table
from lessor.cli.call import Call, Where, call
from lessor.cli.options import DataDir, Json, Nats, Profile, Timeout
from lessor.errors import Code, problem

if TYPE_CHECKING:
    from rich.console import Console

    from lessor.messages.policy import PagePolicy
    from lessor.messages.reply import ProfileTold


def create(  # noqa: PLR0913 -- an option each
    name: Profile,
    *,
    origin: Annotated[list[str], typer.Option("--origin", help="An origin that its pages may have; 1 to 64.")],
    settle_s: Annotated[
        float, typer.Option("--settle-s", min=0, max=3600, help="How long a try may still take effect after its page.")
    ] = 30.0,
    strict: Annotated[bool, typer.Option("--strict", help="Sub-resources from these origins only, too.")] = False,
    idempotent: Annotated[
        bool, typer.Option("--idempotent", help="The target itself refuses a second use of a request key.")
    ] = False,
    dialogs: Annotated[str, typer.Option("--dialogs", help="dismiss, accept, or ask.")] = "dismiss",
    leaving: Annotated[
        str, typer.Option("--leaving", help="A page that wants its visitor to stay: stay, leave, or ask.")
    ] = "stay",
    popups: Annotated[str, typer.Option("--popups", help="keep them as tabs, or close them.")] = "keep",
    popups_max: Annotated[int, typer.Option("--popups-max", min=0, max=49, help="More at once are closed.")] = 10,
    downloads: Annotated[str, typer.Option("--downloads", help="keep them as artifacts, or refuse them.")] = "keep",
    files_bytes_max: Annotated[
        int, typer.Option("--files-bytes-max", min=0, max=60 << 20, help="All artifacts of one lease together.")
    ] = 32 << 20,
    approve: Annotated[
        list[str] | None,
        typer.Option("--approve", help="A kind of act that needs a yes: click, type … or commit.", show_default=False),
    ] = None,
    health_url: Annotated[
        str | None, typer.Option("--health-url", help="A page that only a logged-in browser is shown.")
    ] = None,
    health_text: Annotated[str | None, typer.Option("--health-text", help="What it must show.")] = None,
    health_cookie: Annotated[str | None, typer.Option("--health-cookie", help="A cookie there must be.")] = None,
    data_dir: DataDir = None,
    nats: Nats = None,
    as_json: Json = False,
    timeout: Timeout = 10.0,
) -> None:
    """Make a profile known, or change its settings while it is free. Safe to repeat."""
    from lessor.cli.session import name as checked
    from lessor.messages.health import HealthCheck

    if health_url is None and (health_text or health_cookie):
        Answer(as_json).refuse(problem(Code.INVALID_REQUEST, "A health check needs a page: name it with --health-url."))
    health = HealthCheck(url=health_url, text=health_text, cookie=health_cookie) if health_url else None

    policy = _policy(
        {
            "dialogs": dialogs,
            "leaving": leaving,
            "popups": popups,
            "popups_max": popups_max,
            "downloads": downloads,
            "files_bytes_max": files_bytes_max,
        },
        Answer(as_json),
    )

    async def work(at: Call) -> "ProfileTold":
        return await at.client.create_profile(
            checked(name, "profile"),
            origins=origin,
            settle_s=settle_s,
            strict=strict,
            idempotent_target=idempotent,
            policy=policy,
            approve=approve or (),
            health=health,
            timeout_s=at.deadline.left_s(reserve_s=0.2),
        )

    _tell(Answer(as_json), call(work, Where(data_dir, nats), timeout, Answer(as_json), "creating the profile"))


def show(
    name: Profile, data_dir: DataDir = None, nats: Nats = None, as_json: Json = False, timeout: Timeout = 10.0
) -> None:
    """Settings, state and sealed generation of a profile."""
    from lessor.cli.session import name as checked

    async def work(at: Call) -> "ProfileTold":
        return await at.client.show_profile(checked(name, "profile"), at.deadline.left_s(reserve_s=0.2))

    _tell(Answer(as_json), call(work, Where(data_dir, nats), timeout, Answer(as_json), "asking for the profile"))


def revoke(
    name: Profile, data_dir: DataDir = None, nats: Nats = None, as_json: Json = False, timeout: Timeout = 10.0
) -> None:
    """Fence a profile for good: no lease any more, a live one ends at once, unsealed."""
    from lessor.cli.session import name as checked

    async def work(at: Call) -> "ProfileTold":
        return await at.client.revoke_profile(checked(name, "profile"), at.deadline.left_s(reserve_s=0.2))

    _tell(Answer(as_json), call(work, Where(data_dir, nats), timeout, Answer(as_json), "revoking the profile"))


def delete(
    name: Profile, data_dir: DataDir = None, nats: Nats = None, as_json: Json = False, timeout: Timeout = 30.0
) -> None:
    """Remove all sealed state of a revoked profile. Its name is not given again."""
    from lessor.cli.session import name as checked

    async def work(at: Call) -> "ProfileTold":
        return await at.client.delete_profile(checked(name, "profile"), at.deadline.left_s(reserve_s=0.2))

    _tell(Answer(as_json), call(work, Where(data_dir, nats), timeout, Answer(as_json), "deleting the profile"))


def check(
    name: Profile, data_dir: DataDir = None, nats: Nats = None, as_json: Json = False, timeout: Timeout = 30.0
) -> None:
    """Run the health check on the current state, in a browser of its own. Exit code 19 when it fails."""
    from lessor.cli.session import name as checked

    async def work(at: Call) -> "ProfileTold":
        return await at.client.check_profile(checked(name, "profile"), at.deadline.left_s(reserve_s=0.2))

    answer = Answer(as_json)
    told = call(work, Where(data_dir, nats), timeout, answer, "checking the profile")
    if told.state != "ready":
        failed = Code.NEEDS_USER if told.state == "needs_user" else Code.AUTHENTICATION_REQUIRED
        answer.refuse(problem(failed, told.why or "The health check failed: log the profile in."))
    _tell(answer, told)


def rollback(
    name: Profile,
    generation: Annotated[int, typer.Argument(help="Which: see `lessor profile generations`.", min=1)],
    data_dir: DataDir = None,
    nats: Nats = None,
    as_json: Json = False,
    timeout: Timeout = 30.0,
) -> None:
    """Make the state of an earlier, or an unhealthy, generation the current one: as a new generation."""
    from lessor.cli.session import name as checked

    async def work(at: Call) -> "ProfileTold":
        left_s = at.deadline.left_s(reserve_s=0.2)
        return await at.client.roll_back(checked(name, "profile"), generation, left_s)

    _tell(Answer(as_json), call(work, Where(data_dir, nats), timeout, Answer(as_json), "rolling the profile back"))


def generations(
    name: Profile, data_dir: DataDir = None, nats: Nats = None, as_json: Json = False, timeout: Timeout = 10.0
) -> None:
    """The sealed generations that are kept, newest first."""
    from lessor.cli.session import name as checked
    from lessor.messages.reply import GenerationsTold

    async def work(at: Call) -> GenerationsTold:
        return await at.client.generations(checked(name, "profile"), at.deadline.left_s(reserve_s=0.2))

    answer = Answer(as_json)
    told = call(work, Where(data_dir, nats), timeout, answer, "asking for the generations")
    rows = [
        (
            str(one.generation),
            "current" if one.current else "unhealthy" if one.unhealthy else "",
            f"{one.source} on {one.base}" if one.base else one.source,
            one.key_id,
            str(one.size),
        )
        for one in told.generations
    ]
    answer.give(told, lambda out: table(out, ("GENERATION", "STATE", "FROM", "KEY", "BYTES"), rows))


def list_(data_dir: DataDir = None, nats: Nats = None, as_json: Json = False, timeout: Timeout = 10.0) -> None:
    """Your profiles, a name per line."""
    from lessor.messages.reply import Listed

    async def work(at: Call) -> Listed:
        return Listed(profiles=await at.client.profiles(at.deadline.left_s(reserve_s=0.2)))

    answer = Answer(as_json)
    told = call(work, Where(data_dir, nats), timeout, answer, "listing the profiles")

    def draw(out: "Console") -> None:
        for profile in told.profiles:
            out.print(profile)

    answer.give(told, draw)


def _policy(said: dict[str, object], answer: Answer) -> "PagePolicy":
    import msgspec

    from lessor.messages.policy import PagePolicy

    try:
        return msgspec.convert(said, PagePolicy)
    except msgspec.ValidationError as error:
        answer.refuse(problem(Code.INVALID_REQUEST, f"That is no policy ({error}): see --help."))


def _tell(answer: Answer, told: "ProfileTold") -> None:
    answer.give(
        told,
        lambda out: fields(
            out,
            (
                ("profile", told.profile),
                ("state", told.state),
                ("origins", " ".join(told.origins)),
                ("generation", told.generation),
                ("settle_s", f"{told.settle_s:g}"),
                ("strict", "yes" if told.strict else "no"),
                ("idempotent", "yes" if told.idempotent_target else "no"),
                ("dialogs", told.policy.dialogs),
                ("leaving", told.policy.leaving),
                ("downloads", f"{told.policy.downloads}, {told.policy.files_bytes_max} bytes at most"),
                ("popups", f"{told.policy.popups}, {told.policy.popups_max} at most"),
                ("needs a yes", " ".join(told.approve)),
                ("leased by", told.leased_by),
                ("health check", _health(told)),
                ("found", told.why),
            ),
        ),
    )


def _health(told: "ProfileTold") -> str | None:
    health = told.health
    if health is None:
        return None
    wants = (health.url, health.text and f"shows {health.text!r}", health.cookie and f"cookie {health.cookie}")
    return ", ".join(filter(None, wants))
