"""`lessor dialog`: answer what a page asks, under the dialog policy `ask`."""

from typing import TYPE_CHECKING, Annotated

import typer

from lessor.cli.answer import Answer
from lessor.cli.call import Call, Where, call
from lessor.cli.leases import session_file
from lessor.cli.options import DataDir, Json, Nats, Profile, Run, Timeout

if TYPE_CHECKING:
    from lessor.messages.reply import DialogAnswered


def dialog(
    profile: Profile,
    dialog: Annotated[str, typer.Argument(help="The dialog's id, as `dialog_open` told it.", show_default=False)],
    run: Run,
    accept: Annotated[bool, typer.Option("--accept/--dismiss", help="OK, or Cancel.")],
    text: Annotated[str, typer.Option("--text", help="What a prompt is answered with.")] = "",
    data_dir: DataDir = None,
    nats: Nats = None,
    as_json: Json = False,
    timeout: Timeout = 15.0,
) -> None:
    """Answer an open dialog of the leased page, once; the act that opened it then goes on. Observe afterwards."""
    answer, where = Answer(as_json), Where(data_dir, nats)
    file = session_file(where, run, answer)

    async def work(at: Call) -> "DialogAnswered":
        from lessor.cli.errand import Errand

        return await Errand(at, file).dialog(profile, dialog, accept, text)

    told = call(work, where, timeout, answer, "answering the dialog")
    how = "accepted" if told.accepted else "dismissed"
    answer.give(told, lambda out: out.print(f"{told.dialog.kind} {how}; observe what came of it"))
