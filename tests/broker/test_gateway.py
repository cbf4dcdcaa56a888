"""From a caller's question through a host's doors to exactly one answer."""

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Callable

import msgspec
import pytest
from nats.aio.msg import Msg
from structlog.testing import capture_logs

from lessor.broker import subjects
from lessor.broker.connection import Connection
from lessor.broker.gateway import Gateway, Limits
from lessor.broker.line import BrokerLine
from lessor.errors import Code, Effect, Problem
from lessor.messages import wire
from lessor.messages.action import PageView
from lessor.messages.ids import Caller, ProfileKey, RunKey
from lessor.messages.reply import Listed, Navigated, Refused, RenewedAll
from lessor.messages.request import Acquire, AskStatus, ListProfiles, RenewAll, ShowRun
from lessor.ports import Call, HostCall, RunCall, Silence
from tests.support.broker import MachineClock, fresh, until

STATUS = AskStatus(id="q1")


class Host:
    """A gateway with mailboxes that remember what they got and answer as the test says."""

    def __init__(self, connection: Connection, name: str, limits: Limits = Limits()) -> None:  # noqa: B008
        self.name = name
        self.calls: list[Call] = []
        self.run_calls: list[RunCall] = []
        self.host_calls: list[HostCall] = []
        self.on_call: Callable[[Call], None] = lambda call: call.answer(Listed(profiles=(name,)))
        self.gateway = Gateway(
            connection,
            name,
            MachineClock(),
            self.to_profile,
            self.to_runs,
            self.to_host,
            limits,
        )

    def to_profile(self, call: Call) -> None:
        self.calls.append(call)
        self.on_call(call)

    def to_runs(self, call: RunCall) -> None:
        self.run_calls.append(call)
        call.answer(Listed(profiles=()))

    def to_host(self, call: HostCall) -> None:
        self.host_calls.append(call)
        call.answer(RenewedAll(clock_ms=1) if isinstance(call.request, RenewAll) else Listed(profiles=("a",)))


@pytest.fixture
def ann() -> Caller:
    return Caller(fresh("t"), "ann")


@pytest.fixture
def key(ann: Caller) -> ProfileKey:
    return ProfileKey(ann.tenant, "shop")


@pytest.fixture
async def host(connection: Connection) -> AsyncIterator[Host]:
    host = Host(connection, fresh("h"), Limits(per_profile_max=4, per_caller_max=6))
    await host.gateway.start()
    yield host
    await host.gateway.stop()


@pytest.fixture
def line(connection: Connection) -> BrokerLine:
    return BrokerLine(connection)


async def raw(connection: Connection, subject: str, body: bytes) -> Problem:
    answer = await connection.request(subject, body, 2.0)
    assert not isinstance(answer, Silence), answer
    told = wire.decode_reply(answer.data)
    assert isinstance(told, Refused), told
    return told.error


async def test_a_question_reaches_the_mailbox_with_its_caller(
    host: Host, line: BrokerLine, ann: Caller, key: ProfileKey
) -> None:
    told = await line.ask(subjects.profile(ann, key, "status"), STATUS, 2.0)

    assert Listed(profiles=(host.name,)) == told
    assert [(ann, key, STATUS)] == [(call.caller, call.key, call.request) for call in host.calls]


async def test_one_of_the_hosts_answers_an_any_host_question(
    host: Host, connection: Connection, line: BrokerLine, ann: Caller, key: ProfileKey
) -> None:
    other = Host(connection, fresh("h"))
    await other.gateway.start()
    for _ in range(20):
        assert isinstance(await line.ask(subjects.profile(ann, key, "status"), STATUS, 2.0), Listed)
    assert len(host.calls) + len(other.calls) == 20
    assert await other.gateway.stop()


async def test_runs_ticks_and_lists_find_their_mailbox(host: Host, line: BrokerLine, ann: Caller) -> None:
    run = RunKey(ann.tenant, "run")
    assert isinstance(await line.ask(subjects.run(ann, run, "show"), ShowRun(id="q"), 2.0), Listed)
    assert isinstance(await line.ask(subjects.renew(ann, host.name), RenewAll(id="q", worker="w"), 2.0), RenewedAll)
    assert isinstance(await line.ask(subjects.listing(ann), ListProfiles(id="q"), 2.0), Listed)

    assert [run] == [call.key for call in host.run_calls]
    assert [RenewAll, ListProfiles] == [type(call.request) for call in host.host_calls]


