"""JSON on the wire and in the journal: the only encoders and decoders there are."""

from typing import Final, TypeVar

import msgspec

from lessor.errors import Code, Problem, problem
from lessor.messages.record import Entry, HostSession, Own
from lessor.messages.reply import AnyReply, Reply
from lessor.messages.request import Request
from lessor.messages.run import RunRecord

REQUEST_BYTES_MAX: Final = 64 * 1024
REPLY_BYTES_MAX: Final = 640 * 1024

T = TypeVar("T")
_encoder: Final = msgspec.json.Encoder()
_reply_decoder: Final = msgspec.json.Decoder(AnyReply)
_decoders: Final[dict[type, msgspec.json.Decoder[object]]] = {}


def encode(message: Request[Reply] | Reply | Entry | Own | HostSession | RunRecord) -> bytes:
    return _encoder.encode(message)


def decode(body: bytes, kind: type[T]) -> T:
    """Decode something of ours. Raises `msgspec.ValidationError`: what we wrote ourselves must decode."""
    decoder = _decoders.get(kind)
    if decoder is None:
        decoder = _decoders[kind] = msgspec.json.Decoder(kind)
    value = decoder.decode(body)
    assert isinstance(value, kind)
    return value


def decode_request(body: bytes, kind: type[T]) -> T | Problem:
    """Decode what somebody sent us: anything wrong with it is an answer, which never repeats a value."""
    if len(body) > REQUEST_BYTES_MAX:
        return problem(Code.TOO_LARGE, f"The request has {len(body)} bytes; send at most {REQUEST_BYTES_MAX}.")
    try:
        return decode(body or b"{}", kind)
    except msgspec.ValidationError as error:
        return problem(Code.INVALID_REQUEST, f"Mend the request and send it again: {_without_payload(str(error))}.")
    except (msgspec.DecodeError, RecursionError):
        return problem(Code.INVALID_REQUEST, "The request is not valid JSON: send one JSON object.")


def _without_payload(said: str) -> str:
    """What msgspec found wrong and where, without the sender's own words."""
    if said.startswith("Object contains unknown field"):
        return "it has a field that is not known"
    if said.startswith("Invalid"):
        return f"invalid value at {said.rpartition(' - at ')[2]}"
    return said


def decode_reply(body: bytes) -> AnyReply | Problem:
    """Decode an owner's answer. Garbage is `output_invalid`; of an act that is no outcome (contract 13)."""
    if len(body) > REPLY_BYTES_MAX:
        return problem(Code.OUTPUT_INVALID, f"The answer has {len(body)} bytes, more than {REPLY_BYTES_MAX}.")
    try:
        return _reply_decoder.decode(body)
    except (msgspec.DecodeError, RecursionError):
        return problem(Code.OUTPUT_INVALID, "The answer cannot be understood; check the versions on both sides.")
