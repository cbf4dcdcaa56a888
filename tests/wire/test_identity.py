"""F15 and P17 on the embedded broker: with credentials of one's own, nothing of another's is reached or heard."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest
from nats.aio.client import Client
from nats.aio.msg import Msg

import lessor
from lessor.broker import subjects
from lessor.broker.connection import Connection, Settings, open_connection
from lessor.broker.credentials import Credentials, read
from lessor.broker.embedded import credentials_of
from lessor.broker.jetstream import Stored
from lessor.broker.line import BrokerLine
from lessor.broker.stream import open_stream
from lessor.broker.subjects import Shard
from lessor.broker.tenants import Issued, Tenants
from lessor.broker.users import inbox_prefix
from lessor.errors import Problem
from lessor.messages.ids import Caller, ProfileKey
from lessor.messages.request import AskStatus
from lessor.ports import Silence
from lessor.runtime import Runtime
from tests.support.broker import connect
from tests.wire.fake import Fake
from tests.wire.page import requests
from tests.wire.plain import Json, Plain, lease

ME, OTHER, ANN = Caller("local", "me"), Caller("local", "other"), Caller("acme", "ann")
SECRET = "hunter2-and-more"
FORBIDDEN_S_MAX = 1.0

Enter = Callable[[Caller], Awaitable[Connection]]


@pytest.fixture
async def enter(runtime: Runtime, tmp_path: Path) -> AsyncIterator[Enter]:
    """A connection with the caller's own credentials."""
    opened: list[Connection] = []

    async def entered(caller: Caller) -> Connection:
        assert runtime.endpoint is not None
        told = await asyncio.to_thread(Tenants(tmp_path / "broker").add, caller)
        assert isinstance(told, Issued), told
        file = credentials_of(tmp_path / "broker", caller)
        assert isinstance(file, Path)
        settings = Settings((runtime.endpoint.url,), "test", inbox_prefix=inbox_prefix(caller), credentials=file)
        connection = await open_connection(settings)
        assert isinstance(connection, Connection), connection
        opened.append(connection)
        return connection

    yield entered
    for connection in opened:
        await connection.close()


@pytest.fixture
async def mine(enter: Enter) -> Plain:
    """`local/me`, with a profile `shop`."""
    plain = Plain((await enter(ME)).client, requests(), "local", "me")
    assert (await plain.profile("shop", "create"))["type"] == "profile"
    return plain


@pytest.mark.parametrize("stranger", [OTHER, ANN], ids=str)
async def test_f15_every_foreign_subject_is_forbidden_within_a_second(
    mine: Plain, enter: Enter, fake: Fake, stranger: Caller
) -> None:
    held = await lease(mine, "r1", "shop")
    connection = await enter(stranger)
    journal = Shard().journal(ProfileKey("local", "shop"))
    host = held.view["host"]
    foreign = [
        *(f"lessor.v1.local.me.p.shop.{verb}" for verb in ("status", "acquire", "act", "close", "revoke")),
        f"{held.view['route']}.act",
        "lessor.v1.local.me.r.r1.take",
        f"lessor.v1.local.me.h.{host}.renew",
        "lessor.v1.local.me.list",
        f"lessor.fwd.{host}.local.me.p.shop.revoke",
        journal,
        Shard().own(ProfileKey("local", "shop")),
        "lessor.0.run.local.r1",
        f"lessor.0.host.{host}",
        "$JS.API.INFO",
        "$JS.API.STREAM.PURGE.LESSOR_0",
        "$JS.API.DIRECT.GET.LESSOR_0",
        "$JS.API.STREAM.MSG.GET.LESSOR_0",
        "$O.lessor_0_sealed.C.x",
        "$SRV.PING.lessor",
        "$SYS.REQ.SERVER.PING",
    ]
    for subject in foreign:
        began = time.monotonic()
        assert await connection.request(subject, b"{}", 10.0) is Silence.FORBIDDEN, subject
        assert time.monotonic() - began < FORBIDDEN_S_MAX, subject
    assert (await held.ask("observe"))["type"] == "observed"
    assert fake.clicks == 0


async def test_f15_the_owner_writes_no_journal_either(mine: Plain, enter: Enter) -> None:
    """The data directory's own principal is a worker like any other; only hosts write."""
    connection = await enter(ME)
    for subject in ("lessor.0.p.local.shop.own", "lessor.0.p.local.shop.journal", "$JS.API.STREAM.DELETE.LESSOR_0"):
        assert await connection.request(subject, b"{}", 10.0) is Silence.FORBIDDEN


@pytest.mark.parametrize(
    "subject",
    [
        ">",
        "*.>",
        "_INBOX.>",
        "_INBOX.*.*.>",
        "_INBOX.local.me.>",
        "_INBOX.local.*.>",
        f"{subjects.HOST_INBOX}.>",
        "lessor.>",
        "lessor.v1.>",
        "lessor.v1.local.me.>",
        "lessor.v1.local.other.>",
        "lessor.fwd.>",
        "lessor.0.>",
        "$JS.>",
        "$JS.EVENT.ADVISORY.>",
        "$SRV.>",
        "$SYS.>",
        "$KV.>",
        "$O.>",
    ],
)
async def test_f15_nobody_overhears_another(mine: Plain, enter: Enter, subject: str) -> None:
    """Refused, and nothing arrives while a whole lease is used beside it."""
    heard: list[Msg] = []
    refused = asyncio.Event()

    async def hear(message: Msg) -> None:
        heard.append(message)

    async def on_error(error: Exception) -> None:
        if "permissions violation" in str(error).lower():
            refused.set()

    stranger = await enter(OTHER)
    client = Client()
    file = stranger.settings.credentials
    assert file is not None
    kept = read(file)
    assert isinstance(kept, Credentials)
    await client.connect(stranger.settings.servers[0], nkeys_seed_str=kept.seed, error_cb=on_error)
    await client.subscribe(subject, cb=hear)  # pyright: ignore[reportUnknownMemberType]  # one parameter is untyped
    await asyncio.wait_for(refused.wait(), FORBIDDEN_S_MAX)
    held = await lease(mine, "r1", "shop")
    await held.ask("observe")
    await held.close()
    await client.flush()
    await client.close()
    assert heard == []


