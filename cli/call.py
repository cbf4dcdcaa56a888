"""One call of the command line: connect, ask, tell, all within one deadline."""

import asyncio
import contextlib
import os
import sys
import time
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import typer

from lessor.cli.answer import Answer, tell
from lessor.cli.logs import log_to_stderr
from lessor.cli.progress import AFTER_S, Progress
from lessor.errors import Code, LessorError, Problem, problem

if TYPE_CHECKING:
    from lessor.client import Client
    from lessor.config import Config
    from lessor.messages.ids import Caller

T = TypeVar("T")

UNWIND_S_MAX = 0.5
"""How long a call that ran out of time may take to close its connection; then the process just ends."""
INTERRUPTED = 130


class Deadline:
    """The one deadline of a call."""

    def __init__(self, timeout_s: float) -> None:
        self.timeout_s = timeout_s
        self._until = time.monotonic() + timeout_s

    def left_s(self, most_s: float = float("inf"), reserve_s: float = 0.0) -> float:
        """What one question may take: the rest but a reserve, at most so much, never nothing."""
        return max(0.1, min(most_s, self._until - time.monotonic() - reserve_s))


@dataclass(frozen=True, slots=True)
class Where:
    """Which broker, and which data directory."""

    data_dir: Path | None
    nats: str | None

    def config(self) -> "Config":
        from lessor.config import Config

        return Config.of(os.environ, self.data_dir)

    def client(self, worker: str = "cli") -> "Client":
        """Who asks, LESSOR_CREDENTIALS says, or LESSOR_TENANT and LESSOR_PRINCIPAL; the broker's permissions decide."""
        from lessor.client import connect

        return connect(self.nats, data_dir=self.data_dir, worker=worker)


def whoami() -> "Caller":
    from lessor.broker.credentials import caller_of

    file = os.environ.get("LESSOR_CREDENTIALS")
    return caller_of(Path(file) if file else None, os.environ.get("LESSOR_TENANT"), os.environ.get("LESSOR_PRINCIPAL"))


@dataclass(frozen=True, slots=True)
class Call:
    """What a piece of work gets: the connection, the deadline, and a place to say what it waits for."""

    client: "Client"
    deadline: Deadline
    progress: Progress


def call(
    work: Callable[[Call], Awaitable[T]],
    where: Where,
    timeout_s: float,
    answer: Answer,
    waiting: str,
    late: Problem | None = None,
    unwind_s: float = UNWIND_S_MAX,
) -> T:
    """Connect, work, disconnect. A problem ends the program with its exit code; so does the deadline, with `late`.

    Work that is cut off has `unwind_s` to put away what it has opened.
    """

    async def connected(deadline: Deadline, progress: Progress) -> T:
        async with where.client() as client:
            return await work(Call(client, deadline, progress))

    return bounded(connected, timeout_s, answer, waiting, late, unwind_s)


def bounded(
    work: Callable[[Deadline, Progress], Coroutine[Any, Any, T]],
    timeout_s: float,
    answer: Answer,
    waiting: str,
    late: Problem | None = None,
    unwind_s: float = UNWIND_S_MAX,
) -> T:
    """Run a piece of work to its end, its problem, or its deadline."""
    log_to_stderr("warning")
    deadline, progress = Deadline(timeout_s), Progress(waiting)
    if late is None:
        late = problem(
            Code.BROKER_UNAVAILABLE,
            f"There was no answer within {timeout_s:g} s: ask again, or allow more with --timeout.",
        )
    try:
        return asyncio.run(_within(work(deadline, progress), deadline, progress, answer, late, unwind_s))
    except LessorError as error:
        progress.end()
        answer.refuse(error.problem)
    except KeyboardInterrupt:
        progress.end()
        tell("lessor: interrupted: give the command again, what was sent is on record and is not done twice")
        raise typer.Exit(INTERRUPTED) from None
    finally:
        progress.end()


async def _within(
    work: Awaitable[T], deadline: Deadline, progress: Progress, answer: Answer, late: Problem, unwind_s: float
) -> T:
    task = asyncio.ensure_future(work)
    timer = asyncio.get_running_loop().call_later(AFTER_S, progress.show)
    try:
        await asyncio.wait({task}, timeout=deadline.left_s())
    except asyncio.CancelledError:
        # Interrupted: it puts its things away while the connections it needs for that still work.
        task.cancel()
        await asyncio.wait({task}, timeout=unwind_s)
        raise
    finally:
        timer.cancel()
        task.cancel()
    if not task.done():
        await asyncio.wait({task}, timeout=unwind_s)
    if not task.done():
        progress.end()
        with contextlib.suppress(typer.Exit):
            answer.refuse(late)
        sys.stdout.flush()
        os._exit(late.code.class_.exit)
    if task.cancelled():
        raise LessorError(late)
    return task.result()
