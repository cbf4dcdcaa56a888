"""Whatever we write, we read back the same; what others send is decoded strictly, and refused without its payload."""

import json
from datetime import UTC, datetime
from inspect import getmembers, isclass
from types import ModuleType
from typing import Any, get_args

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lessor.errors import Code, Problem
from lessor.messages import record, reply, request
from lessor.messages.action import Type
from lessor.messages.record import AnyRecord, Entry, HostSession, Own
from lessor.messages.reply import AnyReply
from lessor.messages.request import LIST_VERBS, RUN_VERBS, VERBS, Acquire, Act, Observe, RenewAll
from lessor.messages.run import RunRecord
from lessor.messages.wire import REQUEST_BYTES_MAX, decode, decode_reply, decode_request, encode

REQUESTS: list[type[Any]] = [*VERBS.values(), *RUN_VERBS.values(), *LIST_VERBS.values(), RenewAll]
REPLIES: list[type[Any]] = list(get_args(AnyReply))
RECORDS: list[type[Any]] = list(get_args(AnyRecord))


def strategy(kind: msgspec.inspect.Type) -> st.SearchStrategy[Any]:
    """Values of a msgspec type, within its bounds."""
    inspect = msgspec.inspect
    match kind:
        case inspect.NoneType():
            return st.none()
        case inspect.BoolType():
            return st.booleans()
        case inspect.IntType():
            least = kind.ge if kind.ge is not None else -(2**53)
            return st.integers(int(least), int(kind.le if kind.le is not None else 2**53))
        case inspect.FloatType():
            low = kind.gt if kind.gt is not None else kind.ge
            floats = st.floats(low, kind.le, exclude_min=kind.gt is not None, allow_nan=False, allow_infinity=False)
            return floats.map(lambda number: float(f"{number:.6g}")).filter(
                lambda number: kind.gt is None or number > 0
            )
        case inspect.StrType(pattern=str() as pattern):
            return st.from_regex(pattern, fullmatch=True)
        case inspect.StrType():
            text = st.characters(exclude_categories=["Cs"])
            return st.text(text, min_size=kind.min_length or 0, max_size=min(kind.max_length or 20, 20))
        case inspect.BytesType():
            return st.binary(max_size=20)
        case inspect.DateTimeType():
            return st.datetimes(datetime(2000, 1, 1), datetime(2100, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001
        case inspect.EnumType():
            return st.sampled_from(list(kind.cls))
        case inspect.LiteralType():
            return st.sampled_from(list(kind.values))
        case inspect.VarTupleType():
            few = min(kind.max_length or 3, 3)
            return st.lists(strategy(kind.item_type), min_size=kind.min_length or 0, max_size=few).map(tuple)
        case inspect.TupleType():
            return st.tuples(*(strategy(each) for each in kind.item_types))
        case inspect.UnionType():
            return st.one_of([strategy(each) for each in kind.types])
        case inspect.StructType():
            fields = {field.name: strategy(field.type) for field in kind.fields}
            if kind.cls is Type:
                # A text or a secret, never both.
                typed = st.builds(Type, ref=fields["ref"], text=fields["text"])
                return typed | st.builds(Type, ref=fields["ref"], secret=fields["secret"])
            return st.builds(kind.cls, **fields)
        case _:
            raise AssertionError(kind)


def made(kind: Any) -> st.SearchStrategy[Any]:
    return strategy(msgspec.inspect.type_info(kind))


@pytest.mark.parametrize("kind", REQUESTS, ids=lambda kind: kind.__name__)
def test_request_comes_back_the_same(kind: type[Any]) -> None:
    @settings(max_examples=30, deadline=None)
    @given(made(kind))
    def check(message: Any) -> None:
        assert decode_request(encode(message), kind) == message

    check()


@pytest.mark.parametrize("kind", REPLIES, ids=lambda kind: kind.__name__)
def test_reply_comes_back_the_same(kind: type[Any]) -> None:
    @settings(max_examples=30, deadline=None)
    @given(made(kind))
    def check(message: Any) -> None:
        assert decode_reply(encode(message)) == message

    check()


@pytest.mark.parametrize("kind", RECORDS, ids=lambda kind: kind.__name__)
def test_record_comes_back_the_same(kind: type[Any]) -> None:
    @settings(max_examples=30, deadline=None)
    @given(made(kind))
    def check(message: Any) -> None:
        entry = Entry(epoch=1, nonce="n", boot="b", at_ms=1, records=(message, message))
        assert decode(encode(entry), Entry) == entry

    check()


@pytest.mark.parametrize("kind", [Own, HostSession, RunRecord], ids=lambda kind: kind.__name__)
def test_stored_value_comes_back_the_same(kind: type[Any]) -> None:
    @settings(max_examples=30, deadline=None)
    @given(made(kind))
    def check(message: Any) -> None:
        assert decode(encode(message), kind) == message

    check()


def test_every_message_is_covered() -> None:
    def concrete(module: ModuleType, base: type[Any]) -> set[type[Any]]:
        found = [each for _, each in getmembers(module, isclass)]
        return {each for each in found if issubclass(each, base) and each.__module__ == module.__name__}

    requests = {request.Request, request.LeaseRequest, request.PageRequest, request.AnswerRun}
    abstract = requests | {reply.Reply, record.Record}
    assert concrete(request, request.Request) - abstract == set(REQUESTS)
    assert concrete(reply, reply.Reply) - abstract == set(REPLIES)
    assert concrete(record, record.Record) - abstract == set(RECORDS)


ACQUIRE = {"id": "a", "run": "r1", "worker": "w"}
ACT = {
    "id": "a",
    "lease": "l",
    "claim": 1,
    "deadline_ms": 5,
    "sequence": 1,
    "revision": "v1",
    "action": {"do": "click", "ref": "e1"},
}


def refusal(body: bytes, kind: type[Any]) -> Problem:
    refused = decode_request(body, kind)
    assert isinstance(refused, Problem), refused
    return refused


def changed(base: dict[str, Any], **fields: Any) -> bytes:
    return json.dumps(base | fields).encode()


def test_plain_json_is_enough() -> None:
    assert isinstance(decode_request(changed(ACQUIRE), Acquire), Acquire)
    assert isinstance(decode_request(changed(ACT), Act), Act)


@pytest.mark.parametrize("kind", REQUESTS, ids=lambda kind: kind.__name__)
def test_f15_unknown_field_is_refused(kind: type[Any]) -> None:
    @settings(max_examples=1, deadline=None)
    @given(made(kind))
    def check(message: Any) -> None:
        body = json.loads(encode(message)) | {"hunter2": 1}
        assert refusal(json.dumps(body).encode(), kind).code is Code.INVALID_REQUEST

    check()


@pytest.mark.parametrize(
    "fields",
    [
        {"hunter2": 1},
        {"x" * 60_000: 1},
        {"x - at `$.hunter2": 1},
        {"action": {"do": "hunter2"}},
        {"action": {"do": "click", "ref": "e1", "hunter2": 1}},
        {"action": {"do": "click", "ref": "hunter2 hunter2"}},
        {"match": "hunter2"},
        {"match": "hunter2' - at `$.hunter2"},
        {"claim": "hunter2"},
        {"tab": "hunter2 "},
        {"step": {"task": "t", "step": "s", "request_key": "hunter2"}},
    ],
)
def test_f15_refusal_never_repeats_the_payload(fields: dict[str, Any]) -> None:
    refused = refusal(changed(ACT, **fields), Act)
    assert refused.code is Code.INVALID_REQUEST
    assert "hunter2" not in refused.message
    assert len(refused.message) < 300


@pytest.mark.parametrize("moment", ["2030-01-01T00:00:00", "2030-01-01", "soon", 0])
def test_f15_naive_time_is_refused(moment: object) -> None:
    assert refusal(changed(ACQUIRE, run_deadline=moment), Acquire).code is Code.INVALID_REQUEST
    aware = decode_request(changed(ACQUIRE, run_deadline="2030-01-01T00:00:00+02:00"), Acquire)
    assert isinstance(aware, Acquire)


def test_f15_too_large_a_request_is_refused_unread() -> None:
    largest = changed(ACQUIRE).ljust(REQUEST_BYTES_MAX)
    assert isinstance(decode_request(largest, Acquire), Acquire)
    assert refusal(largest + b" ", Acquire).code is Code.TOO_LARGE


@pytest.mark.parametrize("opening", [b"[", b'{"a":', b'{"id":[', b'{"action":{"do":', b'{"id":{"a":'])
def test_f15_deep_nesting_is_refused(opening: bytes) -> None:
    body = opening * (REQUEST_BYTES_MAX // len(opening))
    assert refusal(body, Acquire).code is Code.INVALID_REQUEST
    assert refusal(body, Act).code is Code.INVALID_REQUEST


@pytest.mark.parametrize(
    "body", [b"", b"null", b"[]", b"{", b"\xff", b'{"id":"\xff"}', b'"x"', b"1", b'{"id":"\\ud800"}']
)
def test_f15_what_is_no_request_is_refused(body: bytes) -> None:
    assert refusal(body, Acquire).code is Code.INVALID_REQUEST


@pytest.mark.parametrize(
    "name", ["", "R1", "-r", "r.1", "r*", "r>", "r 1", "r1\n", "é", "r" * 64, "run/../x", "\u0000"]
)
def test_f15_name_must_be_one_subject_token(name: str) -> None:
    assert refusal(changed(ACQUIRE, run=name), Acquire).code is Code.INVALID_REQUEST


@pytest.mark.parametrize("name", ["r", "0", "run", "r-1_x", "r" * 63])
def test_good_names_pass(name: str) -> None:
    assert isinstance(decode_request(changed(ACQUIRE, run=name), Acquire), Acquire)


@pytest.mark.parametrize(
    "fields",
    [
        {"claim": 0},
        {"claim": 1.5},
        {"claim": True},
        {"claim": 2**53 + 1},
        {"sequence": 0},
        {"sequence": "1"},
        {"deadline_ms": -1},
        {"budget_s": 0},
        {"budget_s": 121},
        {"lease": "a b"},
        {"lease": "l\n"},
        {"lease": ""},
        {"revision": "v1\n"},
        {"action": None},
        {"action": {"do": "click"}},
        {"action": {"do": "type", "ref": "e", "text": "x" * 65_537}},
        {"action": {"do": "scroll", "by_px": 100_001}},
        {"step": {"task": "t", "step": "s", "request_key": "a" * 64 + "\n"}},
    ],
)
def test_value_out_of_bounds_is_refused(fields: dict[str, Any]) -> None:
    refused = refusal(changed(ACT, **fields), Act)
    assert refused.code in (Code.INVALID_REQUEST, Code.TOO_LARGE)


@pytest.mark.parametrize("wait_s", [-0.1, 5.1, "NaN"])
def test_wait_is_at_most_5_s(wait_s: object) -> None:
    assert refusal(changed(ACQUIRE, wait_s=wait_s), Acquire).code is Code.INVALID_REQUEST


def test_reply_with_fields_of_a_later_version_is_understood() -> None:
    later = decode_reply(b'{"type":"cancelled","v":2,"found":true,"new":{"deep":[1]}}')
    assert isinstance(later, reply.Cancelled)
    assert later.found


@pytest.mark.parametrize(
    "body", [b"", b"{}", b"null", b'{"type":"later"}', b"\xff", b'{"type":"renewed","x":' + b"[" * 100_000]
)
def test_s11_garbage_is_no_answer(body: bytes) -> None:
    garbage = decode_reply(body)
    assert isinstance(garbage, Problem)
    assert garbage.code is Code.OUTPUT_INVALID


def test_s11_too_large_an_answer_is_no_answer() -> None:
    garbage = decode_reply(b" " * (640 * 1024 + 1))
    assert isinstance(garbage, Problem)
    assert garbage.code is Code.OUTPUT_INVALID


def test_entry_with_an_unknown_record_kind_is_not_ours_to_own() -> None:
    body = b'{"epoch":1,"nonce":"n","boot":"b","at_ms":1,"records":[{"kind":"later"}]}'
    with pytest.raises(msgspec.ValidationError):
        decode(body, Entry)


def test_entry_with_an_unknown_field_is_read() -> None:
    body = b'{"epoch":1,"nonce":"n","boot":"b","at_ms":1,"records":[{"kind":"skipped","lease":"l","sequence":1,"x":2}]}'
    assert decode(body, Entry).records == (record.Skipped(lease="l", sequence=1),)


def test_empty_body_asks_for_what_needs_no_fields_but_an_id() -> None:
    assert isinstance(decode_request(b'{"id":"a"}', RUN_VERBS["show"]), request.ShowRun)
    assert refusal(b"", Observe).code is Code.INVALID_REQUEST
