"""Named tabs and popups of a lease (B20, B25, B26)."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Callable

import pytest

from lessor.browser.session import LiveSession
from lessor.errors import Code, Problem
from lessor.messages.action import Click, Observation, PageView, Type
from lessor.messages.policy import PagePolicy
from lessor.ports import Sent, Target
from tests.support.engines import Rig, do, go, look, named, script, soon
from tests.support.web import Web

pytestmark = pytest.mark.asyncio(loop_scope="session")
STORM = "<button onclick=\"for (let i = 0; i < 200; i++) window.open('/child?' + i)\">Storm</button>"


async def names(session: LiveSession, close: str | None = None) -> list[str]:
    told = await session.tabs(close, soon())
    assert isinstance(told, tuple), told
    return [tab.name for tab in told]


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(40):
        while not holds():  # noqa: ASYNC110 - nobody is told
            await asyncio.sleep(0.01)


async def test_b25_ten_at_once_get_one_tab_that_is_made_anew_once(rig: Rig, web: Web) -> None:
    web.pages["/here"] = "<form action=/sent method=post><button>Send</button></form>"
    web.pages["/sent"] = "sent"
    session = await rig.start(rig.engine(), rig.spec(web.origin))
    seen = await asyncio.gather(*(session.observe("side", soon()) for _ in range(10)))
    assert len({page.revision for page in seen if isinstance(page, Observation)}) == 1
    assert await names(session) == ["main", "side"]
    view = await session.navigate("side", f"{web.origin}/here", soon())
    assert isinstance(view, PageView)
    await session._tabs.by_name["side"].page.evaluate("document.forms[0].submit()")
    while (await look(session, "side")).text != "sent":
        pass
    web.log.clear()
    again: object = None
    for count in (1, 1):
        await session._tabs.by_name["side"].page.close()
        again = await session.observe("side", soon())
        assert [path for method, _, path in web.log if method == "POST"] == []
        assert web.paths().count("/here") == count
    assert isinstance(again, Problem)
    assert again.code is Code.TAB_NOT_FOUND, "once"
    assert isinstance(await session.navigate("side", f"{web.origin}/here", soon()), PageView)


async def test_b25_the_fifty_first_tab_is_refused_and_none_is_closed(rig: Rig, web: Web) -> None:
    session = await rig.start(rig.engine(), rig.spec(web.origin))
    for number in range(1, 50):
        assert isinstance(await session.observe(f"t{number}", soon()), Observation)
    refused = await session.observe("t50", soon())
    assert isinstance(refused, Problem)
    assert refused.code is Code.TAB_QUOTA
    assert len(await names(session)) == 50
    assert len(await names(session, close="t7")) == 49
    assert isinstance(await session.observe("t50", soon()), Observation)


async def test_b25_names_and_drafts_are_found_again_by_the_next_host(rig: Rig, web: Web) -> None:
    web.pages["/draft"] = "<input aria-label=Draft><a href=/child target=_blank>Child</a>"
    web.pages["/child"] = "child"
    first = await rig.start(rig.engine(), rig.spec(web.origin))
    page = await go(first, f"{web.origin}/draft")
    await do(first, Click(ref=named(page, "Child").ref), page)
    for name in ("left", "right"):
        await first.navigate(name, f"{web.origin}/draft?{name}", soon())
    page = await look(first, "right")
    target = await first.aim("right", page.revision, Type(ref=named(page, "Draft").ref, text="mine"), "target", soon())
    assert isinstance(target, Target)
    await first.dispatch("right", Type(ref=named(page, "Draft").ref, text="mine"), target, soon())
    await until(lambda: sorted(first._tabs.by_name) == ["left", "main", "popup-1", "right"])
    await rig.engines[0].close()
    spec = dataclasses.replace(first._spec, epoch=2, target=first.target)
    found = await rig.engine().find(spec, lambda: None)
    assert found is not None
    rig.sessions.append(found)
    assert named(await look(found, "right"), "Draft").value == "mine"
    assert (await look(found, "left")).url.endswith("?left")
    assert (await look(found, "popup-1")).text == "child"
    assert await names(found) == ["left", "main", "popup-1", "right"]


@pytest.mark.timeout(100)
async def test_b20_a_storm_of_popups_is_capped(rig: Rig, web: Web) -> None:
    web.pages["/storm"], web.pages["/child"] = STORM, "child"
    session = await rig.start(rig.engine(), rig.spec(web.origin))
    page = await go(session, f"{web.origin}/storm")
    click = Click(ref=named(page, "Storm").ref)
    target = await session.aim("main", page.revision, click, "target", soon())
    assert isinstance(target, Target)
    sent = await session.dispatch("main", click, target, soon(40_000))
    assert isinstance(sent, Sent)
    await until(lambda: len(session._connection.context.pages) == len(session._tabs.by_name) == 11)
    assert len(await names(session)) == 11
    assert isinstance(await session.observe("popup-1", soon()), Observation)
    told = (*(sent.page.notices if sent.page else ()), *(await look(session)).notices)
    assert any("a popup was closed" in notice for notice in told), told
    assert isinstance(await session.observe("side", soon()), Observation), "there is room for named tabs"


async def test_b20_popups_that_are_not_wanted_are_closed(rig: Rig, web: Web) -> None:
    web.pages["/opener"] = "<a href=/child target=_blank>Child</a>"
    session = await rig.start(rig.engine(), rig.spec(web.origin, policy=PagePolicy(popups="close")))
    page = await go(session, f"{web.origin}/opener")
    notices = (await do(session, Click(ref=named(page, "Child").ref), page)).notices
    while not notices:
        notices = (await look(session)).notices
    assert "closed" in notices[0]
    assert await names(session) == ["main"]


async def test_b26_nothing_of_a_scratch_tab_is_seen_by_the_next_lease(rig: Rig, web: Web) -> None:
    engine = rig.engine(warm_max=1)
    for _ in range(2):
        session = await rig.start(engine, rig.spec(web.origin))
        await look(session, "scratch")
        page = session._tabs.by_name["scratch"].page
        assert await page.evaluate("typeof left") == "undefined"
        await page.evaluate("globalThis.left = 1; window.name = 'left'")
        assert await script(session, "window.name") == ""
        await session.kill()
