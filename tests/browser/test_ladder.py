"""Tabs that wedge, crash or lose their browser are brought back for reads, never for acts (B02-B09, B27, B29)."""

from __future__ import annotations

import asyncio
import dataclasses

import pytest
import pytest_asyncio

from lessor.browser.keeper.linux import boot_ms
from lessor.browser.session import LiveSession
from lessor.errors import Code, Problem, Recovered
from lessor.messages.action import Click, Observation, PageView, Type
from lessor.ports import Away, SealedState, Sent, Target
from tests.support.engines import Rig, do, go, look, named, script, soon
from tests.support.web import Web
from tests.support.wedges import SLOW_MS, crash, kill, pages, silent, wedge

pytestmark = pytest.mark.asyncio(loop_scope="session")


@pytest_asyncio.fixture(loop_scope="session")
async def held(rig: Rig, web: Web) -> LiveSession:
    pages(web)
    web.log.clear()
    return await rig.start(rig.engine(), rig.spec(web.origin, web.other))


async def observed(session: LiveSession, ms: int = SLOW_MS, tab: str = "main") -> Observation:
    page = await session.observe(tab, soon(ms))
    assert isinstance(page, Observation), page
    return page


async def problem_of(session: LiveSession, ms: int, tab: str = "main") -> Problem:
    began_ms = boot_ms()
    answer = await session.observe(tab, soon(ms))
    assert boot_ms() - began_ms < ms + 500
    assert isinstance(answer, Problem), answer
    return answer


async def test_b03_a_wedged_script_is_terminated_and_its_page_kept(held: LiveSession, web: Web) -> None:
    await wedge(held, web, "loop")
    page = await observed(held)
    assert page.recovered == Recovered(rung="terminate", lost=("script",))
    assert await script(held, "kept") == 42
    assert (await observed(held)).recovered is None


async def test_b01_a_wedge_is_named_when_there_is_no_time_to_free_it(held: LiveSession, web: Web) -> None:
    await wedge(held, web, "loop")
    told = await problem_of(held, 1000)
    assert (told.code, told.recovered) == (Code.TAB_HUNG, None)
    click = Click(ref="e1.0123456789abcdef")
    aimed = await held.aim("main", "0" * 12 + "." + "0" * 16, click, "target", soon(1000))
    assert isinstance(aimed, Problem)
    assert aimed.code is Code.TAB_HUNG


async def test_b04_a_timer_that_wedges_again_is_met_one_rung_higher_each_time(held: LiveSession, web: Web) -> None:
    await go(held, f"{web.origin}/calm")
    rungs: list[str] = []
    for _ in range(3):
        web.pages["/timer"] = "<script>setInterval(() => { for (;;); }, 30)</script>"
        held.main.address = f"{web.origin}/calm"
        await script(held, "setInterval(() => { for (;;); }, 50) && 0")
        await silent(held)
        page = await observed(held, 6000)
        assert page.recovered is not None
        rungs.append(page.recovered.rung)
        assert page.url == f"{web.origin}/calm"
    assert rungs == sorted(set(rungs), key=["terminate", "cross_site", "reopen", "crash", "restart"].index)
    assert rungs[0] != "terminate", "the timer defeats that one"


async def test_b04_a_page_that_wedges_whenever_it_is_loaded_climbs_and_never_loops(held: LiveSession, web: Web) -> None:
    await wedge(held, web, "timer")
    rungs: list[str] = []
    for _ in range(5):
        began_ms = boot_ms()
        answer = await held.observe("main", soon(2500))
        assert boot_ms() - began_ms < 3000
        if not isinstance(answer, Away) and answer.recovered is not None:
            rungs.append(answer.recovered.rung)
    order = ["terminate", "cross_site", "reopen", "crash", "restart"]
    assert rungs == sorted(rungs, key=order.index)
    assert rungs[-1] != rungs[0]
    view = await held.navigate("main", f"{web.origin}/calm", soon(20_000))
    assert isinstance(view, PageView), view


