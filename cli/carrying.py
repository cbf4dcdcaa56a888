"""`lessor profile import|export`: Playwright's `storage_state` files. Run them where the host runs: state is sealed and
opened here, with the host's keys, and never crosses the wire in the clear."""

import asyncio
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer

from lessor.cli.answer import Answer, tell
from lessor.cli.call import Call, Where, call
from lessor.cli.options import DataDir, Json, Nats, Profile, Timeout
from lessor.errors import Code, Problem, error_of, problem

if TYPE_CHECKING:
    from lessor.cli.tools import Tools
    from lessor.messages.reply import ProfileTold

COMMIT_S = 30.0


class _StorageState(msgspec.Struct):
    """What a file must have to be one; the rest is Playwright's business."""

    cookies: list[dict[str, Any]]
    origins: list[dict[str, Any]] = []


def import_(
    name: Profile,
    file: Annotated[Path, typer.Argument(help="A file that Playwright's `storage_state` wrote.", show_default=False)],
    data_dir: DataDir = None,
    nats: Nats = None,
    as_json: Json = False,
    timeout: Timeout = 60.0,
) -> None:
    """Make a storage state the profile's next generation, if it passes the health check. Refused while leased."""
    from lessor.cli.session import name as checked
    from lessor.cli.tools import tools

    where, answer = Where(data_dir, nats), Answer(as_json)

    async def work(at: Call) -> "ProfileTold":
        state = await asyncio.to_thread(_read, file)
        async with tools(where) as with_:
            return await commit(at, with_, checked(name, "profile"), state, None)

    told = call(work, where, timeout, answer, "importing the state")
    answer.give(told, lambda out: out.print(f"imported as generation {told.generation} of {told.profile}"))


def _read(file: Path) -> bytes:
    from lessor.browser.envelope import STATE_BYTES_MAX

    try:
        with file.open("rb") as opened:
            body = opened.read(STATE_BYTES_MAX + 1)
    except OSError as error:
        raise error_of(problem(Code.INVALID_REQUEST, f"{file} cannot be read ({error.strerror}).")) from error
    if len(body) > STATE_BYTES_MAX:
        raise error_of(problem(Code.TOO_LARGE, f"{file} has more than {STATE_BYTES_MAX} bytes."))
    try:
        msgspec.json.decode(body, type=_StorageState)
    except msgspec.DecodeError:
        no_state = f"{file} is no storage state: save one with Playwright's `context.storage_state(path=...)`."
        raise error_of(problem(Code.INVALID_REQUEST, no_state)) from None
    return body


async def commit(at: Call, with_: "Tools", name: str, state: bytes, ceremony: str | None) -> "ProfileTold":
    """Seal it here, put it into the store, and have the profile's owner try and commit it."""
    from lessor.browser import envelope
    from lessor.ids import fresh_id
    from lessor.messages.reply import ProfileTold
    from lessor.messages.request import ImportState

    profile, told = await at.client.show_profile(name), await at.client.generations(name)
    whose = with_.whose(at.client.caller, profile, told.next, profile.origins)
    sealed = await asyncio.to_thread(envelope.close, state, whose, with_.keyring)
    if isinstance(sealed, Problem):
        raise error_of(sealed)
    stored, sha256 = await with_.put(at.client.caller, name, told, sealed[0])
    request = ImportState(
        id=fresh_id(), budget_s=COMMIT_S, generation=told.next, object=stored, sha256=sha256, ceremony=ceremony
    )
    subject = at.client.talk.to.profile(name, "import")
    return await at.client.ask(subject, request, ProfileTold, COMMIT_S + 0.5)


def export(
    name: Profile,
    file: Annotated[Path, typer.Argument(help="Where to write it: must not exist.", show_default=False)],
    plaintext: Annotated[
        bool, typer.Option("--plaintext", help="Say that you know: whoever reads the file is logged in.")
    ] = False,
    generation: Annotated[int | None, typer.Option("--generation", min=1, help="Which; else the current one.")] = None,
    data_dir: DataDir = None,
    nats: Nats = None,
    as_json: Json = False,
    timeout: Timeout = 60.0,
) -> None:
    """Write the profile's state, unencrypted, as a file for Playwright's `storage_state`. Needs --plaintext."""
    from lessor.cli.session import name as checked
    from lessor.cli.tools import tools

    where, answer = Where(data_dir, nats), Answer(as_json)
    if not plaintext:
        asks = "The file logs in whoever reads it, and nothing revokes it: say that you know with --plaintext."
        answer.refuse(problem(Code.ACTION_NOT_ALLOWED, asks))

    async def work(at: Call) -> int:
        async with tools(where) as with_:
            profile = await at.client.show_profile(checked(name, "profile"))
            told = await at.client.generations(profile.profile)
            wanted = [one for one in told.generations if generation in (None, one.generation)]
            wanted = [one for one in wanted if generation is not None or one.current]
            if not wanted:
                raise error_of(problem(Code.NOT_FOUND, "There is no such generation: see `profile generations`."))
            whose = with_.whose(at.client.caller, profile, wanted[0].generation, wanted[0].origins)
            await asyncio.to_thread(_write, file, await with_.unseal(wanted[0], whose))
            return wanted[0].generation

    number = call(work, where, timeout, answer, "exporting the state")
    tell(f"lessor: warning: {file} logs in whoever reads it: keep it private, and remove it soon")
    answer.give({"file": str(file), "generation": number}, lambda out: out.print(f"generation {number} is in {file}"))


def _write(file: Path, state: bytes) -> None:
    try:
        descriptor = os.open(file, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    except OSError as error:
        raise error_of(problem(Code.INVALID_REQUEST, f"{file} cannot be made ({error.strerror}).")) from error
    with os.fdopen(descriptor, "wb") as opened:
        opened.write(state)
