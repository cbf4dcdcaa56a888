"""`lessor artifact list|get|cancel`: the files of a profile's leases."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from lessor.cli.answer import Answer, table
from lessor.cli.call import Call, Where, call
from lessor.cli.leases import session_file
from lessor.cli.options import DataDir, Json, Nats, Profile, Run, Timeout
from lessor.errors import Code, problem

if TYPE_CHECKING:
    from lessor.messages.action import Artifact
    from lessor.messages.reply import ArtifactTold

Named = Annotated[str, typer.Argument(help="The artifact's id.", show_default=False)]


class Got(msgspec.Struct, frozen=True, kw_only=True):
    """`lessor artifact get --json`."""

    artifact: str
    path: str
    size: int
    sha256: str


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """`lessor artifact list --json`."""

    artifacts: "tuple[Artifact, ...]"


def list_(
    profile: Profile, data_dir: DataDir = None, nats: Nats = None, as_json: Json = False, timeout: Timeout = 10.0
) -> None:
    """What is kept: until 24 h after the run's deadline."""
    answer = Answer(as_json)

    async def work(at: Call) -> "tuple[Artifact, ...]":
        return await at.client.artifacts(profile, at.deadline.left_s(reserve_s=0.2))

    told = call(work, Where(data_dir, nats), timeout, answer, "listing the artifacts")
    rows = [(one.id, one.name, str(one.size), one.sha256 or "") for one in told]
    answer.give(Found(artifacts=told), lambda out: table(out, ("ARTIFACT", "NAME", "BYTES", "SHA256"), rows))


def get(
    profile: Profile,
    artifact: Named,
    to: Annotated[Path, typer.Option("--to", help="The file to write: it must not exist.", show_default=False)],
    data_dir: DataDir = None,
    nats: Nats = None,
    as_json: Json = False,
    timeout: Timeout = 120.0,
) -> None:
    """Fetch a file, checked against its SHA-256. Never writes over anything, and never under the page's own name."""
    answer = Answer(as_json)

    async def work(at: Call) -> "tuple[Artifact, bytes]":
        return await at.client.artifact(profile, artifact, timeout_s=at.deadline.left_s(reserve_s=0.2))

    told, body = call(work, Where(data_dir, nats), timeout, answer, "fetching the artifact")
    try:
        with os.fdopen(os.open(to, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb") as file:
            file.write(body)
    except OSError as error:
        answer.refuse(problem(Code.SETUP_FAILED, f"{to} cannot be written ({error.strerror}): choose another --to."))
    got = Got(artifact=told.id, path=str(to), size=len(body), sha256=told.sha256 or "")
    answer.give(got, lambda out: out.print(f"{got.size} bytes in {got.path}"))


def cancel(
    profile: Profile,
    artifact: Named,
    run: Run,
    data_dir: DataDir = None,
    nats: Nats = None,
    as_json: Json = False,
    timeout: Timeout = 15.0,
) -> None:
    """Stop a download of the leased page."""
    answer, where = Answer(as_json), Where(data_dir, nats)
    file = session_file(where, run, answer)

    async def work(at: Call) -> "ArtifactTold":
        from lessor.cli.errand import Errand

        return await Errand(at, file).cancel_download(profile, artifact)

    told = call(work, where, timeout, answer, "stopping the download")
    states = {one.id: one.state for one in told.artifacts}
    answer.give(told, lambda out: out.print(f"{artifact}: {states.get(artifact, 'unknown')}"))
