"""F15, as far as it needs no accounts: what a stranger or a careless client sends is refused, and nothing leaks."""

import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import structlog

from lessor.config import Config
from lessor.runtime import Runtime
from tests.wire.conftest import Speak, connection_to
from tests.wire.fake import Fake
from tests.wire.page import requests
from tests.wire.plain import Json, Lease, Plain, lease

SECRET = "hunter2-and-more"
SHOP = "lessor.v1.local.me.p.shop"
RUN = "lessor.v1.local.me.r.r9"
TAKE: Json = {"id": "a", "holder": "h", "worker": "w1", "deadline": "2031-01-01T00:00:00Z"}
ACQUIRE: Json = {"id": "a", "run": "r9", "worker": "w1"}
ACT: Json = {
    "id": "a",
    "lease": "x",
    "claim": 1,
    "deadline_ms": 1,
    "sequence": 1,
    "revision": "r0",
    "action": {"do": "click", "ref": "e1"},
}


@pytest.fixture
def logged(caplog: pytest.LogCaptureFixture) -> Iterator[list[str]]:
    """Everything that was logged, by whichever way."""
    caplog.set_level(logging.DEBUG)
    lines: list[str] = []
    with structlog.testing.capture_logs() as events:
        yield lines
        lines += [repr(event) for event in events]
        lines += [caplog.text]
    assert not any(SECRET in line for line in lines), lines
    assert not any("exc_info" in line for line in lines), "a traceback shows locals"


def nested(levels: int) -> bytes:
    return b'{"id":"a","origins":' + b"[" * levels + b"]" * levels + b"}"


BAD: dict[str, tuple[str, bytes | Json]] = {
    "empty": (f"{SHOP}.create", b""),
    "no json": (f"{SHOP}.create", SECRET.encode()),
    "half": (f"{SHOP}.create", b'{"id":"' + SECRET.encode()),
    "not utf-8": (f"{SHOP}.create", b'{"id":"\xff","origins":["' + SECRET.encode() + b'"]}'),
    "half a surrogate": (f"{SHOP}.create", b'{"id":"\\ud800","origins":["http://a"]}'),
    "a list": (f"{SHOP}.create", b"[1]"),
    "deep": (f"{SHOP}.create", nested(10_000)),
    "deeper": (f"{SHOP}.create", b"[" * 60_000),
    "unknown field": (f"{RUN}.take", {**TAKE, SECRET: 1}),
    "unknown field, deep": (f"{SHOP}.act", {**ACT, "action": {"do": "click", "ref": "e1", SECRET: SECRET}}),
    "naive time": (f"{RUN}.take", {**TAKE, "deadline": "2031-01-01T00:00:00"}),
    "time as a number": (f"{RUN}.take", {**TAKE, "deadline": 1924992000}),
    "wrong type": (f"{RUN}.take", {**TAKE, "attempt": SECRET}),
    "float for an integer": (f"{RUN}.take", {**TAKE, "attempt": 1.5}),
    "integer too large": (f"{RUN}.report", {"id": "a", "claim": 10**40, "status": "finished"}),
    "number out of range": (f"{SHOP}.status", b'{"id":"a","budget_s":1e400}'),
    "no such status": (f"{RUN}.report", {"id": "a", "claim": 1, "status": SECRET}),
    "no such action": (f"{SHOP}.act", {**ACT, "action": {"do": SECRET}}),
    "no such verb": (f"{SHOP}.open", {"id": "a"}),
    "no such run verb": (f"{RUN}.acquire", {"id": "a"}),
    "a name with a newline": (f"{SHOP}.acquire", {**ACQUIRE, "run": "r9\n"}),
    "a name with a dot": (f"{SHOP}.acquire", {**ACQUIRE, "run": "r9.own"}),
    "a name with a wildcard": (f"{SHOP}.acquire", {**ACQUIRE, "run": "*"}),
    "a worker with a newline": (f"{RUN}.take", {**TAKE, "worker": "w1\n"}),
    "a subject with a capital": ("lessor.v1.local.me.p.Shop.status", {"id": "a"}),
    "no origin": (f"{SHOP}.create", {"id": "a", "origins": []}),
    "an origin without a host": (f"{SHOP}.create", {"id": "a", "origins": ["http://[[["]}),
    "an origin with an empty port": (f"{SHOP}.create", {"id": "a", "origins": ["http://a:"]}),
    "an origin with a path": (f"{SHOP}.create", {"id": "a", "origins": [f"https://a/{SECRET}"]}),
}


