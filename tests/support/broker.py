"""A real nats-server for tests: one per session, a connection per test, and faults between us and it."""

import asyncio
import itertools
import socket
import subprocess
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest

from lessor.broker.connection import Connection, Settings, open_connection
from lessor.broker.embedded import Embedded, Endpoint, find_server
from lessor.broker.jetstream import Ack, Refusal, Stored, Stream
from lessor.ports import BrokerAway, Silence

_counted = itertools.count(1)


def fresh(word: str) -> str:
    """A name no other test of this session uses."""
    return f"{word}{next(_counted)}"


class MachineClock:
    """The real clocks."""

    @property
    def boot(self) -> str:
        return "this-boot"

    def now_ms(self) -> int:
        return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1_000_000

    def unix_ms(self) -> int:
        return time.time_ns() // 1_000_000


@pytest.fixture(scope="session")
def endpoint(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Endpoint]:
    """The session's broker."""
    broker = Embedded(Path(tmp_path_factory.mktemp("broker")) / "data")
    started = broker.start()
    assert isinstance(started, Endpoint), started
    yield started
    broker.stop()


async def connect(endpoint: Endpoint, name: str = "test") -> Connection:
    opened = await open_connection(Settings(servers=(endpoint.url,), name=name, credentials=endpoint.credentials))
    assert isinstance(opened, Connection), opened
    return opened


class FaultyStream(Stream):
    """The real stream, with the faults of `tests.model.world.World` on the way to it and back."""

    away = False
    _losses = 0
    _refusals = 0
    _delays = 0

    def __init__(self, connection: Connection, name: str) -> None:
        super().__init__(connection, name, read_s_max=2.0)
        self._ghosts: list[tuple[str, bytes, dict[str, str]]] = []

    def lose_acknowledgements(self, count: int = 1) -> None:
        self._losses = count

    def refuse(self, count: int) -> None:
        self._refusals = count

    def delay(self, count: int = 1) -> None:
        self._delays = count

    async def release_ghosts(self) -> None:
        ghosts, self._ghosts = self._ghosts, []
        for subject, data, headers in ghosts:
            await super().publish(subject, data, headers)

    async def publish(
        self, subject: str, data: bytes, headers: dict[str, str], timeout_s: float = 2.0
    ) -> Ack | Refusal | Silence:
        if self.away:
            return Silence.DISCONNECTED
        if self._refusals:
            self._refusals -= 1
            return Refusal(10164, "wrong last sequence, write in flight")
        if self._delays:
            self._delays -= 1
            self._ghosts.append((subject, data, headers))
            return Silence.TIMEOUT
        told = await super().publish(subject, data, headers, timeout_s)
        if self._losses and isinstance(told, Ack):
            self._losses -= 1
            return Silence.TIMEOUT
        return told

    async def last(self, subject: str) -> Stored | None:
        if self.away:
            raise BrokerAway("cut off by the test")
        return await super().last(subject)


@contextmanager
def configured_server(directory: Path, settings: dict[str, object]) -> Generator[Endpoint, None, None]:
    """A nats-server with settings of the test's own, as an operator would run it."""
    binary = find_server()
    assert binary is not None
    with socket.create_server(("127.0.0.1", 0)) as one, socket.create_server(("127.0.0.1", 0)) as two:
        client, http = (f"127.0.0.1:{peer.getsockname()[1]}" for peer in (one, two))
    config = directory / "server.json"
    config.write_bytes(msgspec.json.encode({"listen": client, "http": http, **settings}))
    with subprocess.Popen([binary, "-c", config], stderr=subprocess.DEVNULL) as server:
        host, port = client.split(":")
        ends = time.monotonic() + 5
        while time.monotonic() < ends:
            try:
                socket.create_connection((host, int(port)), timeout=1).close()
                break
            except OSError:
                time.sleep(0.01)
        yield Endpoint(url=f"nats://{client}", monitoring=http)
        server.terminate()


async def until(condition: Callable[[], bool], within_s: float = 5.0) -> None:
    """Look again on every turn of the loop until it holds."""
    async with asyncio.timeout(within_s):
        while not condition():  # noqa: ASYNC110  # there is no event to wait for
            await asyncio.sleep(0.001)
