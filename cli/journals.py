"""`lessor journal`: what was decided and done, as it is stored; and whether anything of it is missing or altered."""

from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer

from lessor.cli.answer import Answer, plain, say, table, tell
from lessor.cli.call import Deadline, Where, bounded
from lessor.cli.options import DataDir, Nats, Timeout
from lessor.cli.progress import Progress
from lessor.errors import Code, error_of, problem

if TYPE_CHECKING:
    from lessor.audit import Line, Verified
    from lessor.cli.books import Book

FOREVER_S = 365 * 86_400.0
"""`--follow` ends with Ctrl-C."""


def journal(
    name: Annotated[
        list[str],
        typer.Argument(metavar="PROFILE|RUN", help="Whose journal; or: verify [PROFILE...]", show_default=False),
    ],
    follow: Annotated[bool, typer.Option("--follow", help="Go on with what is written, until Ctrl-C.")] = False,
    head: Annotated[
        str | None, typer.Option("--head", help="verify: a hash noted earlier, which must still be there.")
    ] = None,
    data_dir: DataDir = None,
    nats: Nats = None,
    as_json: Annotated[bool, typer.Option("--json", help="JSON Lines on stdout: an entry each.")] = False,
    timeout: Timeout = 30.0,
) -> None:
    """Show a profile's journal, or a run's part of all; `verify` checks that nothing is missing or altered."""
    answer, where = Answer(as_json), Where(data_dir, nats)
    if name[0] == "verify":
        _verify(name[1:], head, where, answer, timeout)
        return
    if len(name) != 1:
        raise typer.BadParameter("one profile or run")

    async def work(_deadline: Deadline, progress: Progress) -> None:
        from lessor.cli.books import Books

        async with Books.opened(where) as books:
            found, run = await books.about(name[0])
            progress.end()
            for book in found:
                for line in _shown(book, run, as_json):
                    say(line)
            if follow:
                async for one in books.follow(found, run):
                    say(_json(one) if as_json else _line(one))

    bounded(work, FOREVER_S if follow else timeout, answer, "reading the journal")


def _shown(book: "Book", run: str | None, as_json: bool) -> list[bytes]:
    from lessor import audit

    lines = audit.lines(book.profile, book.entries(), run)
    if not as_json:
        return [_line(line) for line in lines]
    wanted = {line.sequence for line in lines}
    return [_exported(book.profile, sequence, data) for sequence, data in book.stored if sequence in wanted]


def _exported(profile: str, sequence: int, data: bytes) -> bytes:
    """The entry's own bytes, so that its hash can be checked from the export alone."""
    from lessor.messages.hashing import digest

    return msgspec.json.encode(
        {"profile": profile, "sequence": sequence, "sha256": digest(data), "entry": msgspec.Raw(data)}
    )


def _json(line: "Line") -> bytes:
    told: dict[str, Any] = msgspec.to_builtins(line.record)
    return msgspec.json.encode({"profile": line.profile, "epoch": line.entry.epoch, "at": line.at, "record": told})


def _line(line: "Line") -> bytes:
    place = f"#{line.sequence}" if line.sequence else ""
    text = f"{line.at}  {line.profile} {place:<7} e{line.entry.epoch}  {line.kind:<16} {line.says()}"
    return plain(text).encode()


def _verify(names: list[str], head: str | None, where: Where, answer: Answer, timeout_s: float) -> None:
    async def work(_deadline: Deadline, _progress: Progress) -> "dict[str, Verified]":
        from lessor.audit import verify
        from lessor.cli.books import Books

        async with Books.opened(where) as books:
            known = await books.profiles()
            missing = [name for name in names if name not in known]
            if missing:
                raise error_of(problem(Code.NOT_FOUND, f"There is no profile {missing[0]!r}: lessor profile list."))
            return {name: verify((await books.book(name)).stored, head) for name in names or known}

    found = bounded(work, timeout_s, answer, "reading the journals")
    broken = {name: one for name, one in found.items() if one.broken or one.head_found is False}
    rows = [(name, str(one.entries), str(one.chained), _word(one), one.head) for name, one in found.items()]
    answer.give(found, lambda out: table(out, ("PROFILE", "ENTRIES", "CHAINED", "CHAIN", "HEAD"), rows))
    for name, one in broken.items():
        for each in one.broken[:5]:
            tell(f"lessor: {name}: entry {each.sequence}: {each.why}")
    if broken:
        tell(f"lessor: {Code.OUTPUT_INVALID}: what the journal of {', '.join(broken)} says cannot be relied on")
        raise typer.Exit(Code.OUTPUT_INVALID.class_.exit)


def _word(one: "Verified") -> str:
    if one.broken:
        return f"broken at {one.broken[0].sequence}"
    return "whole" if one.head_found is not False else "cut: the noted head is not there"
