"""Credentials: issued and withdrawn while the broker runs, private, and good for nothing but their own subjects."""

import asyncio
import json
import stat
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from lessor.broker import credentials, subjects
from lessor.broker.connection import Connection, Settings, open_connection
from lessor.broker.credentials import Credentials, caller_of
from lessor.broker.data_directory import DataDirectory
from lessor.broker.embedded import Embedded, Endpoint, credentials_of
from lessor.broker.jetstream import Stored
from lessor.broker.stream import open_stream
from lessor.broker.subjects import Shard
from lessor.broker.tenants import Issued, Tenants, issue
from lessor.broker.users import inbox_prefix
from lessor.errors import Code, Problem
from lessor.messages.ids import Caller
from lessor.ports import Silence
from tests.support.broker import configured_server, connect, until

ANN, BOB = Caller("acme", "ann"), Caller("acme", "bob")


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "data"


@pytest.fixture
def running(directory: Path) -> Iterator[Endpoint]:
    embedded = Embedded(directory)
    told = embedded.start()
    assert isinstance(told, Endpoint), told
    yield told
    embedded.stop()


def added(directory: Path, caller: Caller) -> Path:
    told = Tenants(directory).add(caller)
    assert isinstance(told, Issued), told
    assert told.credentials is not None
    return Path(told.credentials)


async def enter(url: str, file: Path, caller: Caller) -> Connection | Problem:
    return await open_connection(Settings((url,), "test", inbox_prefix=inbox_prefix(caller), credentials=file))


async def entered(url: str, file: Path, caller: Caller) -> Connection:
    opened = await enter(url, file, caller)
    assert isinstance(opened, Connection), opened
    return opened


async def test_a_tenant_added_to_a_running_broker_may_enter_at_once(running: Endpoint, directory: Path) -> None:
    file = await asyncio.to_thread(added, directory, ANN)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert caller_of(file, None, None) == ANN
    assert credentials_of(directory, ANN) == file

    ann = await entered(running.url, file, ANN)
    assert await ann.request(subjects.listing(ANN), b"", 2.0) is Silence.NO_RESPONDERS
    assert await ann.request(subjects.listing(BOB), b"", 2.0) is Silence.FORBIDDEN
    await ann.close()

    again = await asyncio.to_thread(added, directory, ANN)
    assert again == file


async def test_removed_credentials_are_cut_off_at_once_and_nobody_elses(running: Endpoint, directory: Path) -> None:
    files = [await asyncio.to_thread(added, directory, caller) for caller in (ANN, BOB)]
    ann, bob = [await entered(running.url, file, who) for file, who in zip(files, (ANN, BOB), strict=True)]

    gone = await asyncio.to_thread(Tenants(directory).remove, "acme", "ann")
    began = time.monotonic()

    assert gone == (Issued(tenant="acme", principal="ann"),)
    assert not files[0].exists()
    await until(lambda: not ann.connected)
    async with asyncio.timeout(3):
        await ann.closed.wait()
    assert await ann.request(subjects.listing(ANN), b"", 2.0) is Silence.FORBIDDEN
    assert time.monotonic() - began < 3
    assert bob.client.stats["reconnects"] == 0
    assert await bob.request(subjects.listing(BOB), b"", 2.0) is Silence.NO_RESPONDERS
    await bob.close()


async def test_what_is_asked_while_credentials_are_withdrawn_is_forbidden(running: Endpoint, directory: Path) -> None:
    file = await asyncio.to_thread(added, directory, ANN)
    ann, host = await entered(running.url, file, ANN), await connect(running)

    async def mute(message: object) -> None:
        """Nobody answers."""

    await host.subscribe(subjects.listing(ANN), mute)
    await host.flush()
    asking = asyncio.ensure_future(ann.request(subjects.listing(ANN), b"", 10.0))
    await asyncio.sleep(0)
    await asyncio.to_thread(Tenants(directory).remove, "acme", None)
    assert await asyncio.wait_for(asking, 1) is Silence.FORBIDDEN
    await host.close()


def test_who_is_added_while_nothing_runs_may_enter_later(directory: Path) -> None:
    first = Embedded(directory)
    assert isinstance(first.start(), Endpoint)
    first.stop()
    file = added(directory, ANN)
    kept = DataDirectory(directory).read()

    second = Embedded(directory)
    told = second.start()
    assert isinstance(told, Endpoint)
    assert DataDirectory(directory).read() == kept
    listed = Tenants(directory).listed()
    second.stop()
    assert not isinstance(listed, Problem)
    assert [(one.tenant, one.principal, one.credentials) for one in listed] == [
        ("acme", "ann", str(file)),
        ("local", "me", str(directory / "users" / "local.me.nk")),
    ]


