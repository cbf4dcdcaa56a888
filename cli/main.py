"""The command line: what there is, and how it begins. Commands import what they need when they are called."""

import typer

from lessor.cli import (
    artifacts,
    carrying,
    dialogs,
    doctor,
    journals,
    keys,
    lease,
    leases,
    login,
    playing,
    profiles,
    reports,
    running,
    runs,
    secrets,
    status,
    stepping,
    tabs,
    tenants,
)

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
lease_app = typer.Typer(help="The leases: who holds what, for how long, who waits.", no_args_is_help=True)
run_app = typer.Typer(help="The runs: what they do, and what they ask.", no_args_is_help=True)
keys_app = typer.Typer(help="The keys that the profiles' state is sealed with.", no_args_is_help=True)
secret_app = typer.Typer(help="The host's secrets, typed into password fields by reference.", no_args_is_help=True)

tenant_app = typer.Typer(help="Who may enter the embedded broker.", no_args_is_help=True)

app.command("up")(running.up)
app.command("host")(running.host)
app.command("status")(status.status)
app.command("demo")(playing.demo)
app.command("doctor")(doctor.doctor)
app.add_typer(profile_app, name="profile")
profile_app.command("create")(profiles.create)
profile_app.command("list")(profiles.list_)
profile_app.command("show")(profiles.show)
profile_app.command("check")(profiles.check)
profile_app.command("generations")(profiles.generations)
profile_app.command("rollback")(profiles.rollback)
profile_app.command("import")(carrying.import_)
profile_app.command("export")(carrying.export)
profile_app.command("revoke")(profiles.revoke)
profile_app.command("delete")(profiles.delete)
app.command("login")(login.login)
app.add_typer(keys_app, name="keys")
keys_app.command("rotate")(keys.rotate)
keys_app.command("list")(keys.list_)
app.add_typer(secret_app, name="secret")
secret_app.command("set")(secrets.set_)
secret_app.command("list")(secrets.list_)
secret_app.command("remove")(secrets.remove)
app.add_typer(artifact_app, name="artifact")
artifact_app.command("list")(artifacts.list_)
artifact_app.command("get")(artifacts.get)
artifact_app.command("cancel")(artifacts.cancel)
app.add_typer(tenant_app, name="tenant")
tenant_app.command("add")(tenants.add)
tenant_app.command("list")(tenants.list_)
tenant_app.command("remove")(tenants.remove)
app.add_typer(lease_app, name="lease")
lease_app.command("list")(lease.list_)
lease_app.command("show")(lease.show)
lease_app.command("renew")(lease.renew)
lease_app.command("close")(leases.close)
app.add_typer(run_app, name="run")
run_app.command("list")(runs.list_)
run_app.command("show")(runs.show)
run_app.command("cancel")(runs.cancel)
run_app.command("park")(runs.park)
run_app.command("resume")(runs.resume)
run_app.command("finish")(runs.finish)
app.command("approve")(runs.approve)
app.command("reject")(runs.reject)
app.command("grant")(runs.grant)
app.command("acquire")(leases.acquire)
app.command("navigate")(leases.navigate)
app.command("observe")(leases.observe)
app.command("act")(leases.act)
app.command("dialog")(dialogs.dialog)
app.command("tabs")(tabs.tabs)
app.command("close")(leases.close)
app.command("steps")(stepping.steps)
app.command("resolve")(stepping.resolve)
app.command("outcome")(stepping.outcome)
app.command("journal")(journals.journal)
app.command("report")(reports.report)


def main() -> None:
    """The program `lessor`."""
    app(prog_name="lessor")