@pytest.mark.parametrize("word", BAD)
async def test_f15_a_bad_request_is_refused_and_repeats_nothing(plain: Plain, logged: list[str], word: str) -> None:
    subject, content = BAD[word]
    body = content if isinstance(content, bytes) else json.dumps(content).encode()
    reply = await plain.send(subject, body)
    assert reply is not None
    assert (reply["type"], reply["error"]["code"]) == ("refused", "invalid_request"), reply
    assert SECRET not in json.dumps(reply)
    assert reply["error"].get("effect", "none") == "none"
    assert (await plain.profile("shop", "status"))["type"] == "status"


async def test_f15_65_537_bytes_are_too_large_and_65_536_are_not(plain: Plain, logged: list[str]) -> None:
    def padded(size: int) -> bytes:
        return b'{"id":"a"}'.ljust(size)

    fits = await plain.send(f"{SHOP}.status", padded(65_536))
    over = await plain.send(f"{SHOP}.status", padded(65_537))
    assert fits is not None
    assert fits["type"] == "status"
    assert over is not None
    assert over["error"]["code"] == "too_large"


@pytest.mark.parametrize("name", ["run", "p", "r", "h", "act", "list", "renew", "own", "journal", "12", "a-_-"])
async def test_f15_any_name_is_a_name(speak: Speak, name: str) -> None:
    """A profile, run and principal named like a verb or a token of ours are like any other."""
    caller = speak(principal=name)
    assert (await caller.profile(name, "create"))["profile"] == name
    held = await lease(caller, name, name)
    assert (await held.ask("observe"))["type"] == "observed"
    assert (await held.close())["receipt"]["kind"] == "sealed"
    assert (await caller.list())["profiles"] == [name]


@pytest.mark.parametrize(("tenant", "principal"), [("local", "other"), ("else", "me")])
async def test_f15_a_stranger_learns_nothing(
    plain: Plain, speak: Speak, fake: Fake, logged: list[str], tenant: str, principal: str
) -> None:
    """Asked with everything a stranger could have guessed: the answers are those for a profile that never was."""
    held = await lease(plain, "r1", "shop")
    mine = await held.ask("observe", id="guessable")
    stranger = speak(tenant, principal)
    guesses: dict[str, Json] = {
        "act": {"revision": "r0", "action": {"do": "click", "ref": "e1.aa"}},
        "observe": {"id": "guessable"},
        "outcome": {"sequence": 1},
    }
    for verb in ("acquire", "renew", "close", "navigate", "observe", "act", "outcome", "cancel", "reconcile", "status"):
        changes = {**(held.named if verb not in ("acquire", "status", "reconcile") else {}), **guesses.get(verb, {})}
        if verb in ("close", "navigate", "observe", "act"):
            changes["deadline_ms"] = held.deadline_ms(10.0)
        here, nowhere = [await stranger.profile(name, verb, **changes) for name in ("shop", "never")]
        assert here["error"]["code"] == "not_found", (verb, here)
        assert json.dumps(here).replace("shop", "never") == json.dumps(nowhere), verb
        assert mine["page"]["text"] not in json.dumps(here)
    for verb in ("show", "revoke"):
        assert (await stranger.profile("shop", verb))["error"]["code"] == "not_found"
    for verb in ("show", "cancel", "report"):
        here, nowhere = [await stranger.run(name, verb) for name in ("r1", "never")]
        assert here["error"]["code"] == "not_found"
        assert json.dumps(here).replace("r1", "never") == json.dumps(nowhere), verb
    assert (await stranger.list())["profiles"] == []
    assert (await stranger.renew(held.view["host"], worker="w1")).get("exceptions", []) == []
    assert (await held.ask("observe"))["type"] == "observed"
    assert fake.clicks == 0