async def test_b02_a_healthy_tab_of_another_site_is_unaffected(held: LiveSession, web: Web) -> None:
    web.pages["/opener"] = f"<a href={web.other}/calm target=_blank rel=noopener>Other</a>"
    page = await go(held, f"{web.origin}/opener")
    await do(held, Click(ref=named(page, "Other").ref), page)
    while "popup-1" not in held._tabs.by_name:
        await look(held)
    await wedge(held, web, "loop")
    began_ms = boot_ms()
    assert (await look(held, "popup-1")).url == f"{web.other}/calm"
    assert boot_ms() - began_ms < 500


async def test_b05_a_promise_that_never_settles_costs_its_own_deadline_only(held: LiveSession, web: Web) -> None:
    await go(held, f"{web.origin}/promise")
    assert (await observed(held)).recovered is None
    slow = await held.navigate("main", f"{web.origin}/hold", soon(800))
    assert isinstance(slow, Problem)
    assert slow.code is Code.OP_TIMEOUT
    assert await held.main.until(lambda: not held.main.is_loading, soon())
    web.release.set()
    web.release.clear()
    assert (await look(held)).url == f"{web.origin}/promise"
    assert await script(held, "typeof waiting") == "object"


async def test_b06_a_child_that_wedges_its_opener_and_one_that_cannot(held: LiveSession, web: Web) -> None:
    web.pages["/parent"] = "<button onclick=\"child = window.open('/calm')\">Open</button>"
    page = await go(held, f"{web.origin}/parent")
    await do(held, Click(ref=named(page, "Open").ref), page)
    while "popup-1" not in held._tabs.by_name:
        await look(held)
    await script(held, "child.setTimeout('for (;;);', 50) && 0")
    await silent(held)
    page = await observed(held)
    assert page.recovered is not None
    assert page.recovered.rung == "terminate"
    assert (await observed(held, tab="popup-1")).recovered is None, "they share the thread that was freed"


async def test_b07_a_crash_with_a_read_in_flight_is_recovered_once(held: LiveSession, web: Web) -> None:
    await go(held, f"{web.origin}/calm")
    await script(held, "setTimeout(() => { const end = Date.now() + 400; while (Date.now() < end); }) && 0")
    reading = asyncio.ensure_future(held.observe("main", soon(SLOW_MS)))
    await crash(held)
    began_ms = boot_ms()
    page = await reading
    assert boot_ms() - began_ms < 1500
    assert isinstance(page, Observation), page
    assert page.recovered == Recovered(rung="crash", lost=("script", "page"))
    assert page.url == f"{web.origin}/calm"


async def test_b07_a_crash_with_an_act_in_flight_leaves_its_outcome_open(held: LiveSession, web: Web) -> None:
    web.pages["/busy"] = "<button onclick='for (;;);'>Go</button>"
    page = await go(held, f"{web.origin}/busy")
    click = Click(ref=named(page, "Go").ref)
    target = await held.aim("main", page.revision, click, "target", soon())
    assert isinstance(target, Target)
    acting = asyncio.ensure_future(held.dispatch("main", click, target, soon()))
    await silent(held)
    await crash(held)
    began_ms = boot_ms()
    assert await acting is Away.SILENT
    assert boot_ms() - began_ms < 500
    aimed = await held.aim("main", page.revision, click, "target", soon())
    assert isinstance(aimed, Problem)
    assert aimed.code is Code.TAB_CRASHED


async def test_b08_a_page_that_crashes_whenever_it_is_loaded(held: LiveSession, web: Web) -> None:
    await go(held, f"{web.origin}/calm")
    before = len(held._connection.context.pages)
    cdp, crashes = held.main.cdp, list[asyncio.Task[object]]()

    def on_loaded(_event: object) -> None:
        crashes.append(asyncio.ensure_future(held.main.call("Page.crash", boot_ms() + 100)))

    cdp.on("Page.frameNavigated", on_loaded)
    await crash(held)
    for _ in range(20):
        answer = await held.observe("main", soon(2000))
        assert isinstance(answer, Problem), answer
        assert answer.code is Code.TAB_CRASHED
        assert answer.recovered is not None
    assert len(crashes) == 20, "one recovery each"
    assert len(held._connection.context.pages) == before
    await asyncio.gather(*crashes)


