"""The command line: what there is, and how it begins. Commands import what they need when they are called."""

import typer

from lessor.cli import artifacts, dialogs, doctor, leases, playing, profiles, running, secrets, status, tabs

EXIT_CODES = """\b
Exit codes, one per class of error:
 0  done
 1  a bug in lessor
 2  wrong usage
10  refused; the sequence is kept (url_disallowed, page_changed, invalid_request ...)
11  not sent, settled (not_sent)
12  in progress, ask again (pending, closing, starting ...)
13  an answer that is no success (no_record, seal_failed ...)
14  outcome unknown: look before anyone repeats it
15  the lease is not yours (profile_busy, lease_expired, run_fenced ...)
16  elsewhere or away (broker_unavailable, moved, capacity)
17  the browser is unavailable (browser_gone ...)
18  the page (op_timeout, navigation_failed ...)
19  needs a person
20  at the boundary (not_found, forbidden, unsupported ...)
21  the set-up needs mending; the message says how
130 interrupted
"""

app = typer.Typer(
    name="lessor",
    help="Leases logged-in browser profiles to agent runs, and never does a side effect twice.",
    epilog=EXIT_CODES,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    rich_markup_mode=None,
)
profile_app = typer.Typer(help="The profiles: identities with the origins they may visit.", no_args_is_help=True)
artifact_app = typer.Typer(help="Files that pages of a profile gave.", no_args_is_help=True)
secret_app = typer.Typer(help="The host's secrets, typed into password fields by reference.", no_args_is_help=True)

app.command("up")(running.up)
app.command("host")(running.host)
app.command("status")(status.status)
app.command("demo")(playing.demo)
app.command("doctor")(doctor.doctor)
app.add_typer(profile_app, name="profile")
profile_app.command("create")(profiles.create)
profile_app.command("list")(profiles.list_)
profile_app.command("show")(profiles.show)
app.add_typer(secret_app, name="secret")
secret_app.command("set")(secrets.set_)
secret_app.command("list")(secrets.list_)
secret_app.command("remove")(secrets.remove)
app.add_typer(artifact_app, name="artifact")
artifact_app.command("list")(artifacts.list_)
artifact_app.command("get")(artifacts.get)
artifact_app.command("cancel")(artifacts.cancel)
app.command("acquire")(leases.acquire)
app.command("navigate")(leases.navigate)
app.command("observe")(leases.observe)
app.command("act")(leases.act)
app.command("dialog")(dialogs.dialog)
app.command("tabs")(tabs.tabs)
app.command("close")(leases.close)


def main() -> None:
    """The program `lessor`."""
    app(prog_name="lessor")
