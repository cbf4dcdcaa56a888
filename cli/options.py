"""Options that several commands share. Environment variables come in through typer, so `--help` names them."""

from pathlib import Path
from typing import Annotated

import typer

DataDir = Annotated[
    Path | None,
    typer.Option("--data-dir", envvar="LESSOR_DATA_DIR", show_default=False, help="Where lessor keeps its data."),
]
Nats = Annotated[
    str | None,
    typer.Option("--nats", envvar="LESSOR_URL", show_default=False, help="A broker's URL; else the embedded one."),
]
Json = Annotated[bool, typer.Option("--json", help="One JSON object on stdout.")]
Timeout = Annotated[float, typer.Option("--timeout", min=0.1, max=3600, help="Seconds that the whole call may take.")]
Run = Annotated[str, typer.Option("--run", envvar="LESSOR_RUN", help="The run that works on the profile.")]
Tab = Annotated[str, typer.Option("--tab", help="Which tab.")]
Profile = Annotated[str, typer.Argument(help="The profile's name.", show_default=False)]
