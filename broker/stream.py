"""The one stream of a shard: made when absent, checked when present, refused when it is another's."""

from typing import Any, Final

import msgspec

from lessor.broker.connection import Connection
from lessor.broker.jetstream import Stream
from lessor.broker.subjects import Shard
from lessor.errors import Code, Problem, problem
from lessor.ports import Silence

API_S: Final = 5.0
_NOT_FOUND: Final = 10059

REQUIRED: Final[dict[str, Any]] = {
    "retention": "limits",
    "storage": "file",
    "discard": "new",
    "max_msgs": -1,
    "max_bytes": -1,
    "max_age": 0,
    "max_msgs_per_subject": -1,
    "allow_rollup_hdrs": True,
    "allow_direct": True,
    "allow_msg_ttl": True,
}
"""Nothing is dropped to make room (`discard: new`): a full store refuses, and so the act is refused."""


class _Error(msgspec.Struct):
    err_code: int = 0
    description: str = ""


class _Info(msgspec.Struct):
    config: dict[str, Any] = {}
    error: _Error | None = None


async def open_stream(connection: Connection, shard: Shard, replicas: int = 1) -> Stream | Problem:
    """The shard's stream, ready for use. `replicas` (1 embedded, 3 on a cluster) counts when it is made."""
    info = await _ask(connection, f"$JS.API.STREAM.INFO.{shard.stream}", {})
    if isinstance(info, _Info) and info.error is not None and info.error.err_code == _NOT_FOUND:
        info = await _ask(connection, f"$JS.API.STREAM.CREATE.{shard.stream}", _wanted(connection, shard, replicas))
    if isinstance(info, Problem):
        return info
    if info.error is not None:
        return problem(
            Code.SETUP_FAILED,
            f"The broker does not give us stream {shard.stream} ({info.error.description}): enable JetStream"
            " for this account and allow it to make the stream.",
        )
    if wrong := _differences(info.config, shard):
        return problem(
            Code.SETUP_FAILED,
            f"Stream {shard.stream} exists with other settings ({', '.join(wrong)}): use another broker or"
            " account, or mend the stream.",
        )
    return Stream(connection, shard.stream)


def _wanted(connection: Connection, shard: Shard, replicas: int) -> dict[str, Any]:
    config = {"name": shard.stream, "subjects": [shard.everything], "num_replicas": replicas, **REQUIRED}
    version = connection.client.connected_server_version
    if (version.major, version.minor) >= (2, 12):
        config["allow_atomic"] = True
    return config


def _differences(config: dict[str, Any], shard: Shard) -> list[str]:
    expected = {"subjects": [shard.everything], **REQUIRED}
    wrong = [name for name, value in expected.items() if config.get(name, type(value)()) != value]
    return wrong + [name for name in ("mirror", "sources", "sealed", "deny_delete") if config.get(name)]


async def _ask(connection: Connection, subject: str, body: dict[str, Any]) -> _Info | Problem:
    answer = await connection.request(subject, msgspec.json.encode(body) if body else b"", API_S)
    match answer:
        case Silence.NO_RESPONDERS:
            return problem(Code.SETUP_FAILED, "The broker runs without JetStream: enable it for this account.")
        case Silence.FORBIDDEN:
            return problem(Code.FORBIDDEN, f"The broker forbids {subject}: allow this user to publish there.")
        case Silence():
            return problem(Code.BROKER_UNAVAILABLE, "The broker does not answer: start it, or try again.")
        case _:
            return msgspec.json.decode(answer.data, type=_Info)
