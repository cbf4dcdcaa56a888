"""`lessor secret set|list|remove`: the host's own files; run it where the host runs. Values come from stdin only."""

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lessor.cli.answer import Answer
from lessor.cli.call import whoami
from lessor.cli.options import DataDir, Json
from lessor.errors import Code, LessorError, problem

if TYPE_CHECKING:
    from lessor.browser.secretstore import Secrets

Secret = Annotated[str, typer.Argument(help="The secret's name, as actions refer to it.", show_default=False)]
VALUE_BYTES_MAX = 4096


def set_(secret: Secret, data_dir: DataDir = None, as_json: Json = False) -> None:
    """Store a secret: the value is asked for, or read from stdin when that is no terminal."""
    answer = Answer(as_json)
    store, valid = _store(data_dir, answer), _valid(secret, answer)
    asked = typer.prompt("Value", hide_input=True, err=True) if sys.stdin.isatty() else sys.stdin.read()
    value = str(asked).removesuffix("\n")
    if not 0 < len(value.encode()) <= VALUE_BYTES_MAX:
        answer.refuse(problem(Code.INVALID_REQUEST, f"A secret has 1 to {VALUE_BYTES_MAX} bytes: give another value."))
    try:
        store.store(whoami().tenant, valid, value)
    except OSError as error:
        answer.refuse(
            problem(Code.SETUP_FAILED, f"The secret cannot be written ({error.strerror}): mend its directory.")
        )
    answer.give({"secret": valid, "stored": True}, lambda out: out.print(f"stored {valid}"))


def list_(data_dir: DataDir = None, as_json: Json = False) -> None:
    """The names of the tenant's secrets, one per line; values are never shown."""
    answer = Answer(as_json)
    names = _store(data_dir, answer).names(whoami().tenant)
    answer.give({"secrets": names}, lambda out: out.print(*names, sep="\n", end="\n" if names else ""))


def remove(secret: Secret, data_dir: DataDir = None, as_json: Json = False) -> None:
    """Remove a secret. Actions that refer to it are refused from then on."""
    answer = Answer(as_json)
    store, valid = _store(data_dir, answer), _valid(secret, answer)
    if not store.remove(whoami().tenant, valid):
        answer.refuse(problem(Code.NOT_FOUND, f"There is no secret {valid!r}: see `lessor secret list`."))
    answer.give({"secret": valid, "removed": True}, lambda out: out.print(f"removed {valid}"))


def _store(data_dir: Path | None, answer: Answer) -> "Secrets":
    from lessor.browser.secretstore import Secrets
    from lessor.config import Config

    try:
        return Secrets(Config.of(os.environ, data_dir).data_dir / "secrets")
    except LessorError as error:
        answer.refuse(error.problem)


def _valid(secret: str, answer: Answer) -> str:
    from lessor.cli.session import name

    try:
        return name(secret, "secret")
    except LessorError as error:
        answer.refuse(error.problem)
