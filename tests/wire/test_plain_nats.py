"""A worker that knows only the page on the wire gets through a whole run, on a fake page and on Chromium."""

import asyncio
import json
from pathlib import Path

from nats.aio.client import Client

from lessor.cli.demo.site import Site
from lessor.config import Config
from lessor.runtime import Runtime
from tests.wire.conftest import Speak, connection_to
from tests.wire.fake import Fake
from tests.wire.page import requests
from tests.wire.plain import Json, Lease, Plain, lease


async def test_a_run_from_take_to_report(plain: Plain, fake: Fake) -> None:
    held = await lease(plain, "r1", "shop")
    went = await held.ask("navigate", url="https://shop.example/cart")
    assert (went["type"], went["page"]["status"]) == ("navigated", 200)
    seen = await held.ask("observe")
    button = seen["page"]["elements"][0]
    click = {"do": "click", "ref": button["ref"]}
    acted = await held.ask("act", revision=seen["page"]["revision"], action=click)
    assert (acted["type"], acted["effect"], acted["sequence"]) == ("acted", "applied", 1)
    assert held.view["next_sequence"] == 2
    outcome = await plain.profile("shop", "outcome", **held.named, sequence=1)
    assert (outcome["type"], outcome["outcome"], outcome["effect"]) == ("outcome", "applied", "applied")
    renewed = await held.ask("renew")
    assert renewed["lease"]["expires_in_s"] > 890
    closed = await held.close()
    assert closed["receipt"] == {"kind": "sealed", "reason": "ended", "generation": 1}
    assert await held.close() == closed
    finished = await plain.run("r1", "report", claim=held.view["claim"])
    assert finished["record"]["status"] == "finished"
    assert fake.clicks == 1


async def test_a_run_on_a_real_page(tmp_path: Path) -> None:
    with Site(tmp_path / "site") as site:
        async with Runtime(Config(data_dir=tmp_path / "data")) as runtime:
            assert runtime.endpoint is not None
            connection = await connection_to(runtime.endpoint)
            await approve_a_row(Plain(connection, requests()), site)
            await connection.close()
        assert len(site.approvals()) == 1


async def approve_a_row(plain: Plain, site: Site) -> None:
    """Type where typing is allowed, be refused where it is not, then press one button, once."""
    assert (await plain.profile("books", "create", origins=[site.url]))["type"] == "profile"
    held = await lease(plain, "r1", "books")
    went = await held.ask("navigate", timeout_s=20.0, url=f"{site.url}/login")
    assert (went["type"], went["page"]["status"]) == ("navigated", 200), went
    typed = await act(held, "User", "type", text="demo")
    assert typed["page"]["elements"][-3]["value"] == "demo"
    refused = await act(held, "Password", "type", text="demo")
    assert (refused["error"]["code"], held.view["next_sequence"]) == ("action_not_allowed", 2)
    await held.ask("navigate", timeout_s=20.0, url=f"{site.url}/table")
    approved = await act(held, "Approve", "click")
    assert (approved["type"], approved["effect"], approved["sequence"]) == ("acted", "applied", 2)
    outcome = await plain.profile("books", "outcome", **held.named, sequence=2)
    assert outcome["outcome"] == "applied"
    assert (await held.close())["receipt"] == {"kind": "sealed", "reason": "ended", "generation": 1}
    finished = await plain.run("r1", "report", claim=held.view["claim"])
    assert finished["record"]["status"] == "finished"


async def act(held: Lease, name: str, do: str, **fields: str) -> Json:
    """Observe, then act on the first element of that name."""
    page = (await held.ask("observe"))["page"]
    ref = next(element["ref"] for element in page["elements"] if element["name"] == name)
    return await held.ask("act", timeout_s=30.0, revision=page["revision"], action={"do": do, "ref": ref, **fields})


