"""Documents stay within the profile's origins, whoever asks for them (contract, Pages; B20, B21)."""

from __future__ import annotations

import pytest

from lessor.browser.keeper.linux import boot_ms
from lessor.browser.session import LiveSession
from lessor.errors import Code, Problem
from lessor.messages.action import Click, PageView, Type
from lessor.ports import Away, Sent, Target
from tests.support.engines import Rig, do, go, look, named, script, soon
from tests.support.web import Web

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def failing(session: LiveSession, url: str) -> Code:
    answer = await session.navigate("main", url, soon())
    assert isinstance(answer, Problem), answer
    return answer.code


@pytest.mark.parametrize(
    "url",
    [
        "{other}/x",
        "http://127.0.0.1/x",
        "https://127.0.0.1:{port}/x",
        "http://127.0.0.1.example:{port}/x",
        "http://user:secret@127.0.0.1:{port}/x",
        "http://127.0.0.1:{port}@elsewhere.example/x",
        "http://0x7f000001:{port}/x",
        "http:\\\\127.0.0.1:{port}/x",
        "javascript:alert(1)",
        "data:text/html,x",
        "file:///etc/passwd",
        "chrome://version",
        "view-source:http://127.0.0.1:{port}/x",
        "",
    ],
)
async def test_b21_another_address_is_refused_and_never_contacted(session: LiveSession, web: Web, url: str) -> None:
    url = url.format(other=web.other, port=web.port)
    assert await failing(session, url) is Code.URL_DISALLOWED
    assert web.log == []


async def test_b21_each_redirect_hop_is_checked_before_it_leaves(session: LiveSession, web: Web) -> None:
    web.pages["/here"] = "<p>here</p>"
    before = await go(session, f"{web.origin}/here")
    hop = f"/to?{web.origin}/to?{web.other}/stolen"
    assert await failing(session, web.origin + hop) is Code.URL_DISALLOWED
    assert "/stolen" not in web.paths()
    assert (await look(session)).revision == before.revision, "the tab keeps the document it had"
    view = await session.navigate("main", f"{web.origin}/to?{web.origin}/here", soon())
    assert isinstance(view, PageView)
    assert (view.url, view.status) == (f"{web.origin}/here", 200)


async def test_b21_a_redirect_loop_ends(session: LiveSession, web: Web) -> None:
    web.pages["/loop"] = (302, {"location": "/loop"}, "")
    assert await failing(session, f"{web.origin}/loop") is Code.NAVIGATION_FAILED
    web.pages["/here"] = "here"
    assert (await go(session, f"{web.origin}/here")).text == "here"


async def test_b21_links_frames_and_popups_are_checked(session: LiveSession, web: Web) -> None:
    web.pages["/outward"] = f"""<a href="{web.other}/link">Link</a><a href="{web.other}/popup" target=_blank>Popup</a>
        <button onclick="window.open('{web.other}/opened', '', 'noopener')">Open</button>
        <iframe src="{web.other}/framed"></iframe><iframe src="/inner"></iframe>"""
    web.pages["/inner"] = f"<script>location = '{web.other}/from-frame'</script>"
    page = await go(session, f"{web.origin}/outward")
    for name in ("Link", "Popup", "Open"):
        page = await do(session, Click(ref=named(page, name).ref), page)
    await look(session)
    assert {host for _, host, _ in web.log} == {f"127.0.0.1:{web.port}"}
    assert page.url == f"{web.origin}/outward"


async def test_b20_a_popup_is_a_tab_of_the_lease(rig: Rig, web: Web) -> None:
    web.pages["/opener"] = "<a href=/child target=_blank>Child</a>"
    web.pages["/child"] = "<p>child</p>"
    session = await rig.start(rig.engine(), rig.spec(web.origin))
    page = await go(session, f"{web.origin}/opener")
    told = (await do(session, Click(ref=named(page, "Child").ref), page)).notices
    while not told:
        told = (await look(session)).notices
    assert (await look(session, "popup-1")).text == "child"
    unknown = await session.observe("popup-2", soon())
    assert isinstance(unknown, Problem)
    assert unknown.code is Code.TAB_NOT_FOUND


async def test_what_a_strict_profile_loads_is_held_to_its_origins(rig: Rig, web: Web) -> None:
    web.pages["/page"] = f"<img src={web.other}/img><script src={web.other}/js></script><img src=/own>"
    session = await rig.start(rig.engine(), rig.spec(web.origin, strict=True))
    await go(session, f"{web.origin}/page")
    assert {host for _, host, _ in web.log if host.startswith("localhost")} == set()


async def test_a_network_failure_and_a_slow_page_say_so(session: LiveSession, web: Web) -> None:
    web.pages["/reset"] = (200, {"content-length-x": "1"}, "")
    web.pages["/page"] = "<form><input name=q aria-label=q></form><p>kept</p>"
    await go(session, f"{web.origin}/page")
    web.pages["/empty"] = (204, {}, "")
    assert await failing(session, f"{web.origin}/empty") is Code.NAVIGATION_FAILED
    assert "kept" in (await look(session)).text
    began_ms = boot_ms()
    slow = await session.navigate("main", f"{web.origin}/hold", boot_ms() + 300)
    assert isinstance(slow, Problem)
    assert slow.code is Code.OP_TIMEOUT
    assert boot_ms() - began_ms < 800
    web.release.set()
    web.release.clear()


async def test_b13_a_form_that_asks_to_stay_stays(session: LiveSession, web: Web) -> None:
    web.pages["/draft"] = "<input aria-label=Draft><script>onbeforeunload = (event) => event.preventDefault()</script>"
    web.pages["/next"] = "next"
    page = await go(session, f"{web.origin}/draft")
    await do(session, Type(ref=named(page, "Draft").ref, text="mine"), page)
    assert await failing(session, f"{web.origin}/next") is Code.NAVIGATION_CANCELLED
    page = await look(session)
    assert named(page, "Draft").value == "mine"
    await script(session, "onbeforeunload = null")


async def test_a_click_that_leads_to_a_slow_page_is_sent_all_the_same(session: LiveSession, web: Web) -> None:
    web.pages["/slow"] = "<form action=/hold><button>Send</button></form>"
    page = await go(session, f"{web.origin}/slow")
    click = Click(ref=named(page, "Send").ref)
    target = await session.aim("main", page.revision, click, "target", soon())
    assert isinstance(target, Target)
    began_ms = boot_ms()
    sent = await session.dispatch("main", click, target, soon())
    assert isinstance(sent, Sent)
    assert sent.page is None, "Chromium answers nothing for a page that is on its way elsewhere"
    assert boot_ms() - began_ms < 3000
    web.release.set()
    assert (await look(session)).text == "held", "whoever looks waits for the next document"
    web.release.clear()


async def test_b09_a_killed_browser_is_gone_at_once(rig: Rig, web: Web) -> None:
    session = await rig.start(rig.engine(), rig.spec(web.origin))
    gone_ms = await session.kill()
    assert gone_ms is not None
    assert await session.observe("main", soon()) is Away.GONE
    assert rig.gone == [], "whoever killed it knows"
    assert await rig.engines[0].confirm_gone(session.instance) == gone_ms
