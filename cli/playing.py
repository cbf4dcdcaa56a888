"""`lessor demo`: a lease that survives its worker and its browser, with real processes, before your eyes."""

from pathlib import Path
from typing import Annotated

import typer

from lessor.cli.options import Json


def demo(
    invoices: Annotated[int, typer.Option("--invoices", min=1, max=20, help="How much work.")] = 2,
    seed: Annotated[
        int | None, typer.Option("--seed", help="Draw other work and other moments for the kills.", show_default=False)
    ] = None,
    svg: Annotated[
        Path | None, typer.Option("--svg", help="Save the timeline as a picture.", show_default=False)
    ] = None,
    site: Annotated[str, typer.Option("--site", hidden=True)] = "normal",
    naive: Annotated[bool, typer.Option("--naive", hidden=True)] = False,
    as_json: Json = False,
) -> None:
    """Start everything in a directory of its own, kill workers and browser while they work, count what came of it."""
    from lessor.cli.demo.main import run

    raise typer.Exit(run(invoices=invoices, seed=seed, as_json=as_json, picture=svg, answer=site, naive=naive))
