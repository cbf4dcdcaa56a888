"""The few JetStream calls lessor makes, raw: the client's wrappers conflate errors that must be told apart.

Reads go to the stream's leader by `STREAM.MSG.GET`. `scan` may be answered by any replica: its callers
check how far it reached.
"""

import asyncio
import base64
import itertools
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final

import msgspec
from nats.aio.msg import Msg

from lessor.broker.connection import Connection
from lessor.ports import BrokerAway, Silence

WRONG_LAST: Final = 10071
"""The one refusal that says something about ownership. 10164 (a write in flight) and 10163 say nothing."""
NO_MESSAGE: Final = 10037

EXPECTED: Final = "Nats-Expected-Last-Subject-Sequence"
EXPECTED_FILTER: Final = "Nats-Expected-Last-Subject-Sequence-Subject"
ROLLUP: Final = "Nats-Rollup"
TTL: Final = "Nats-TTL"

PUBLISH_S: Final = 2.0
READ_S: Final = 2.0
"""One attempt; `READ_S_MAX` bounds the whole read."""
READ_S_MAX: Final = 10.0
RETRY_S: Final = (0.01, 0.25)
SCAN_MESSAGES: Final = 100_000
SCAN_BYTES: Final = 16 * 1024 * 1024
"""One batch; far below what a subscription may hold."""


@dataclass(frozen=True, slots=True)
class Ack:
    sequence: int


@dataclass(frozen=True, slots=True)
class Refusal:
    code: int
    text: str

    @property
    def last(self) -> int | None:
        """The last sequence a 10071 names; None when its text has none."""
        word = self.text.rpartition(":")[2].strip()
        return int(word) if word.isdigit() else None


@dataclass(frozen=True, slots=True)
class Stored:
    sequence: int
    subject: str
    data: bytes
    headers: bytes = b""
    """The raw header block; only of messages read from the leader."""


class _Error(msgspec.Struct):
    code: int = 0
    err_code: int = 0
    description: str = ""


class _Answer(msgspec.Struct):
    seq: int = 0
    error: _Error | None = None


class _Message(msgspec.Struct):
    seq: int
    subject: str
    data: str = ""
    hdrs: str = ""

    def stored(self) -> Stored:
        data, headers = base64.b64decode(self.data), base64.b64decode(self.hdrs)
        return Stored(self.seq, self.subject, data, headers)


class _State(msgspec.Struct):
    last_seq: int


class _StreamInfo(msgspec.Struct):
    state: _State | None = None


class _Got(msgspec.Struct):
    message: _Message | None = None
    error: _Error | None = None


_answer: Final = msgspec.json.Decoder(_Answer)
_got: Final = msgspec.json.Decoder(_Got)
_info: Final = msgspec.json.Decoder(_StreamInfo)


def backoff(attempt: int) -> float:
    """10 ms, doubling up to 250 ms."""
    least, most = RETRY_S
    return min(most, least * (1 << min(attempt, 10)))