async def test_p17_no_answer_of_a_host_is_sent_where_its_asker_may_not_publish(
    mine: Plain, enter: Enter, runtime: Runtime
) -> None:
    """A request names where its answer goes, and a host may publish anywhere: it does not lend its voice."""
    held = await lease(mine, "r1", "shop")
    stranger = await enter(ANN)
    assert runtime.endpoint is not None
    host = await connect(runtime.endpoint)
    stream = await open_stream(host, Shard())
    assert not isinstance(stream, Problem)
    before = await stream.last("lessor.0.p.local.shop.>")
    heard: list[str] = []

    async def hear(message: Msg) -> None:
        heard.append(message.subject)

    victims = ["_INBOX.local.me.x", "lessor.v1.local.me.p.shop.revoke", "$JS.API.STREAM.PURGE.LESSOR_0", "lessor.fwd.x"]
    for subject in victims:
        await host.subscribe(subject, hear)
    await host.flush()
    for reply in (*victims, "lessor.0.p.local.shop.journal", "lessor.0.p.acme.new.own"):
        for asked in ("list", "p.shop.status", "r.r1.show", "p.shop.nonsense"):
            body = json.dumps({"id": SECRET}).encode()
            await stranger.publish(f"lessor.v1.acme.ann.{asked}", body, reply=reply)
    line = BrokerLine(stranger)
    told = await line.ask(subjects.profile(ANN, ProfileKey("acme", "shop"), "status"), AskStatus(id="q"), 5.0)
    assert not isinstance(told, Silence)
    await host.flush()
    assert heard == []
    after = await stream.last("lessor.0.p.local.shop.>")
    assert isinstance(before, Stored)
    assert isinstance(after, Stored)
    assert before.sequence == after.sequence
    assert (await held.ask("observe"))["type"] == "observed"
    await host.close()


async def test_p17_the_same_names_of_two_tenants_have_nothing_to_do_with_each_other(
    mine: Plain, enter: Enter, fake: Fake
) -> None:
    """Profile, run, worker and request ids the same: each has its own lease, page and answers."""
    foreign = Plain((await enter(ANN)).client, requests(), "acme", "ann")
    assert (await foreign.profile("shop", "create"))["type"] == "profile"
    here, there = await lease(mine, "r1", "shop"), await lease(foreign, "r1", "shop")
    assert here.view["lease"] != there.view["lease"]
    assert len(fake.live) == 2
    click: Json = {"revision": "r0", "action": {"do": "click", "ref": "e1.aa"}, "id": "same"}
    assert (await there.ask("act", **click))["sequence"] == 1
    assert here.view["next_sequence"] == 1
    assert (await foreign.profile("shop", "outcome", sequence=1, **there.named))["outcome"] == "applied"
    guessed = await foreign.profile("shop", "outcome", sequence=1, **here.named)
    assert guessed["error"]["code"] in ("no_record", "lease_closed"), guessed
    for verb in ("act", "observe", "renew", "close"):
        changes: Json = {**here.named, **(click if verb == "act" else {})}
        told = await there.ask(verb, **changes)
        assert told["error"]["code"] == "lease_closed", (verb, told)
    assert (await foreign.run("r1", "cancel"))["record"]["status"] == "cancelled"
    assert (await foreign.profile("shop", "revoke"))["state"] == "revoked"
    assert (await here.ask("observe"))["type"] == "observed"
    assert (await mine.run("r1", "show"))["record"]["status"] == "running"
    assert (await mine.list())["profiles"] == ["shop"]
    assert fake.clicks == 1


async def test_f15_what_is_asked_in_anothers_name_is_told_to_the_program_as_forbidden(
    mine: Plain, enter: Enter, runtime: Runtime, tmp_path: Path
) -> None:
    await enter(OTHER)
    file = credentials_of(tmp_path / "broker", OTHER)
    assert isinstance(file, Path)
    assert runtime.endpoint is not None
    async with lessor.connect(runtime.endpoint.url, credentials=file) as client:
        assert client.caller == OTHER
        assert await client.profiles() == ()
    async with lessor.connect(runtime.endpoint.url, credentials=file, principal="me") as client:
        for asked in (client.show_profile("shop"), client.profiles(), client.show_run("r1")):
            began = time.monotonic()
            with pytest.raises(lessor.LessorError) as refused:
                await asked
            assert refused.value.code is lessor.Code.FORBIDDEN
            assert time.monotonic() - began < FORBIDDEN_S_MAX
        began = time.monotonic()
        with pytest.raises(lessor.LessorError) as refused:
            await client.run("r1").__aenter__()
        assert refused.value.code is lessor.Code.FORBIDDEN
        assert time.monotonic() - began < FORBIDDEN_S_MAX
