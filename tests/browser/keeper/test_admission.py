"""One client at a time, admitted by epoch: the fence that reaches the browser."""

from __future__ import annotations

import asyncio
import os
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from playwright.async_api import Playwright

from lessor.browser.keeper import client, linux
from tests.browser.keeper.bench import SECRET, Bench, exited, stop

pytestmark = pytest.mark.asyncio(loop_scope="session")

CLICKS = 20_000
COUNTING = """<body style="margin:0;height:100vh"><input id="name"><script>
window.clicks = []; addEventListener("mousedown", () => clicks.push(Date.now()));</script>"""


async def test_playwright_connects_to_a_unix_socket(bench: Bench, playwright: Playwright) -> None:
    """`ws+unix://` is undocumented in Playwright; everything here rests on it."""
    keeper = await bench.launch()
    admitted = await bench.admit(keeper)
    browser = await playwright.chromium.connect_over_cdp(admitted.ws_url)
    page = browser.contexts[0].pages[0]
    assert await page.evaluate("6 * 7") == 42


async def test_a_higher_epoch_finds_the_same_page_with_its_text(bench: Bench, playwright: Playwright) -> None:
    keeper = await bench.launch()
    first = await playwright.chromium.connect_over_cdp((await bench.admit(keeper)).ws_url)
    await first.contexts[0].pages[0].set_content(COUNTING)
    await first.contexts[0].pages[0].fill("#name", "typed before")
    gone = asyncio.Event()
    first.on("disconnected", lambda _browser: gone.set())

    again = await client.find(keeper.directory)
    assert again is not None
    bench.keepers.append(again)
    second = await playwright.chromium.connect_over_cdp((await bench.admit(again, epoch=2)).ws_url)

    await asyncio.wait_for(gone.wait(), 5)
    assert await second.contexts[0].pages[0].input_value("#name") == "typed before"


async def test_queued_clicks_of_a_lower_epoch_never_land_after_the_higher_is_admitted(
    bench: Bench, playwright: Playwright
) -> None:
    keeper = await bench.launch()
    old = await bench.connect((await bench.admit(keeper)).ws_url)
    session = await old.attach()
    old.send({"id": 3, "method": "Page.enable", "sessionId": session})
    expression = f"document.documentElement.innerHTML = {COUNTING!r}; clicks = [];"
    expression += "addEventListener('mousedown', () => clicks.push(Date.now()))"
    old.send({"id": 4, "method": "Runtime.evaluate", "params": {"expression": expression}, "sessionId": session})
    await old.receive(lambda message: message.get("id") == 4)
    for number in range(5, 5 + 2 * CLICKS):
        kind = "mousePressed" if number % 2 else "mouseReleased"
        press = {"type": kind, "x": 300, "y": 300, "button": "left", "clickCount": 1}
        old.send({"id": number, "method": "Input.dispatchMouseEvent", "params": press, "sessionId": session})
    await old.receive(lambda message: message.get("id") == 5)

    admitted = await bench.admit(keeper, epoch=2)
    admitted_at_ms = time.time() * 1000
    assert admitted.is_drained

    browser = await playwright.chromium.connect_over_cdp(admitted.ws_url)
    page = browser.contexts[0].pages[0]
    await page.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
    clicks: list[float] = await page.evaluate("clicks")
    assert 0 < len(clicks) < CLICKS
    assert max(clicks) <= admitted_at_ms


async def test_a_stuck_page_is_reported_at_admission(bench: Bench) -> None:
    keeper = await bench.launch()
    raw = await bench.connect((await bench.admit(keeper)).ws_url)
    session = await raw.attach()
    for number, expression in ((3, "1"), (4, "for (;;);")):
        evaluate = {"expression": expression}
        raw.send({"id": number, "method": "Runtime.evaluate", "params": evaluate, "sessionId": session})
    await raw.receive(lambda message: message.get("id") == 3)
    assert not (await bench.admit(keeper, epoch=2)).is_drained


async def test_second_clients_wrong_tokens_and_origins_are_refused(bench: Bench) -> None:
    keeper = await bench.launch()
    ws_url = (await bench.admit(keeper)).ws_url
    assert (await bench.connect(ws_url, "origin: http://evil.example\r\n")).status == 403
    assert (await bench.connect(ws_url[:-1] + ("0" if ws_url[-1] != "0" else "1"))).status == 403
    first = await bench.connect(ws_url)
    assert first.status == 101
    assert (await bench.connect(ws_url)).status == 409
    newer = (await bench.admit(keeper)).ws_url
    assert await first.reader.read() == b""
    assert (await bench.connect(ws_url)).status == 403
    assert (await bench.connect(newer)).status == 101


async def test_refusals_say_why(bench: Bench) -> None:
    keeper = await bench.launch(epoch=5)
    soon = linux.boot_ms() + 1000
    assert await keeper.admit(6, "guess", soon) == client.Refused("bad_secret")
    assert await keeper.admit(4, SECRET, soon) == client.Refused("stale_epoch")
    assert await keeper.extend(4, soon) == client.Refused("stale_epoch")
    assert await keeper.extend(5, soon + 7_200_000) == client.Refused("bad_deadline")
    assert await keeper.egress(5, True) == client.Refused("no_client")
    assert await keeper.kill(4) == client.Refused("stale_epoch")


async def test_a_kill_is_confirmed_and_leaves_only_the_record(bench: Bench) -> None:
    keeper = await bench.launch()
    raw = await bench.connect((await bench.admit(keeper)).ws_url)
    await raw.call(1, "Browser.getVersion")
    tree = bench.tree(keeper)
    gone = await keeper.kill(1)
    assert isinstance(gone, client.Gone)
    assert gone.why == "killed"
    assert 0 < gone.last_command_ms[1] <= gone.gone_at_ms
    assert tree
    assert not bench.tree(keeper)
    assert bench.files(keeper) == ["state.json"]


async def test_a_kill_reaches_past_a_stopped_keeper(bench: Bench) -> None:
    keeper = await bench.launch()
    stop(keeper.pid)
    gone = await keeper.kill(1, timeout_s=1.0)
    assert isinstance(gone, client.Gone)
    assert bench.files(keeper) == ["state.json"]


async def test_a_start_that_fails_leaves_nothing(bench: Bench) -> None:
    spec = bench.spec(chromium=bench.root / "no-such-browser")
    with pytest.raises(client.KeeperFailed, match="no-such-browser"):
        await client.launch(spec)
    assert not spec.directory.exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="others than root have a sandbox, where the machine lets them")
async def test_a_start_that_fails_says_what_to_do(bench: Bench) -> None:
    spec = bench.spec(sandbox=True)
    with pytest.raises(client.KeeperFailed, match="run as another user") as failed:
        await client.launch(spec)
    assert failed.value.remedy
    assert not spec.directory.exists()


async def test_a_cancelled_start_leaves_nothing(bench: Bench) -> None:
    spec = bench.spec()
    pool = ThreadPoolExecutor(1)
    asyncio.get_running_loop().set_default_executor(pool)
    starting = asyncio.create_task(client.launch(spec))
    await asyncio.sleep(0)
    assert spec.directory.exists()
    starting.cancel()
    await asyncio.wait([starting])
    pool.shutdown(wait=True)
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor())
    assert not spec.directory.exists()


async def test_f01_the_keeper_dies_with_its_browser_closed_from_inside(bench: Bench) -> None:
    keeper = await bench.launch()
    raw = await bench.connect((await bench.admit(keeper)).ws_url)
    raw.send({"id": 1, "method": "Browser.close"})
    await exited(keeper.pid)
    assert bench.record(keeper)["phase"] == "dead"