class Stream:
    """One stream by name. A write is one attempt; reads repeat themselves until their bound."""

    def __init__(self, connection: Connection, name: str, read_s_max: float = READ_S_MAX) -> None:
        self.connection = connection
        self.name = name
        self._read_s_max = read_s_max

    def __repr__(self) -> str:
        return f"Stream({self.name})"

    async def publish(
        self, subject: str, data: bytes, headers: dict[str, str], timeout_s: float = PUBLISH_S
    ) -> Ack | Refusal | Silence:
        """One attempt. A Silence leaves open whether it was or will be stored."""
        answer = await self.connection.request(subject, data, timeout_s, headers)
        if isinstance(answer, Silence):
            return answer
        told = _answer.decode(answer.data)
        return Ack(told.seq) if told.error is None else Refusal(told.error.err_code, told.error.description)

    async def last(self, subject: str) -> Stored | None:
        """The last message of a subject or filter. Raises BrokerAway after its bound, like all reads."""
        return await self._get({"last_by_subj": subject})

    async def last_sequence(self) -> int:
        """Where the whole stream ends now, as its leader says."""
        async with within(self._read_s_max):
            for attempt in itertools.count():
                answer = await self.connection.request(f"$JS.API.STREAM.INFO.{self.name}", b"", READ_S)
                if not isinstance(answer, Silence):
                    told = _info.decode(answer.data)
                    if told.state is not None:
                        return told.state.last_seq
                await asyncio.sleep(backoff(attempt))
        raise AssertionError("the bound ends it")

    async def at(self, sequence: int) -> Stored | None:
        return await self._get({"seq": sequence})

    async def after(self, subject: str, sequence: int) -> Stored | None:
        """The first message of a subject behind a sequence."""
        return await self._get({"seq": sequence + 1, "next_by_subj": subject})

    async def delete(self, sequence: int) -> bool:
        """Remove one message; False when it could not be confirmed at once."""
        body = msgspec.json.encode({"seq": sequence, "no_erase": True})
        answer = await self.connection.request(f"$JS.API.STREAM.MSG.DELETE.{self.name}", body, READ_S)
        return not isinstance(answer, Silence) and _answer.decode(answer.data).error is None

    async def _get(self, query: dict[str, str | int]) -> Stored | None:
        body = msgspec.json.encode(query)
        async with within(self._read_s_max):
            for attempt in itertools.count():
                answer = await self.connection.request(f"$JS.API.STREAM.MSG.GET.{self.name}", body, READ_S)
                if not isinstance(answer, Silence):
                    told = _got.decode(answer.data)
                    if told.message is not None:
                        return told.message.stored()
                    if told.error is not None and told.error.err_code == NO_MESSAGE:
                        return None
                await asyncio.sleep(backoff(attempt))
        raise AssertionError("the bound ends it")

    async def scan(self, subject: str) -> list[Stored]:
        """All messages of a filter in order, as some replica has them now: one round trip per 16 MiB."""
        found: list[Stored] = []
        async with within(self._read_s_max):
            for attempt in itertools.count():
                batch = _Batch(found)
                if await batch.fetch(self, subject):
                    return found
                if not batch.moved:
                    await asyncio.sleep(backoff(attempt))
        raise AssertionError("the bound ends it")


class _Batch:
    """One batched direct get: messages on an inbox, then an end mark that says what is left."""

    def __init__(self, found: list[Stored]) -> None:
        self._found = found
        self._begun_with = len(found)
        self._previous = 0
        self._ended: asyncio.Future[bool] = asyncio.get_running_loop().create_future()

    @property
    def moved(self) -> bool:
        return len(self._found) > self._begun_with

    async def fetch(self, stream: Stream, subject: str) -> bool:
        """True: nothing is left behind what was found."""
        client = stream.connection.client
        first = self._found[-1].sequence + 1 if self._found else 1
        query = {"seq": first, "next_by_subj": subject, "batch": SCAN_MESSAGES, "max_bytes": SCAN_BYTES}
        inbox = client.new_inbox()
        subscription = await stream.connection.subscribe(inbox, self._take)
        try:
            sent = await stream.connection.publish(
                f"$JS.API.DIRECT.GET.{stream.name}", msgspec.json.encode(query), reply=inbox
            )
            if sent is not None:
                return False
            while True:
                had = len(self._found)
                await asyncio.wait({self._ended}, timeout=READ_S)
                if self._ended.done():
                    return self._ended.result()
                if len(self._found) == had:
                    return False
        finally:
            if not client.is_closed:
                await subscription.unsubscribe()

    async def _take(self, message: Msg) -> None:
        """Each names the one before it: a message the client dropped must not become a hole in a chain."""
        if self._ended.done():
            return
        headers = message.headers or {}
        status = headers.get("Status")
        if status == "404":
            self._ended.set_result(True)
        elif headers.get("Nats-Last-Sequence") != str(self._previous):
            self._ended.set_result(False)
        elif status is None:
            self._previous = int(headers["Nats-Sequence"])
            self._found.append(Stored(self._previous, headers["Nats-Subject"], message.data))
        else:
            self._ended.set_result(status == "204" and headers.get("Nats-Num-Pending") == "0")


@asynccontextmanager
async def within(seconds: float) -> AsyncGenerator[None, None]:
    """`asyncio.timeout` that ends in BrokerAway."""
    try:
        async with asyncio.timeout(seconds):
            yield
    except TimeoutError:
        raise BrokerAway("the broker did not answer in time") from None
