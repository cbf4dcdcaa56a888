"""Whether a broker that we did not start ourselves is fit to hold the journal (facts, NATS and nats-py)."""

import asyncio
from dataclasses import dataclass
from typing import Final

import msgspec

from lessor.broker.connection import Connection
from lessor.broker.embedded import syncs_always
from lessor.errors import Code, Problem, problem
from lessor.ports import Silence

VERSION_MIN: Final = (2, 11)
ASK_S: Final = 2.0


@dataclass(frozen=True, slots=True)
class ServerReport:
    """`unverified`: what could not be seen from here, as sentences for whoever starts lessor."""

    version: str
    unverified: tuple[str, ...] = ()


class _Error(msgspec.Struct):
    description: str = ""


class _Account(msgspec.Struct):
    error: _Error | None = None


class _Config(msgspec.Struct):
    sync_always: bool = False


class _Jsz(msgspec.Struct):
    config: _Config | None = None


class _Server(msgspec.Struct):
    cluster: str | None = None


class _Ping(msgspec.Struct):
    server: _Server = msgspec.field(default_factory=_Server)
    data: _Jsz | None = None


async def check_server(connection: Connection, monitoring: str | None = None) -> ServerReport | Problem:
    """Version, JetStream and `sync_interval: always`. `monitoring`: where its HTTP answers, if known."""
    version = connection.client.connected_server_version
    if (version.major, version.minor) < VERSION_MIN:
        return problem(
            Code.SETUP_FAILED,
            f"The broker is NATS {version.major}.{version.minor}: lessor needs 2.11 or later.",
        )
    if refusal := await _jetstream(connection):
        return refusal
    unverified: list[str] = []
    synced = await _synced(connection, monitoring, unverified)
    if synced is False:
        return problem(
            Code.SETUP_FAILED,
            "The broker acknowledges before it syncs, so a power cut would let epochs be issued twice: set"
            " `sync_interval: always` in its jetstream block.",
        )
    if synced is None:
        unverified.append(
            "Whether the broker runs with `sync_interval: always` cannot be seen from here: name its"
            " monitoring address, or see to it yourself."
        )
    told = f"{version.major}.{version.minor}.{version.patch}"
    return ServerReport(version=told, unverified=tuple(unverified))


async def _jetstream(connection: Connection) -> Problem | None:
    answer = await connection.request("$JS.API.INFO", b"", ASK_S)
    match answer:
        case Silence.NO_RESPONDERS:
            return problem(Code.SETUP_FAILED, "The broker runs without JetStream: enable it for this account.")
        case Silence.FORBIDDEN:
            return problem(Code.FORBIDDEN, "The broker forbids `$JS.API.>`: allow a host's user to publish there.")
        case Silence():
            return problem(Code.BROKER_UNAVAILABLE, "The broker does not answer: try again.")
        case _:
            pass
    told = msgspec.json.decode(answer.data, type=_Account).error
    if told is None:
        return None
    return problem(Code.SETUP_FAILED, f"JetStream cannot be used ({told.description}): enable it for this account.")


async def _synced(connection: Connection, monitoring: str | None, unverified: list[str]) -> bool | None:
    """By monitoring, else by the system account where this user may ask it."""
    if monitoring is not None:
        return await asyncio.to_thread(syncs_always, monitoring)
    answer = await connection.request("$SYS.REQ.SERVER.PING.JSZ", b'{"config":true}', ASK_S)
    if isinstance(answer, Silence):
        return None
    told = msgspec.json.decode(answer.data, type=_Ping)
    if told.data is None or told.data.config is None:
        return None
    if told.server.cluster:
        unverified.append("Only one server of the cluster told its sync interval: see to the others yourself.")
    return told.data.config.sync_always