@pytest.mark.parametrize(
    ("tenant", "principal", "code"),
    [
        ("acme", None, Code.NOT_FOUND),
        ("local", None, Code.INVALID_REQUEST),
        ("local", "me", Code.INVALID_REQUEST),
        ("../x", None, Code.INVALID_REQUEST),
        ("acme", ">", Code.INVALID_REQUEST),
    ],
)
def test_what_cannot_be_removed(directory: Path, tenant: str, principal: str | None, code: Code) -> None:
    embedded = Embedded(directory)
    assert isinstance(embedded.start(), Endpoint)
    embedded.stop()
    told = Tenants(directory).remove(tenant, principal)
    assert isinstance(told, Problem)
    assert told.code is code


def test_a_lost_seed_is_never_issued_twice(directory: Path) -> None:
    embedded = Embedded(directory)
    assert isinstance(embedded.start(), Endpoint)
    embedded.stop()
    added(directory, ANN).unlink()
    told = Tenants(directory).add(ANN)
    assert isinstance(told, Problem)
    assert "remove acme/ann first" in told.message
    missing = credentials_of(directory, ANN)
    assert isinstance(missing, Problem)
    assert "lessor tenant add acme --principal ann" in missing.message


async def test_a_directory_of_the_version_with_a_token_is_taken_over_with_all_it_holds(directory: Path) -> None:
    """The streams lie where they lay; the token opens nothing any more."""
    first = Embedded(directory)
    started = await asyncio.to_thread(first.start)
    assert isinstance(started, Endpoint)
    await asyncio.to_thread(first.stop)
    (directory / "host.nk").unlink()
    (directory / "users" / "local.me.nk").unlink()
    config = json.loads((directory / "broker.json").read_text())
    with_token: dict[str, object] = {**config, "authorization": {"token": "old"}}
    for later in ("pid_file", "http_base_path"):
        del with_token[later]
    (directory / "broker.json").write_text(json.dumps(with_token))
    settings = {name: value for name, value in with_token.items() if name not in ("listen", "http")}
    with configured_server(directory.parent, settings) as earlier:
        old = await open_connection(Settings((earlier.url,), "old", token="old"))
        assert isinstance(old, Connection)
        stream = await open_stream(old, Shard())
        assert not isinstance(stream, Problem)
        await stream.publish("lessor.0.run.local.r1", b"{}", {})
        await old.close()
    refused = Tenants(directory).add(ANN)
    assert isinstance(refused, Problem)
    assert "start `lessor up` once" in refused.message

    second = Embedded(directory)
    told = await asyncio.to_thread(second.start)
    assert isinstance(told, Endpoint)
    assert told.url == started.url
    host = await connect(told)
    kept = await open_stream(host, Shard())
    assert not isinstance(kept, Problem)
    assert isinstance(await kept.last("lessor.0.run.local.r1"), Stored)
    with_old_token = await open_connection(Settings((told.url,), "old", token="old"))
    assert isinstance(with_old_token, Problem)
    assert with_old_token.code is Code.FORBIDDEN
    assert "old" not in json.loads((directory / "broker.json").read_text())["authorization"]
    await host.close()
    await asyncio.to_thread(second.stop)


@pytest.fixture
def printed(tmp_path: Path) -> tuple[Path, str]:
    """A credentials file, and what an operator is to add."""
    told = issue(ANN, tmp_path / "credentials" / "acme.ann.nk")
    assert isinstance(told, Issued)
    assert told.config is not None
    assert told.credentials is not None
    file = Path(told.credentials)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert issue(ANN, file) == told
    return file, told.config


async def test_what_is_printed_for_an_operator_works_on_his_broker(tmp_path: Path, printed: tuple[Path, str]) -> None:
    file, config = printed
    settings: dict[str, object] = {"authorization": {"users": [json.loads(config)]}}
    with configured_server(tmp_path, settings) as server:
        ann = await entered(server.url, file, ANN)
        assert await ann.request(subjects.listing(ANN), b"", 2.0) is Silence.NO_RESPONDERS
        assert await ann.request("$JS.API.INFO", b"", 2.0) is Silence.FORBIDDEN
        await ann.close()


@pytest.mark.parametrize("text", ["", "SUAD", "not a seed at all\n"])
async def test_a_file_that_holds_no_seed_is_told_as_such(tmp_path: Path, text: str) -> None:
    file = tmp_path / "broken"
    file.write_text(text)
    told = await enter("nats://127.0.0.1:1", file, ANN)
    assert isinstance(told, Problem)
    assert (told.code, str(file) in told.message) == (Code.SETUP_FAILED, True)


def test_an_operators_signed_file_says_whose_it_is_when_it_does(tmp_path: Path) -> None:
    made = credentials.make(tmp_path / "plain", None)
    file = tmp_path / "signed.creds"
    blocks = f"-----BEGIN NATS USER JWT-----\nabc\n------END NATS USER JWT------\n{made.seed}\n"
    file.write_text(f"# lessor-tenant: acme\n{blocks}")
    told = credentials.read(file)
    assert isinstance(told, Credentials)
    assert (told.signed, told.tenant, told.principal) == (file, "acme", None)
    assert caller_of(file, "other", "bob") == BOB
    assert caller_of(None, None, None) == Caller("local", "me")
    assert caller_of(tmp_path / "none", "acme", "bob") == BOB
