"""`lessor up` and `lessor host`: the two commands that stay."""

import asyncio
from typing import TYPE_CHECKING, Annotated

import msgspec
import structlog
import typer

from lessor.cli.answer import Answer, say
from lessor.cli.call import Where
from lessor.cli.logs import log_to_stderr
from lessor.cli.options import DataDir, Json, Nats
from lessor.errors import LessorError

if TYPE_CHECKING:
    from lessor.cli.host import Ready
    from lessor.cli.up import Started

log = structlog.get_logger("lessor.cli")


def up(data_dir: DataDir = None, nats: Nats = None, as_json: Json = False) -> None:
    """Start a broker and a host here, in the foreground, until Ctrl-C.

    With --nats only the host, on that broker. The first Ctrl-C settles and seals what is leased (45 s at
    most), the second ends at once.
    """
    from lessor.cli.up import Up, host_command

    log_to_stderr("info")
    answer = Answer(as_json)
    config = msgspec.structs.replace(Where(data_dir, nats).config(), nats_url=nats)

    def ready(started: "Started") -> None:
        line = f"lessor is ready: LESSOR_DATA_DIR={started.data_dir} | {started.broker}"
        say(msgspec.json.encode(started) if as_json else line.encode())

    try:
        asyncio.run(Up(config, host_command(config)).run(ready))
    except LessorError as error:
        answer.refuse(error.problem)


def host(
    data_dir: DataDir = None,
    nats: Nats = None,
    as_json: Json = False,
    parent: Annotated[int | None, typer.Option("--parent", hidden=True)] = None,
) -> None:
    """One host alone, in the foreground, on a broker that runs: the data directory's, or that of --nats."""
    from lessor.cli.host import first_key, serve, tie_to

    log_to_stderr("info")
    if parent is not None and not tie_to(parent):
        raise typer.Exit(0)
    answer = Answer(as_json)
    config = msgspec.structs.replace(Where(data_dir, nats).config(), nats_url=nats)

    def ready(told: "Ready") -> None:
        for warning in told.warnings:
            log.warning(warning)
        if first_key(config):
            log.info("made the first key for sealed states: keep a copy of it", directory=str(config.data_dir / "keys"))
        line = f"host {told.host} is ready: {told.data_dir}"
        say(msgspec.json.encode(told) if as_json else line.encode())

    refusal = asyncio.run(serve(config, ready))
    if refusal is not None:
        answer.refuse(refusal)
