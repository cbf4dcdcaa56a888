"""The page's way out: closed until it is opened, and never to private places that were not named."""

from __future__ import annotations

import asyncio
import contextlib

import pytest
from playwright.async_api import Error, Playwright

from lessor.browser.keeper import client
from tests.browser.keeper.bench import Bench, RawClient, Site

pytestmark = pytest.mark.asyncio(loop_scope="session")

PRIVATE = (
    "127.0.0.1",
    "127.1",
    "0.0.0.0",  # noqa: S104 - asked for, not bound
    "10.0.0.1",
    "100.64.0.1",
    "169.254.169.254",
    "172.16.0.1",
    "192.168.0.1",
    "224.0.0.1",
    "255.255.255.255",
    "[::1]",
    "[::]",
    "[::ffff:127.0.0.1]",
    "[::ffff:a9fe:a9fe]",
    "[64:ff9b::7f00:1]",
    "[2002:7f00:1::]",
    "[fe80::1]",
    "[fd00::1]",
    "localhost",
    "LOCALHOST.",
)


class Opened:
    """A keeper whose egress is open, with a client that keeps it so."""

    def __init__(self, port: int, raw: RawClient) -> None:
        self.port = port
        self.raw = raw

    @classmethod
    async def on(cls, bench: Bench, *named: str) -> Opened:
        keeper = await bench.launch()
        admitted = await bench.admit(keeper)
        raw = await bench.connect(admitted.ws_url)
        assert await keeper.egress(1, True, named) is True
        return cls(admitted.egress_port, raw)

    async def ask(self, request: str) -> bytes:
        """All that the proxy answers to that."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        try:
            writer.write(request.encode())
            return await asyncio.wait_for(reader.read(), 6)
        except ConnectionError:
            return b""
        finally:
            writer.close()


async def test_it_is_closed_by_default(bench: Bench, site: Site, playwright: Playwright) -> None:
    keeper = await bench.launch()
    browser = await playwright.chromium.connect_over_cdp((await bench.admit(keeper)).ws_url)
    with pytest.raises(Error):
        await browser.contexts[0].pages[0].goto(f"http://{site.authority}/")
    assert not site.requests


async def test_pages_and_tunnels_pass_when_it_is_open(bench: Bench, site: Site, playwright: Playwright) -> None:
    keeper = await bench.launch()
    browser = await playwright.chromium.connect_over_cdp((await bench.admit(keeper)).ws_url)
    await keeper.egress(1, True, [site.authority])
    page = browser.contexts[0].pages[0]
    for number in range(3):
        await page.goto(f"http://{site.authority}/{number}?q=a//b")
    assert await page.title() == "site"
    await page.evaluate("fetch('/post', {method: 'POST', body: 'x'.repeat(300000)}).then(r => r.text())")
    assert site.requests[2] == "GET /2?q=a//b HTTP/1.1"
    assert len(site.requests[-1]) > 300_000


async def test_a_tunnel_carries_bytes(bench: Bench, site: Site) -> None:
    opened = await Opened.on(bench, site.authority)
    inner = "GET /tunnelled HTTP/1.1\r\nhost: x\r\n\r\n"
    answer = await opened.ask(f"CONNECT {site.authority} HTTP/1.1\r\nhost: x\r\n\r\n{inner}")
    assert answer.startswith(b"HTTP/1.1 200 Connection established\r\n\r\nHTTP/1.1 200 OK")
    assert site.requests == ["GET /tunnelled HTTP/1.1"]


async def test_private_addresses_are_refused_unless_named(bench: Bench, site: Site) -> None:
    opened = await Opened.on(bench)
    for host in PRIVATE:
        for request in (f"GET http://{host}:{site.port}/", f"CONNECT {host}:{site.port}"):
            answer = await opened.ask(f"{request} HTTP/1.1\r\nhost: x\r\n\r\n")
            assert answer.startswith(b"HTTP/1.1 403"), request
    assert not site.requests


async def test_a_named_host_is_named_with_its_port(bench: Bench, site: Site) -> None:
    opened = await Opened.on(bench, f"localhost:{site.port}", "127.0.0.1:1")
    get = "GET http://{}/ HTTP/1.1\r\nhost: x\r\n\r\n"
    assert (await opened.ask(get.format(f"LocalHost:{site.port}"))).startswith(b"HTTP/1.1 200")
    assert (await opened.ask(get.format(site.authority))).startswith(b"HTTP/1.1 403")


async def test_a_second_request_never_reaches_the_firsts_host(bench: Bench, site: Site) -> None:
    opened = await Opened.on(bench, site.authority)
    get = f"GET http://{site.authority}/{{}} HTTP/1.1\r\nhost: x\r\n\r\n"
    await opened.ask(get.format("one") + get.format("two").replace(site.authority, "10.0.0.1"))
    assert [request for request in site.requests if "two" in request] == []


async def test_bad_requests_are_answered(bench: Bench) -> None:
    opened = await Opened.on(bench)
    assert (await opened.ask("nonsense\r\n\r\n")).startswith(b"HTTP/1.1 400")
    assert (await opened.ask("GET / HTTP/1.1\r\n\r\n")).startswith(b"HTTP/1.1 400")
    assert (await opened.ask("GET http://x.invalid/ HTTP/1.1\r\n\r\n")).startswith(b"HTTP/1.1 502")


async def test_f16_no_request_leaves_after_the_hosts_connection_has_gone(
    bench: Bench, site: Site, playwright: Playwright
) -> None:
    keeper = await bench.launch()
    raw = await bench.connect((await bench.admit(keeper)).ws_url)
    session = await raw.attach()
    await keeper.egress(1, True, [site.authority])
    raw.send(
        {
            "id": 9,
            "method": "Page.navigate",
            "params": {"url": f"http://{site.authority}/"},
            "sessionId": session,
        }
    )
    await site.asked(1)
    await raw.receive(lambda message: message.get("id") == 9)
    poll = "setInterval(() => fetch('/poll').catch(() => window.failed = (window.failed || 0) + 1), 5)"
    raw.send({"id": 10, "method": "Runtime.evaluate", "params": {"expression": poll}, "sessionId": session})
    await site.asked(10)

    raw.writer.close()
    admitted = await bench.admit(keeper, epoch=2)
    seen = len(site.requests)
    browser = await playwright.chromium.connect_over_cdp(admitted.ws_url)
    page = browser.contexts[0].pages[0]
    await page.wait_for_function("window.failed > 20")
    assert len(site.requests) == seen
    assert (await keeper.egress(2, True, [site.authority])) is True
    await site.asked(seen + 5)


async def test_f16_closing_cuts_what_is_under_way(bench: Bench) -> None:
    arrived, cut = asyncio.Event(), asyncio.Event()

    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        arrived.set()
        with contextlib.suppress(ConnectionError):
            await reader.read()
        cut.set()
        writer.close()

    server = await asyncio.start_server(silent, "127.0.0.1", 0)
    authority = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    opened = await Opened.on(bench, authority)
    asking = asyncio.create_task(opened.ask(f"GET http://{authority}/ HTTP/1.1\r\nhost: x\r\n\r\n"))
    await asyncio.wait_for(arrived.wait(), 2)
    opened.raw.writer.close()
    await asyncio.wait_for(cut.wait(), 2)
    assert (await asking).startswith(b"HTTP/1.1 503")
    server.close()
    keeper = bench.keepers[0]
    assert await keeper.egress(1, True) == client.Refused("no_client")
