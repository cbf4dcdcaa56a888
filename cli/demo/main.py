"""`lessor demo`: arguments, the timeline, the verdict, the exit code."""

import argparse
import asyncio
import contextlib
import json
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from lessor.cli.demo.figures import Figures
from lessor.cli.demo.plan import INVOICES_MAX, plan
from lessor.cli.demo.play import Play, perform
from lessor.cli.demo.processes import Broken
from lessor.cli.demo.site_switches import Answer
from lessor.cli.demo.timeline import Timeline
from lessor.errors import LessorError

INTERRUPTED: Final = 130
FAILED: Final = 1
KEPT: Final = ("LESSOR_CHROMIUM",)
DEFAULT_INVOICES: Final = 2


def run(
    *,
    invoices: int = DEFAULT_INVOICES,
    seed: int | None = None,
    as_json: bool = False,
    picture: Path | None = None,
    answer: str = "normal",
    naive: bool = False,
) -> int:
    """Play the demo; the exit code is 0 when all that was promised came true.

    The timeline goes to stdout, with `as_json` to stderr: stdout then holds the one line of figures."""
    for name in [name for name in os.environ if name.startswith("LESSOR_") and name not in KEPT]:
        del os.environ[name]  # the demo is about itself, not about your broker
    timeline = Timeline(sys.stderr if as_json else sys.stdout, picture=picture is not None)
    try:
        figures, short = asyncio.run(_until_told(Play(plan(invoices, seed), answer, naive), timeline))
    except KeyboardInterrupt:
        timeline.verdict("Interrupted. Nothing is left running.", good=False)
        return INTERRUPTED
    except (Broken, LessorError) as error:
        timeline.verdict(f"The demo broke: {error}", good=False)
        if as_json:
            print(json.dumps({"error": {"message": str(error)}}), flush=True)
        return error.problem.code.class_.exit if isinstance(error, LessorError) else FAILED
    timeline.verdict(_verdict(figures, short, invoices), good=not short)
    if picture is not None:
        timeline.save(picture)
    if as_json:
        print(figures.as_line(), flush=True)
    return FAILED if short else 0


async def _until_told(play: Play, timeline: Timeline) -> tuple[Figures, list[str]]:
    """SIGTERM ends it as Ctrl-C does."""
    playing = asyncio.ensure_future(perform(play, timeline))
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, playing.cancel)
    try:
        return await playing
    except asyncio.CancelledError:
        playing.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await playing
        raise KeyboardInterrupt from None


def _verdict(figures: Figures, short: Sequence[str], invoices: int) -> str:
    wanted = "1 invoice" if invoices == 1 else f"{invoices} invoices"
    twice = "none twice" if figures.duplicates == 0 else f"{figures.duplicates} more than once"
    said = [f"{wanted} wanted, {figures.site_submissions} at the site, {twice}."]
    if figures.recorded_after_worker_death:
        said.append(f"On record although the worker had died: {figures.recorded_after_worker_death}.")
    if figures.unknown_reconciled:
        said.append(f"Unknown at first, settled by a look-up: {figures.unknown_reconciled}.")
    said.append(f"Processes left over: {figures.orphans}. It took {figures.seconds:g} s.")
    if short:
        said.append(f"\nNOT as promised: {'; '.join(short)}.")
    return " ".join(said)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="lessor demo", description="See a lease survive its worker and its browser.")
    parser.add_argument("--invoices", type=int, default=DEFAULT_INVOICES, metavar="N", help="how much work (default 2)")
    parser.add_argument("--seed", type=int, metavar="S", help="draw other work and other moments for the kills")
    parser.add_argument("--json", action="store_true", help="end with one line of figures on stdout")
    parser.add_argument("--svg", type=Path, metavar="FILE", help="save the timeline as a picture")
    parser.add_argument("--site", choices=[*Answer], default="normal", help=argparse.SUPPRESS)
    parser.add_argument("--naive", action="store_true", help=argparse.SUPPRESS)
    asked = parser.parse_args(arguments)
    if not 1 <= asked.invoices <= INVOICES_MAX:
        parser.error(f"--invoices: 1 to {INVOICES_MAX}")
    return run(
        invoices=asked.invoices,
        seed=asked.seed,
        as_json=asked.json,
        picture=asked.svg,
        answer=asked.site,
        naive=asked.naive,
    )


if __name__ == "__main__":
    raise SystemExit(main())
