"""A browser sends a request again when a connection it had used closes without an answer. Behind the egress it
never does: one click is one request at the site, whatever becomes of the answer."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from playwright.async_api import Page, Playwright

from lessor.browser.arguments import chromium_arguments
from lessor.cli.demo.site import Site as DemoSite
from tests.browser.keeper.bench import Bench
from tests.browser.keeper.tls import End, Scene

pytestmark = pytest.mark.asyncio(loop_scope="session")

POST = "fetch('/', {method: 'POST', body: 'x'}).then(answer => answer.status, error => String(error))"


@pytest.fixture
def demo(tmp_path: Path) -> Iterator[DemoSite]:
    with DemoSite(tmp_path) as demo:
        yield demo


async def page_for(bench: Bench, playwright: Playwright, authority: str) -> Page:
    """A page that trusts the test's certificate and may reach that place."""
    keeper = await bench.launch(arguments=(*chromium_arguments(), "--ignore-certificate-errors"))
    browser = await playwright.chromium.connect_over_cdp((await bench.admit(keeper)).ws_url)
    assert await keeper.egress(1, True, [authority]) is True
    return browser.contexts[0].pages[0]


@pytest.mark.parametrize("preconnected", [False, True])
async def test_a_dropped_click_is_one_submission(
    bench: Bench, playwright: Playwright, demo: DemoSite, preconnected: bool
) -> None:
    demo.set(keep_alive=True, answer="drop")
    page = await page_for(bench, playwright, f"127.0.0.1:{demo.port}")
    await page.goto(f"{demo.url}/login")
    await page.fill("[name=user]", "demo")
    await page.fill("[name=password]", "demo")
    await page.click("button")
    await page.goto(f"{demo.url}/invoices/new?key=k1&number=INV-1&amount=120.00")
    if preconnected:
        link = "Object.assign(document.createElement('link'), {rel: 'preconnect', href: location.origin})"
        await page.evaluate(f"document.head.append({link})")
    async with page.expect_response("**/invoices") as answer:
        await page.click("button")
    assert (await answer.value).status == 502
    assert [one.request_key for one in demo.submissions()] == ["k1"]


@pytest.mark.parametrize("tls12", [False, True], ids=["tls13", "tls12"])
@pytest.mark.parametrize("end", [end for end in End if end is not End.NEVER])
async def test_a_post_dropped_in_a_tunnel_is_one_post(
    bench: Bench, playwright: Playwright, tmp_path: Path, end: End, tls12: bool
) -> None:
    with closing(Scene(tmp_path, end, tls12=tls12)) as scene:
        page = await page_for(bench, playwright, scene.authority)
        await page.goto(f"https://{scene.authority}/")
        await page.goto(f"https://{scene.authority}/again")
        assert await page.evaluate(POST) == "TypeError: Failed to fetch"
        assert len(scene.posts) == 1
        assert scene.posts[0] > 0, "it was to come on a connection that had been used"
        await page.goto(f"https://{scene.authority}/after")


@pytest.mark.parametrize("end", [End.FIN, End.RESET])
async def test_a_post_dropped_in_http2_is_one_post(
    bench: Bench, playwright: Playwright, tmp_path: Path, end: End
) -> None:
    with closing(Scene(tmp_path, end, http2=True)) as scene:
        page = await page_for(bench, playwright, scene.authority)
        await page.goto(f"https://{scene.authority}/")
        assert await page.title() == "kept"
        assert await page.evaluate(POST) == "TypeError: Failed to fetch"
        assert len(scene.posts) == 1
        assert scene.posts[0] > 0
        await page.goto(f"https://{scene.authority}/after")


async def test_a_site_that_closes_idle_connections_is_used_on(
    bench: Bench, playwright: Playwright, tmp_path: Path
) -> None:
    """The safe kind of sending again still works: nothing of the request had gone out."""
    with closing(Scene(tmp_path, End.FIN)) as scene:
        page = await page_for(bench, playwright, scene.authority)
        for _ in range(3):
            await page.goto(f"https://{scene.authority}/")
            scene.end_all()


async def test_a_post_cut_by_the_keeper_is_one_post(bench: Bench, playwright: Playwright, tmp_path: Path) -> None:
    """Opening anew cuts what is under way, and would at once let a second request through."""
    with closing(Scene(tmp_path, End.NEVER)) as scene:
        page = await page_for(bench, playwright, scene.authority)
        await page.goto(f"https://{scene.authority}/")
        posting = asyncio.create_task(page.evaluate(POST))
        await asyncio.to_thread(scene.posted.acquire, timeout=5)
        assert await bench.keepers[0].egress(1, True, [scene.authority]) is True
        assert await posting == "TypeError: Failed to fetch"
        await page.goto(f"https://{scene.authority}/after")
        assert len(scene.posts) == 1