async def test_a_route_is_served_for_its_epoch_only(host: Host, line: BrokerLine, ann: Caller, key: ProfileKey) -> None:
    got: list[Call] = []

    def deliver(call: Call) -> None:
        got.append(call)
        call.answer(Listed(profiles=()))

    route = await asyncio.to_thread(host.gateway.open, key, "ann", 7, deliver)
    served = await line.ask(f"{route}.status", STATUS, 2.0)
    stale = await line.ask(f"{subjects.route(key, 'ann', 6)}.status", STATUS, 2.0)
    stranger = await line.ask(f"{subjects.route(key, 'bob', 7)}.status", STATUS, 2.0)
    await asyncio.to_thread(host.gateway.shut, key, 7)
    await line.ask(subjects.profile(ann, key, "status"), STATUS, 2.0)
    closed = await line.ask(f"{route}.status", STATUS, 2.0)

    assert isinstance(served, Listed)
    assert [stale, stranger, closed] == [Silence.NO_RESPONDERS] * 3
    assert len(got) == 1


async def test_a_reply_that_names_a_route_finds_it_open(
    host: Host, line: BrokerLine, ann: Caller, key: ProfileKey
) -> None:
    def opening(call: Call) -> None:
        threading.Thread(target=grant, args=(call,)).start()

    def grant(call: Call) -> None:
        route = host.gateway.open(key, "ann", 9, lambda inner: inner.answer(Listed(profiles=())))
        call.answer(Listed(profiles=(route,)))

    host.on_call = opening
    told = await line.ask(subjects.profile(ann, key, "status"), STATUS, 2.0)
    assert isinstance(told, Listed)
    assert isinstance(await line.ask(f"{told.profiles[0]}.status", STATUS, 2.0), Listed)


@pytest.mark.parametrize(
    ("verb", "body", "code"),
    [
        ("fly", b"{}", Code.INVALID_REQUEST),
        ("acquire", b"{", Code.INVALID_REQUEST),
        ("acquire", b'{"id":"a","run":"r","worker":"w","secret":"hunter2"}', Code.INVALID_REQUEST),
        (
            "acquire",
            b'{"id":"a","run":"r","worker":"w","run_deadline":"2030-01-01T00:00:00"}',
            Code.INVALID_REQUEST,
        ),
        ("acquire", b"[" * 60_000, Code.INVALID_REQUEST),
        ("status", b'{"id":"' + b"a" * 65_528 + b'"}', Code.TOO_LARGE),
        ("status", b"x" * 1_000_000, Code.TOO_LARGE),
    ],
)
async def test_f15_bad_input_is_answered_and_never_logged(
    host: Host, connection: Connection, ann: Caller, key: ProfileKey, verb: str, body: bytes, code: Code
) -> None:
    with capture_logs() as logs:
        told = await raw(connection, subjects.profile(ann, key, verb), body)

    assert (code, False) == (told.code, "hunter2" in told.message)
    assert (logs, host.calls) == ([], [])


async def test_f15_a_name_that_is_none_is_refused(host: Host, connection: Connection) -> None:
    assert (await raw(connection, "lessor.v1.ACME.ann.p.shop.status", b"{}")).code is Code.INVALID_REQUEST


async def test_only_the_first_answer_counts(host: Host, connection: Connection, ann: Caller, key: ProfileKey) -> None:
    got: list[bytes] = []
    done = asyncio.Event()

    async def take(message: object) -> None:
        got.append(getattr(message, "data", b""))
        done.set()

    inbox = connection.client.new_inbox()
    await connection.subscribe(inbox, take)

    def answer_twice(call: Call) -> None:
        for word in ("one", "two"):
            call.answer(Listed(profiles=(word,)))

    host.on_call = answer_twice
    await connection.publish(subjects.profile(ann, key, "status"), wire.encode(STATUS), reply=inbox)
    await asyncio.wait_for(done.wait(), 2)
    await connection.flush()

    assert [Listed(profiles=("one",))] == [wire.decode_reply(body) for body in got]


