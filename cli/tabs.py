"""`lessor tabs`: what a lease has open."""

from typing import TYPE_CHECKING, Annotated

import typer

from lessor.cli.answer import Answer, table
from lessor.cli.call import Call, Where, call
from lessor.cli.leases import session_file
from lessor.cli.options import DataDir, Json, Nats, Profile, Run, Timeout

if TYPE_CHECKING:
    from lessor.messages.reply import TabsTold


def tabs(
    profile: Profile,
    run: Run,
    close: Annotated[str | None, typer.Option("--close", help="Close this one first.", show_default=False)] = None,
    data_dir: DataDir = None,
    nats: Nats = None,
    as_json: Json = False,
    timeout: Timeout = 15.0,
) -> None:
    """The tabs of the leased browser. `--tab NAME` of the other commands makes one."""
    answer, where = Answer(as_json), Where(data_dir, nats)
    file = session_file(where, run, answer)

    async def work(at: Call) -> "TabsTold":
        from lessor.cli.errand import Errand

        return await Errand(at, file).tabs(profile, close)

    told = call(work, where, timeout, answer, "listing the tabs")
    answer.give(told, lambda out: table(out, ("TAB", "URL"), [(tab.name, tab.url) for tab in told.tabs]))
