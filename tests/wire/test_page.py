"""The page on the wire says what the program does: it is read by people who build clients from it."""

import hashlib
import json
from typing import cast, get_args

import msgspec
import pytest

from lessor.errors import Class, Code, Problem, problem
from lessor.messages import wire
from lessor.messages.action import AnyAction
from lessor.messages.reply import AnyReply, LeaseView
from lessor.messages.request import LIST_VERBS, RUN_VERBS, VERBS, RenewAll
from tests.wire.page import PAGE, Example, examples, rows

KINDS: dict[str, type[object]] = {
    **VERBS,
    **{f"r.{verb}": kind for verb, kind in RUN_VERBS.items()},
    "h.renew": RenewAll,
    **LIST_VERBS,
}
REPLIES: dict[str, type] = {str(kind.__struct_config__.tag): kind for kind in get_args(AnyReply)}


@pytest.mark.parametrize("example", [one for one in examples() if one.side == "request"], ids=str)
def test_every_request_on_the_page_is_one(example: Example) -> None:
    kind = KINDS[example.name]
    told: object = wire.decode_request(example.body.encode(), kind)
    assert isinstance(told, kind), told
    assert within(json.loads(example.body), json.loads(msgspec.json.encode(told)))


def within(shown: object, whole: object) -> bool:
    """Whether an example says nothing but what was understood: fields it leaves out have their defaults."""
    if isinstance(shown, dict) and isinstance(whole, dict):
        pairs = cast("dict[str, object]", shown), cast("dict[str, object]", whole)
        return all(within(value, pairs[1][name]) for name, value in pairs[0].items())
    return shown == whole


@pytest.mark.parametrize("example", [one for one in examples() if one.side == "reply"], ids=str)
def test_every_reply_on_the_page_is_what_would_be_sent(example: Example) -> None:
    told = wire.decode_reply(example.body.encode())
    assert isinstance(told, REPLIES[example.name]), told
    assert not isinstance(told, Problem)
    assert json.loads(wire.encode(told)) == json.loads(example.body)


def test_every_verb_and_every_reply_has_an_example() -> None:
    shown = {(one.side, one.name) for one in examples()}
    assert {("request", name) for name in KINDS} <= shown
    assert {("reply", name) for name in REPLIES} <= shown


def test_every_code_has_a_row_with_its_class_effect_and_retry() -> None:
    told = {row.code: row for row in rows()}
    assert list(told) == [str(code) for code in Code]
    for code in Code:
        row, implied = told[code], problem(code, "")
        assert (row.class_, row.effect, row.retryable) == (code.class_, implied.effect, implied.retryable), code
        assert (row.lease == "dropped") == code.class_.drops_lease, code


def test_every_action_and_every_field_of_the_lease_is_on_the_page() -> None:
    for kind in get_args(AnyAction):
        row = next(line for line in PAGE.splitlines() if line.startswith(f"| `{kind.__struct_config__.tag}` |"))
        assert all(f"`{field}`" in row for field in kind.__struct_fields__), row
    fields = "\n".join(line for line in PAGE.splitlines() if line.startswith("| `"))
    assert all(f"`{field}`" in fields for field in LeaseView.__struct_fields__)


def test_bounds_and_request_key_on_the_page_are_the_programs() -> None:
    assert f"{wire.REQUEST_BYTES_MAX:,} bytes, else `too_large`" in PAGE
    assert f"{wire.REPLY_BYTES_MAX:,} bytes, else `output_invalid`" in PAGE
    assert hashlib.sha256(b"order-81:place").hexdigest() in PAGE
    assert str(Class.LEASE_INVALID) in PAGE
