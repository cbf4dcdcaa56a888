"""Registration with the NATS services API (ADR-32): `$SRV.PING`, `$SRV.INFO` and `$SRV.STATS` answer.

Our own few lines, because the client's endpoints measure until their handler returns: ours only
enqueues, and what an operator wants to see is how long callers waited for their answer.
"""

import asyncio
import contextlib
import importlib.metadata
import secrets
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

import msgspec
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription

from lessor.broker.connection import Connection
from lessor.broker.subjects import QUEUE
from lessor.errors import Code, Problem, problem
from lessor.ports import Silence

NAME: Final = "lessor"
_TYPES: Final = {"PING": "ping_response", "INFO": "info_response", "STATS": "stats_response"}


class Counts:
    """What one endpoint did since the start."""

    def __init__(self, name: str, subject: str, queue_group: str) -> None:
        self.identity = {"name": name, "subject": subject, "queue_group": queue_group}
        self.requests = 0
        self.errors = 0
        self.waited_ns = 0
        self.last_error = ""

    def answered(self, waited_ns: int, error: str | None) -> None:
        self.requests += 1
        self.waited_ns += waited_ns
        if error is not None:
            self.errors += 1
            self.last_error = error

    def told(self) -> dict[str, Any]:
        return {
            **self.identity,
            "num_requests": self.requests,
            "num_errors": self.errors,
            "last_error": self.last_error,
            "processing_time": self.waited_ns,
            "average_processing_time": self.waited_ns // max(1, self.requests),
        }


class Registration:
    """One host's presence under `$SRV`. `endpoints` maps a name to the subject it serves."""

    def __init__(self, connection: Connection, host: str, endpoints: Mapping[str, str]) -> None:
        self._connection = connection
        self._identity = {
            "name": NAME,
            "id": secrets.token_hex(8),
            "version": _version(),
            "metadata": {"host": host},
        }
        self._started = datetime.now(UTC).isoformat().replace("+00:00", "Z")
        self._subscriptions: list[Subscription] = []
        self.counts = {name: Counts(name, subject, QUEUE) for name, subject in endpoints.items()}

    async def start(self) -> list[Subscription]:
        for verb in _TYPES:
            for subject in (
                f"$SRV.{verb}",
                f"$SRV.{verb}.{NAME}",
                f"$SRV.{verb}.{NAME}.{self._identity['id']}",
            ):
                self._subscriptions.append(await self._connection.subscribe(subject, self._tell))
        return self._subscriptions

    async def _tell(self, message: Msg) -> None:
        verb = message.subject.split(".")[1]
        body: dict[str, Any] = {"type": f"io.nats.micro.v1.{_TYPES[verb]}", **self._identity}
        if verb == "INFO":
            body["description"] = "Leases logged-in browser profiles to agent runs"
            body["endpoints"] = [counts.identity | {"metadata": {}} for counts in self.counts.values()]
        elif verb == "STATS":
            body["started"] = self._started
            body["endpoints"] = [counts.told() for counts in self.counts.values()]
        if message.reply.startswith("_INBOX."):
            await self._connection.publish(message.reply, msgspec.json.encode(body))


def _version() -> str:
    """As the services API wants it: three numbers. A checkout that is not installed has none."""
    try:
        return ".".join(importlib.metadata.version("lessor").split(".")[:3])
    except importlib.metadata.PackageNotFoundError:
        return "0.0.0"


class _Metadata(msgspec.Struct):
    host: str


class _Ping(msgspec.Struct):
    metadata: _Metadata


async def hosts_answering(connection: Connection, within_s: float) -> tuple[str, ...] | Problem:
    """Every host that answers a ping in that time, by name; how many there are is not known beforehand."""
    subject = f"$SRV.PING.{NAME}"
    found: set[str] = set()
    over = asyncio.get_running_loop().time() + within_s

    async def hear(message: Msg) -> None:
        with contextlib.suppress(msgspec.DecodeError):
            found.add(msgspec.json.decode(message.data, type=_Ping).metadata.host)

    inbox = connection.client.new_inbox()
    subscription = await connection.subscribe(inbox, hear)
    await connection.publish(subject, b"", reply=inbox)
    # A request beside it, because only a request is told that it is forbidden, or that nobody is there.
    first = await connection.request(subject, b"", within_s)
    if isinstance(first, Msg):
        await asyncio.sleep(max(0.0, over - asyncio.get_running_loop().time()))
    await subscription.unsubscribe()
    if first is Silence.FORBIDDEN:
        return problem(Code.FORBIDDEN, f"The broker does not let you ping hosts: allow publishing to `{subject}`.")
    return tuple(sorted(found))