async def test_a_stranger_takes_nobodys_room(host: Host, line: BrokerLine, ann: Caller, key: ProfileKey) -> None:
    """Neither that of a profile which is not his, nor, under many names, all there is."""
    eve = Caller(ann.tenant, "eve")
    held: list[Call] = []
    host.on_call = held.append
    names = [*["shop"] * 5, *(f"made-up-{number}" for number in range(5))]
    theirs = [
        asyncio.ensure_future(line.ask(subjects.profile(eve, ProfileKey(eve.tenant, name), "status"), STATUS, 5.0))
        for name in names
    ]
    await until(lambda: sum(asked.done() for asked in theirs) == 4)
    refusals = [asked.result() for asked in theirs if asked.done()]
    assert {told.error.code for told in refusals if isinstance(told, Refused)} == {Code.OVERLOADED}
    assert len(held) == 6

    host.on_call = lambda call: call.answer(Listed(profiles=(host.name,)))
    assert Listed(profiles=(host.name,)) == await line.ask(subjects.profile(ann, key, "status"), STATUS, 2.0)
    for call in held:
        call.answer(Listed(profiles=()))
    await asyncio.gather(*theirs)
    assert isinstance(await line.ask(subjects.profile(eve, key, "status"), STATUS, 2.0), Listed)


async def test_too_many_in_hand_are_overloaded_until_answered(
    host: Host, line: BrokerLine, ann: Caller, key: ProfileKey
) -> None:
    host.on_call = lambda call: None
    subject = subjects.profile(ann, key, "status")
    asking = [asyncio.ensure_future(line.ask(subject, STATUS, 5.0)) for _ in range(5)]
    [first], _ = await asyncio.wait(asking, return_when=asyncio.FIRST_COMPLETED)
    told = first.result()
    assert isinstance(told, Refused)
    assert told.error.code is Code.OVERLOADED

    host.on_call = lambda call: call.answer(Listed(profiles=()))
    elsewhere = ProfileKey(ann.tenant, "other")
    assert isinstance(await line.ask(subjects.profile(ann, elsewhere, "status"), STATUS, 2.0), Listed)
    for call in host.calls[:4]:
        call.answer(Listed(profiles=()))
    assert isinstance(await line.ask(subject, STATUS, 2.0), Listed)
    await asyncio.gather(*asking)


async def test_p20_a_request_that_is_never_answered_gives_its_room_back(
    connection: Connection, line: BrokerLine, ann: Caller, key: ProfileKey
) -> None:
    host = Host(connection, fresh("h"), Limits(per_profile_max=1, grace_s=0.01))
    await host.gateway.start()
    host.on_call = lambda call: None
    subject = subjects.profile(ann, key, "status")
    with capture_logs() as logs:
        assert await line.ask(subject, AskStatus(id="q", budget_s=0.01), 0.01) is Silence.TIMEOUT
        await until(lambda: bool(logs))
    host.on_call = lambda call: call.answer(Listed(profiles=()))
    assert isinstance(await line.ask(subject, STATUS, 2.0), Listed)
    assert await host.gateway.stop()


async def test_an_answer_that_is_too_large_keeps_its_effect(
    host: Host, line: BrokerLine, ann: Caller, key: ProfileKey
) -> None:
    page = PageView(url="x" * 700_000, title="", revision="r")
    host.on_call = lambda call: call.answer(Navigated(page=page, effect=Effect.APPLIED))

    told = await line.ask(subjects.profile(ann, key, "status"), STATUS, 2.0)

    assert isinstance(told, Refused)
    assert (told.error.code, told.effect) == (Code.OUTPUT_INVALID, Effect.APPLIED)


