"""`lessor report RUN`: one page of HTML that tells what a run did, for whoever has to answer for it."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from lessor.cli.answer import Answer, fields
from lessor.cli.call import Deadline, Where, bounded
from lessor.cli.options import DataDir, Json, Nats, Timeout
from lessor.cli.progress import Progress
from lessor.errors import Code, LessorError, error_of, problem

if TYPE_CHECKING:
    from lessor.cli.page import Told


class Written(msgspec.Struct, frozen=True, kw_only=True):
    """`lessor report --json`."""

    path: str
    steps: int
    records: int
    whole: bool
    """Whether the journals that it rests on are unbroken."""


def report(
    run: Annotated[str, typer.Argument(help="The run; or a profile, for all of its runs.", show_default=False)],
    out: Annotated[Path | None, typer.Option("--out", help="Where to; else RUN.html here.", show_default=False)] = None,
    data_dir: DataDir = None,
    nats: Nats = None,
    as_json: Json = False,
    timeout: Timeout = 30.0,
) -> None:
    """Write a page of HTML for one run: timeline, steps, checkpoints, evidence. It opens without a network."""
    answer = Answer(as_json)
    path = out if out is not None else Path(f"{run}.html")

    async def work(_deadline: Deadline, _progress: Progress) -> "Told":
        from lessor.cli.books import Books
        from lessor.cli.page import told_of

        async with Books.opened(Where(data_dir, nats)) as books:
            return told_of(run, *await books.about(run))

    told = bounded(work, timeout, answer, "reading the journals")
    from lessor.cli.page import page

    try:
        path.write_text(page(told))
    except OSError as error:
        answer.refuse(_unwritten(path, error).problem)
    written = Written(path=str(path), steps=len(told.steps), records=len(told.lines), whole=told.whole)
    answer.give(
        written,
        lambda console: fields(
            console,
            (
                ("written", written.path),
                ("steps", written.steps),
                ("records", written.records),
                ("chain", "whole" if written.whole else "BROKEN: lessor journal verify"),
            ),
        ),
    )


def _unwritten(path: Path, error: OSError) -> LessorError:
    reason = error.strerror or str(error)
    return error_of(problem(Code.SETUP_FAILED, f"{path} cannot be written ({reason}): choose another with --out."))