async def test_hosts_answer_as_a_service(plain: Plain, connection: Client) -> None:
    info = json.loads((await connection.request("$SRV.INFO.lessor", b"")).data)
    assert {endpoint["name"] for endpoint in info["endpoints"]} == {"profile", "run", "list", "runs", "renew"}
    stats = json.loads((await connection.request("$SRV.STATS", b"")).data)
    profile = next(endpoint for endpoint in stats["endpoints"] if endpoint["name"] == "profile")
    assert (profile["num_requests"], profile["num_errors"]) == (1, 0)
    assert (info["type"], info["id"]) == ("io.nats.micro.v1.info_response", stats["id"])


async def test_the_tick_renews_all_leases_of_a_worker(plain: Plain, speak: Speak) -> None:
    held = await lease(plain, "r1", "shop")
    told = {"type": "renewed_all", "v": 1, "effect": "none", "clock_ms": 0}
    assert await plain.renew(held.view["host"]) | {"clock_ms": 0} == told
    other = await speak(principal="other").renew(held.view["host"])
    assert other["type"] == "renewed_all"
    assert (await plain.list())["profiles"] == ["shop"]


async def test_l05_a_repeated_request_gets_the_same_answer(plain: Plain, fake: Fake) -> None:
    """One after the other and at the same time, an act and an observe: one dispatch, one look."""
    held = await lease(plain, "r1", "shop")
    for verb in ("act", "observe"):
        fake.gate.clear()
        fake.arrived.clear()
        body = (
            held.body(verb, revision="r0", action={"do": "click", "ref": "e1.aa"}) if verb == "act" else held.body(verb)
        )
        first, second = (asyncio.ensure_future(held.send(verb, body)) for _ in range(2))
        await fake.arrived.wait()
        third = asyncio.ensure_future(held.send(verb, body))
        fake.gate.set()
        answers = [*await asyncio.gather(first, second, third), await held.send(verb, body)]
        assert all(answer == answers[0] for answer in answers), answers
    assert (fake.clicks, fake.observed) == (1, 1)


async def test_a_repeated_act_under_another_id_gets_the_recorded_answer(plain: Plain, fake: Fake) -> None:
    held = await lease(plain, "r1", "shop")
    click = {"do": "click", "ref": "e1.aa"}
    await held.ask("act", revision="r0", action=click)
    again = await held.ask("act", revision="r0", action=click, sequence=1)
    assert (again["recorded"], again["sequence"], fake.clicks) == (True, 1, 1)
    other = await held.ask("act", revision="r0", action={"do": "click", "ref": "e2.bb"}, sequence=1)
    assert other["error"]["code"] == "sequence_conflict"
    gap = await held.ask("act", revision="r0", action=click, sequence=7)
    assert (gap["error"]["code"], gap["error"]["next_sequence"]) == ("sequence_mismatch", 2)


async def test_what_asked_too_late_does_nothing(plain: Plain, fake: Fake) -> None:
    held = await lease(plain, "r1", "shop")
    for verb in ("navigate", "observe", "act", "close"):
        late = await held.ask(verb, deadline_ms=held.view["clock_ms"] - 1)
        assert late["error"]["code"] == "deadline_passed", late
    assert (await held.ask("observe"))["type"] == "observed"


async def test_a_call_that_waits_behind_another_has_its_answer_by_its_deadline(plain: Plain, fake: Fake) -> None:
    """And is never begun afterwards."""
    held = await lease(plain, "r1", "shop")
    fake.gate.clear()
    looking = asyncio.ensure_future(held.send("observe", held.body("observe")))
    await fake.arrived.wait()
    click = {"do": "click", "ref": "e1.aa"}
    late = await held.ask("act", timeout_s=0.3, revision="r0", action=click)
    assert (late["error"]["code"], late["lease"]["next_sequence"]) == ("deadline_passed", 1)
    fake.gate.set()
    assert await looking is not None
    acted = await held.ask("act", revision="r0", action=click)
    assert (acted["sequence"], fake.clicks) == (1, 1)