async def test_a_forwarded_request_is_answered_by_the_owner(
    host: Host, connection: Connection, line: BrokerLine, ann: Caller, key: ProfileKey
) -> None:
    owner = Host(connection, fresh("h"))
    await owner.gateway.start()
    await owner.gateway.drain()
    host.on_call = lambda call: call.forward(owner.name)
    acquire = Acquire(id="q", run="r", worker="w")

    told = await line.ask(subjects.profile(ann, key, "acquire"), acquire, 2.0)

    assert Listed(profiles=(owner.name,)) == told
    assert [(ann, key, acquire)] == [(call.caller, call.key, call.request) for call in owner.calls]
    assert await owner.gateway.stop()


async def test_forwarding_in_a_circle_ends(host: Host, line: BrokerLine, ann: Caller, key: ProfileKey) -> None:
    host.on_call = lambda call: call.forward(host.name)

    told = await line.ask(subjects.profile(ann, key, "status"), STATUS, 2.0)

    assert isinstance(told, Refused)
    assert (told.error.code, len(host.calls)) == (Code.MOVED, 4)


async def test_forwarding_to_a_dead_host_has_no_responders(
    host: Host, line: BrokerLine, ann: Caller, key: ProfileKey
) -> None:
    host.on_call = lambda call: call.forward("gone")
    assert await line.ask(subjects.profile(ann, key, "status"), STATUS, 2.0) is Silence.NO_RESPONDERS


async def test_a_dead_mailbox_is_answered_as_moved(host: Host, line: BrokerLine, ann: Caller, key: ProfileKey) -> None:
    def dead(call: Call) -> None:
        raise RuntimeError("actor is dead")

    host.on_call = dead
    with capture_logs() as logs:
        told = await line.ask(subjects.profile(ann, key, "status"), STATUS, 2.0)
    assert isinstance(told, Refused)
    assert told.error.code is Code.MOVED
    assert len(logs) == 1


async def test_p20_stopping_waits_for_what_is_in_hand(
    connection: Connection, line: BrokerLine, ann: Caller, key: ProfileKey
) -> None:
    host = Host(connection, fresh("h"))
    await host.gateway.start()
    host.on_call = lambda call: None
    asking = asyncio.ensure_future(line.ask(subjects.profile(ann, key, "status"), STATUS, 5.0))
    await until(lambda: bool(host.calls))
    stopping = asyncio.ensure_future(host.gateway.stop())
    await connection.flush()
    host.calls[0].answer(Listed(profiles=()))

    assert (True, Listed(profiles=())) == (await stopping, await asking)
    assert await line.ask(subjects.profile(ann, key, "status"), STATUS, 2.0) is Silence.NO_RESPONDERS


async def test_the_services_api_answers(
    host: Host, connection: Connection, line: BrokerLine, ann: Caller, key: ProfileKey
) -> None:
    await line.ask(subjects.profile(ann, key, "status"), STATUS, 2.0)
    told: dict[str, dict[str, object]] = {}
    for verb in ("PING", "INFO", "STATS"):
        answer = await connection.request(f"$SRV.{verb}.lessor", b"", 2.0)
        assert not isinstance(answer, Silence)
        told[verb] = msgspec.json.decode(answer.data, type=dict[str, object])

    assert {"host": host.name} == told["PING"]["metadata"]
    assert '"lessor.v1.*.*.p.*.*"' in json.dumps(told["INFO"])
    assert '"num_requests": 1' in json.dumps(told["STATS"])


@pytest.mark.parametrize("reply", ["lessor.0.p.t.shop.journal", "$JS.API.INFO", "_INBOX.other.one.x"])
async def test_p17_a_host_is_nobodys_voice(
    host: Host, connection: Connection, ann: Caller, key: ProfileKey, reply: str
) -> None:
    """A host may publish anywhere; it answers only where its asker may listen, whatever the request names."""
    heard: list[str] = []

    async def hear(message: Msg) -> None:
        heard.append(message.subject)

    await connection.subscribe(reply, hear)
    mine = [subjects.profile(ann, key, verb) for verb in ("status", "nonsense")]
    for asked in (*mine, subjects.renew(ann, host.name)):
        await connection.publish(asked, b'{"id":"q","worker":"w"}', reply=reply)
    assert isinstance(await BrokerLine(connection).ask(subjects.listing(ann), ListProfiles(id="q"), 2.0), Listed)
    await connection.flush()
    assert (heard, host.calls, len(host.host_calls)) == ([], [], 1)