async def test_b09_a_read_relaunches_a_browser_that_was_killed_under_it_once(
    rig: Rig, held: LiveSession, web: Web
) -> None:
    for expected in (True, False):
        await go(held, f"{web.origin}/calm")
        await script(held, "setTimeout(() => { for (;;); }, 50) && 0")
        await silent(held)
        reading = asyncio.ensure_future(held.observe("main", soon(SLOW_MS)))
        await asyncio.sleep(0)
        kill(rig, held)
        began_ms = boot_ms()
        answer = await reading
        assert boot_ms() - began_ms < 2500
        if expected:
            assert isinstance(answer, Observation), answer
            assert answer.url == f"{web.origin}/calm"
            assert answer.recovered == Recovered(rung="restart", lost=("script", "page", "tab", "browser"))
            assert rig.gone == []
        else:
            assert answer is Away.GONE
    assert rig.gone == [held.instance], "a second death ends the lease"


async def test_b09_an_idle_browser_that_dies_is_not_brought_back(rig: Rig, held: LiveSession, web: Web) -> None:
    await go(held, f"{web.origin}/calm")
    kill(rig, held)
    await asyncio.wait({held._keeper.gone}, timeout=2)
    assert await held.observe("main", soon()) is Away.GONE


async def test_f02_a_relaunched_browser_is_found_after_a_restart_of_the_host(
    rig: Rig, held: LiveSession, web: Web
) -> None:
    await go(held, f"{web.origin}/calm")
    await script(held, "setTimeout(() => { for (;;); }, 50) && 0")
    await silent(held)
    reading = asyncio.ensure_future(held.observe("main", soon(SLOW_MS)))
    await asyncio.sleep(0)
    kill(rig, held)
    await reading
    await go(held, f"{web.origin}/calm")
    rig.sessions.remove(held)
    target = "as the lease began with"
    spec = dataclasses.replace(rig.spec(web.origin), instance=held.instance, epoch=2, target=target)
    await rig.engines[0].close()
    found = await rig.engine().find(spec, lambda: None)
    assert found is not None
    rig.sessions.append(found)
    assert (await look(found)).url == f"{web.origin}/calm"


async def test_b27_what_an_act_sent_is_not_sent_again_by_a_recovery(held: LiveSession, web: Web) -> None:
    web.pages["/form"] = "<form method=post action=/done><label>Name <input name=n></label><button>Send</button></form>"
    web.pages["/done"] = "<script>setTimeout(() => { for (;;); }, 200)</script>Done"
    page = await go(held, f"{web.origin}/form")
    page = await do(held, Type(ref=named(page, "Name").ref, text="Ann"), page)
    click = Click(ref=named(page, "Send").ref)
    target = await held.aim("main", page.revision, click, "target", soon())
    assert isinstance(target, Target)
    assert isinstance(await held.dispatch("main", click, target, soon()), Sent)
    await crash(held)
    page = await observed(held)
    assert page.recovered is not None
    assert page.url == f"{web.origin}/form"
    assert [method for method, _, path in web.log if path == "/done"] == ["POST"]


async def test_b29_a_wedged_tab_does_not_keep_its_lease_from_being_sealed(held: LiveSession, web: Web) -> None:
    await go(held, f"{web.origin}/calm")
    await script(held, "localStorage.token = 'kept'")
    await wedge(held, web, "timer")
    began_ms = boot_ms()
    assert isinstance(await held.seal(1, soon()), SealedState)
    assert boot_ms() - began_ms < 5000