async def test_f15_a_guessed_lease_or_claim_does_nothing(plain: Plain, fake: Fake) -> None:
    held = await lease(plain, "r1", "shop")
    click: Json = {"revision": "r0", "action": {"do": "click", "ref": "e1.aa"}}
    guesses: list[tuple[Json, str]] = [
        ({"lease": "0" * 24}, "lease_closed"),
        ({"claim": 2}, "invalid_request"),
        ({"claim": 2**53}, "invalid_request"),
    ]
    for guess, code in guesses:
        for verb, changes in (
            ("act", click),
            ("observe", {}),
            ("navigate", {}),
            ("renew", {}),
            ("close", {}),
            ("cancel", {}),
        ):
            reply = await held.ask(verb, **changes, **guess)
            assert reply["error"]["code"] == code, (verb, guess, reply)
            assert "lease" not in reply
    assert (await held.ask("act", **click))["effect"] == "applied"
    assert fake.clicks == 1


async def test_a_replaced_worker_is_fenced_and_told_nothing(plain: Plain, fake: Fake) -> None:
    """The next worker gets the same page; the first one's calls, also a repeated one, do nothing any more."""
    first = await lease(plain, "r1", "shop")
    second = await lease(plain, "r1", "shop", holder="another")
    assert (second.view["lease"], second.view["claim"]) == (first.view["lease"], 2)
    click: Json = {"revision": "r0", "action": {"do": "click", "ref": "e1.aa"}}
    for verb, changes in (
        ("act", click),
        ("observe", {}),
        ("navigate", {}),
        ("renew", {}),
        ("close", {}),
        ("cancel", {}),
    ):
        reply = await first.ask(verb, **changes)
        assert reply["error"]["code"] == "lease_fenced", (verb, reply)
        assert "lease" not in reply
    acquired = await plain.profile("shop", "acquire", claim=1)
    assert (acquired["error"]["code"], "lease" in acquired) == ("run_fenced", False)
    assert fake.clicks == 0


async def test_nobody_listens_on_the_route_of_an_earlier_epoch(tmp_path: Path, fake: Fake) -> None:
    """After the next activation the broker itself refuses what was meant for the one before."""

    async def browser(config: Config) -> Fake:
        return fake

    routes: list[str] = []
    for run in ("r1", "r2"):
        async with Runtime(Config(data_dir=tmp_path), browser=browser) as runtime:
            assert runtime.endpoint is not None
            connection = await connection_to(runtime.endpoint)
            plain = Plain(connection, requests())
            await plain.profile("shop", "create")
            held = await lease(plain, run, "shop")
            for earlier in routes:
                stale = Lease(plain, "shop", {"lease": {**held.view, "route": earlier}})
                assert await stale.send("observe", held.body("observe")) is None
            assert (await held.ask("observe"))["type"] == "observed"
            routes.append(held.view["route"])
            await connection.close()
    assert len(set(routes)) == 2


async def test_f15_what_was_typed_is_in_no_log_and_on_no_disk(plain: Plain, tmp_path: Path, logged: list[str]) -> None:
    held = await lease(plain, "r1", "shop")
    await held.ask("navigate", url=f"https://shop.example/cart?token={SECRET}#{SECRET}")
    typing: Json = {"do": "type", "ref": "e1.aa", "text": SECRET}
    assert (await held.ask("act", revision="r0", action=typing))["effect"] == "applied"
    await held.close()
    stored = stored_below(tmp_path)
    assert any(path.suffix == ".blk" for path in stored), stored
    assert not [path for path, content in stored.items() if SECRET.encode() in content]


def stored_below(directory: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in directory.rglob("*") if path.is_file()}


async def test_an_owner_that_breaks_shows_nothing_of_what_it_held(plain: Plain, fake: Fake, logged: list[str]) -> None:
    """The caller hears that the owner is gone; the next call finds it restarted, on the same page."""
    held = await lease(plain, "r1", "shop")
    fake.fails = RuntimeError(SECRET)
    broken: Any = await held.ask("observe")
    assert broken["error"]["code"] == "moved"
    assert SECRET not in json.dumps(broken)
    again = await lease(plain, "r1", "shop")
    assert (again.view["lease"], again.view["route"] != held.view["route"]) == (held.view["lease"], True)
    assert (await again.ask("observe"))["type"] == "observed"


@pytest.mark.parametrize("hops", ["²", "9" * 5000, "-1", "x"])
async def test_a_header_of_ours_set_by_anybody_costs_no_answer(plain: Plain, hops: str) -> None:
    body = json.dumps(plain.body("status")).encode()
    reply = await plain.connection.request(f"{SHOP}.status", body, timeout=5, headers={"Lessor-Hops": hops})
    assert json.loads(reply.data)["type"] == "status"
