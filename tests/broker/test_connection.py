"""The connection's promises: refusals are told as such, nothing hangs, a broker that is back is found."""

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from lessor.broker import subjects
from lessor.broker.connection import Connection, Settings, open_connection
from lessor.broker.embedded import Embedded, Endpoint
from lessor.broker.journal import StreamJournal
from lessor.broker.line import BrokerLine
from lessor.broker.server_check import ServerReport, check_server
from lessor.broker.stream import open_stream
from lessor.broker.subjects import Shard
from lessor.errors import Code, Problem
from lessor.messages.ids import Caller, ProfileKey
from lessor.messages.record import Own
from lessor.messages.request import AskStatus
from lessor.ports import Landed, Silence
from tests.support.broker import configured_server, connect, until

ANN, BOB = Caller("acme", "ann"), Caller("acme", "bob")
SHOP = ProfileKey("acme", "shop")
USERS = {
    "users": [
        {
            "user": "ann",
            "password": "a",
            "permissions": {"publish": ["lessor.v1.acme.ann.>"], "subscribe": ["_INBOX_ann.>"]},
        },
        {"user": "host", "password": "h"},
    ]
}


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[Endpoint]:
    """A broker with a user per principal, which does not sync every write."""
    settings: dict[str, object] = {
        "authorization": USERS,
        "jetstream": {"store_dir": str(tmp_path / "store")},
    }
    with configured_server(tmp_path, settings) as server:
        yield server


async def as_user(server: Endpoint, user: str, inbox_prefix: str) -> Connection:
    settings = Settings((server.url,), user, inbox_prefix=inbox_prefix, user=user, password=user[0])
    opened = await open_connection(settings)
    assert isinstance(opened, Connection), opened
    return opened


async def test_f15_another_principals_subject_is_forbidden_at_once(guarded: Endpoint) -> None:
    connection = await as_user(guarded, "ann", "_INBOX_ann")
    line = BrokerLine(connection)
    began = time.monotonic()

    foreign = await line.ask(subjects.profile(BOB, SHOP, "status"), AskStatus(id="1"), 5.0)
    own = await line.ask(subjects.profile(ANN, SHOP, "status"), AskStatus(id="2"), 5.0)

    assert (foreign, own) == (Silence.FORBIDDEN, Silence.NO_RESPONDERS)
    assert time.monotonic() - began < 2
    await connection.close()


async def test_an_inbox_that_is_not_ours_is_forbidden_not_silent(guarded: Endpoint) -> None:
    connection = await as_user(guarded, "ann", "_INBOX_bob")
    line = BrokerLine(connection)
    for _ in range(2):
        told = await line.ask(subjects.profile(ANN, SHOP, "status"), AskStatus(id="1"), 5.0)
        assert told is Silence.FORBIDDEN
    await connection.close()


async def test_wrong_credentials_are_told_at_once(endpoint: Endpoint) -> None:
    began = time.monotonic()
    told = await open_connection(Settings((endpoint.url,), "test", token="wrong"))

    assert isinstance(told, Problem)
    assert told.code is Code.FORBIDDEN
    assert time.monotonic() - began < 2


async def test_a_broker_that_is_not_there_is_told_in_time_and_without_secrets() -> None:
    told = await open_connection(Settings(("nats://ann:passw0rd@127.0.0.1:1",), "test"), within_s=0.3)

    assert isinstance(told, Problem)
    assert (told.code, told.retryable) == (Code.BROKER_UNAVAILABLE, True)
    assert "passw0rd" not in told.message


def test_settings_do_not_print_their_secrets() -> None:
    settings = Settings(("nats://localhost",), "test", token="t0ken", password="passw0rd")
    assert not any(secret in repr(settings) for secret in ("t0ken", "passw0rd"))


async def test_a_broker_that_does_not_sync_is_refused(guarded: Endpoint) -> None:
    connection = await as_user(guarded, "host", "_INBOX")

    seen = await check_server(connection, guarded.monitoring)
    unseen = await check_server(connection)

    assert isinstance(seen, Problem)
    assert "sync_interval: always" in seen.message
    assert isinstance(unseen, ServerReport)
    assert ["sync_interval" in sentence for sentence in unseen.unverified] == [True]
    await connection.close()


async def test_the_embedded_broker_is_fit(endpoint: Endpoint, connection: Connection) -> None:
    told = await check_server(connection, endpoint.monitoring)
    assert isinstance(told, ServerReport)
    assert told.unverified == ()


async def test_a_broker_without_jetstream_is_refused(tmp_path: Path) -> None:
    with configured_server(tmp_path, {}) as server:
        opened = await open_connection(Settings((server.url,), "test"))
        assert isinstance(opened, Connection)
        checked, stream = await check_server(opened), await open_stream(opened, Shard())
        await opened.close()
    for told in (checked, stream):
        assert isinstance(told, Problem)
        assert "JetStream" in told.message


async def test_a_stream_of_other_settings_is_refused(connection: Connection) -> None:
    foreign = Shard(7)
    body = b'{"name":"LESSOR_7","subjects":["lessor.7.>"],"max_age":60000000000}'
    await connection.request("$JS.API.STREAM.CREATE.LESSOR_7", body, 5.0)

    told = await open_stream(connection, foreign)

    assert isinstance(told, Problem)
    assert "max_age" in told.message


async def test_f07_a_pending_append_lands_when_the_broker_is_back(tmp_path: Path) -> None:
    first, second = Embedded(tmp_path / "data"), Embedded(tmp_path / "data")
    endpoint = first.start()
    assert isinstance(endpoint, Endpoint)
    connection = await connect(endpoint)
    stream = await open_stream(connection, Shard())
    assert not isinstance(stream, Problem)
    journal, line = StreamJournal(stream, Shard()), BrokerLine(connection)
    own = Own(host="h1", incarnation="i1", nonce="n1", boot="b", at_ms=1, state="active")
    assert isinstance(await journal.append(SHOP, own, 0), Landed)

    await asyncio.to_thread(first.stop)
    again = Own(host="h1", incarnation="i1", nonce="n2", boot="b", at_ms=2, state="active")
    pending = asyncio.ensure_future(journal.append(SHOP, again, 1))
    await until(lambda: not connection.connected)
    asked = await line.ask(subjects.profile(ANN, SHOP, "status"), AskStatus(id="1"), 5.0)
    assert asked is Silence.DISCONNECTED
    assert isinstance(await asyncio.to_thread(second.start), Endpoint)

    assert Landed(2) == await asyncio.wait_for(pending, 4)
    assert await journal.owned_by("h1") == (SHOP,)
    await connection.close()
    await asyncio.to_thread(second.stop)
