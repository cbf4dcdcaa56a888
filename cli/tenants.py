"""`lessor tenant add|list|remove`: who may enter the broker of this data directory, and with what."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from lessor.cli.answer import Answer, table
from lessor.cli.options import DataDir, Json
from lessor.errors import LessorError, Problem

if TYPE_CHECKING:
    from lessor.broker.tenants import Tenants

T = TypeVar("T")

Tenant = Annotated[str, typer.Argument(help="The tenant's name.", show_default=False)]


def add(
    tenant: Tenant,
    principal: Annotated[str, typer.Option("--principal", help="Who of the tenant.")] = "me",
    for_operator: Annotated[
        bool, typer.Option("--print", help="For another broker: make the file, and print what its operator adds.")
    ] = False,
    data_dir: DataDir = None,
    as_json: Json = False,
) -> None:
    """Make credentials, and say where they lie. A broker that runs knows them at once."""
    from lessor.broker.tenants import issue
    from lessor.messages.ids import Caller

    answer, caller = Answer(as_json), Caller(tenant, principal)
    if for_operator:
        path = _data_dir(data_dir, answer) / "credentials" / f"{tenant}.{principal}.nk"
        issued = _value(issue(caller, path), answer)
        answer.give(issued, lambda out: out.print(issued.config, soft_wrap=True))
        return
    told = _value(_tenants(data_dir, answer).add(caller), answer)
    answer.give(told, lambda out: out.print(f"LESSOR_CREDENTIALS={told.credentials}", soft_wrap=True))


def list_(data_dir: DataDir = None, as_json: Json = False) -> None:
    """Who may enter, and where their credentials lie."""
    answer = Answer(as_json)
    found = _value(_tenants(data_dir, answer).listed(), answer)
    rows = [(one.tenant, one.principal, one.credentials or "not here") for one in found]
    answer.give({"tenants": found}, lambda out: table(out, ("TENANT", "PRINCIPAL", "CREDENTIALS"), rows))


def remove(
    tenant: Tenant,
    principal: Annotated[
        str | None, typer.Option("--principal", help="Only this one; else all of the tenant's.", show_default=False)
    ] = None,
    data_dir: DataDir = None,
    as_json: Json = False,
) -> None:
    """Withdraw credentials: connections are cut at once. Profiles and sealed states stay."""
    answer = Answer(as_json)
    gone = _value(_tenants(data_dir, answer).remove(tenant, principal), answer)
    lines = [f"removed {one.tenant}/{one.principal}" for one in gone]
    answer.give({"removed": gone}, lambda out: out.print(*lines, sep="\n"))


def _tenants(data_dir: Path | None, answer: Answer) -> "Tenants":
    from lessor.broker.tenants import Tenants

    return Tenants(_data_dir(data_dir, answer) / "broker")


def _data_dir(data_dir: Path | None, answer: Answer) -> Path:
    from lessor.config import Config

    try:
        return Config.of(os.environ, data_dir).data_dir
    except LessorError as error:
        answer.refuse(error.problem)


def _value(told: T | Problem, answer: Answer) -> T:
    if isinstance(told, Problem):
        answer.refuse(told)
    return told
