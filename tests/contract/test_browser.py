"""What ports.Browser and ports.Session promise, over the model and over real Chromium."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Protocol

import pytest
import pytest_asyncio

from lessor.browser.find import find_chromium
from lessor.browser.keeper.linux import boot_id, boot_ms
from lessor.errors import Code, Problem
from lessor.messages.action import AnyAction, Click, Element, Observation, PageView, Press, Type
from lessor.messages.policy import PagePolicy
from lessor.ports import Away, Browser, BrowserSpec, NotSent, Paused, SealedState, Sent, Session, Target
from tests.model.scripted import Machine, ModelBrowser
from tests.support.engines import Rig, soon
from tests.support.web import Web

pytestmark = pytest.mark.asyncio(loop_scope="session")

FORM = "<form action=/done method=post><label>Name <input name=Name></label><button>Send</button></form>"


class Place(Protocol):
    """A machine with a site, on which engines follow each other."""

    rig: Rig
    origin: str

    def browser(self) -> Browser: ...
    def effects(self) -> int: ...


class RealClock:
    boot = boot_id()

    def now_ms(self) -> int:
        return boot_ms()

    def unix_ms(self) -> int:
        return time.time_ns() // 1_000_000


class ModelPlace:
    def __init__(self) -> None:
        self.rig = Rig()
        self.origin = "http://site.example"
        self.machine = Machine(RealClock())

    def browser(self) -> Browser:
        return ModelBrowser(self.machine)

    def effects(self) -> int:
        return len(self.machine.effects)

    async def end(self) -> None:
        await self.rig.end()


class RealPlace:
    def __init__(self) -> None:
        self.rig = Rig()
        asking = FORM.replace("<button", "<button onclick=\"return confirm('Really?')\"")
        self._web = Web(form=FORM, asking=asking, done=f"{FORM}Thank you").__enter__()
        self.origin = self._web.origin

    def browser(self) -> Browser:
        return self.rig.engine()

    def effects(self) -> int:
        return sum(method == "POST" for method, _, _ in self._web.log)

    async def end(self) -> None:
        await self.rig.end()
        self._web.__exit__(None, None, None)


@pytest_asyncio.fixture(loop_scope="session", params=["model", "chromium"])
async def place(request: pytest.FixtureRequest) -> AsyncIterator[ModelPlace | RealPlace]:
    if request.param == "chromium" and find_chromium() is None:
        pytest.fail("There is no Chromium on this machine: `make browser` sees to one.")
    place = ModelPlace() if request.param == "model" else RealPlace()
    yield place
    await place.end()


class Lease:
    """A started session of a place, ended by its test."""

    def __init__(self, place: Place, browser: Browser, spec: BrowserSpec) -> None:
        self.place = place
        self.browser = browser
        self.spec = spec
        self.gone = 0
        self.session: Session

    async def start(self) -> Lease:
        session = await self.browser.start(self.spec, self.on_gone)
        assert not isinstance(session, Problem), session
        self.session = session
        self.place.rig.sessions.append(session)  # type: ignore[arg-type] # it only ever kills them
        return self

    def on_gone(self) -> None:
        self.gone += 1

    async def form(self, path: str = "/form") -> Observation:
        view = await self.session.navigate("main", f"{self.place.origin}{path}", soon())
        assert isinstance(view, PageView), view
        assert view.status == 200
        return await self.look()

    async def look(self) -> Observation:
        page = await self.session.observe("main", soon())
        assert isinstance(page, Observation), page
        return page

    async def aim(self, action: AnyAction, page: Observation) -> Target | Problem | Away:
        return await self.session.aim("main", page.revision, action, "target", soon())

    async def do(self, action: AnyAction, page: Observation) -> Observation:
        target = await self.aim(action, page)
        assert isinstance(target, Target), target
        sent = await self.session.dispatch("main", action, target, soon())
        assert isinstance(sent, Sent), sent
        assert sent.page is not None
        return sent.page


def element(page: Observation, name: str) -> Element:
    [found] = [element for element in page.elements if element.name == name]
    return found


async def lease(place: Place, **changes: Any) -> Lease:
    browser = place.browser()
    return await Lease(place, browser, place.rig.spec(place.origin, **changes)).start()


async def test_a_start_gives_an_empty_page(place: Place) -> None:
    held = await lease(place)
    assert (await held.look()).url == "about:blank"
    assert held.session.instance == held.spec.instance
    assert held.session.target


async def test_an_act_reaches_the_site_once(place: Place) -> None:
    held = await lease(place)
    page = await held.form()
    typed = await held.do(Type(ref=element(page, "Name").ref, text="Ann"), page)
    assert element(typed, "Name").value == "Ann"
    assert place.effects() == 0
    done = await held.do(Click(ref=element(page, "Send").ref), typed)
    assert "Thank you" in done.text
    assert place.effects() == 1


async def test_what_a_dry_run_refuses_is_not_sent(place: Place) -> None:
    held = await lease(place)
    old = await held.form()
    page = await held.form()
    click = Click(ref=element(page, "Send").ref)
    assert await code(held.aim(click, old)) is Code.PAGE_CHANGED
    assert await code(held.aim(Click(ref="e999.0123456789abcdef"), page)) is Code.ELEMENT_NOT_FOUND
    assert await code(held.aim(Type(ref=click.ref, text="x"), page)) is Code.ACTION_NOT_ALLOWED
    await held.do(Type(ref=element(page, "Name").ref, text="changes the form"), page)
    assert await code(held.aim(click, page)) is Code.PAGE_CHANGED
    assert await code(held.session.navigate("main", "http://elsewhere.example/", soon())) is Code.URL_DISALLOWED
    assert await code(held.session.observe("popup-9", soon())) is Code.TAB_NOT_FOUND
    assert await code(held.session.aim("other", page.revision, click, "target", soon())) is Code.TAB_NOT_FOUND
    assert place.effects() == 0


async def test_a_key_without_a_reference_goes_to_what_has_the_focus(place: Place) -> None:
    held = await lease(place)
    page = await held.form()
    page = await held.do(Type(ref=element(page, "Name").ref, text="Ann"), page)
    await held.do(Press(key="Enter"), page)
    assert place.effects() == 1


async def test_b25_a_named_tab_is_made_when_it_is_named(place: Place) -> None:
    held = await lease(place)
    page = await held.form()
    view = await held.session.navigate("side", f"{place.origin}/form", soon())
    assert isinstance(view, PageView), view
    scratch = await held.session.observe("scratch", soon())
    assert isinstance(scratch, Observation)
    assert scratch.url == "about:blank"
    assert (await held.look()).revision == page.revision, "each tab has its own document"
    tabs = await held.session.tabs(None, soon())
    assert isinstance(tabs, tuple)
    assert [(tab.name, tab.url) for tab in tabs] == [
        ("main", f"{place.origin}/form"),
        ("scratch", "about:blank"),
        ("side", f"{place.origin}/form"),
    ]
    assert await code(held.session.tabs("main", soon())) is Code.ACTION_NOT_ALLOWED
    assert await code(held.session.tabs("nothing", soon())) is Code.TAB_NOT_FOUND
    left = await held.session.tabs("scratch", soon())
    assert isinstance(left, tuple)
    assert [tab.name for tab in left] == ["main", "side"]


async def test_b11_with_ask_a_dialog_holds_the_click_until_it_is_answered(place: Place) -> None:
    held = await lease(place, policy=PagePolicy(dialogs="ask"))
    for accept, effects in ((False, 0), (True, 1)):
        page = await held.form("/asking")
        target = await held.aim(Click(ref=element(page, "Send").ref), page)
        assert isinstance(target, Target)
        paused = await held.session.dispatch("main", Click(ref=element(page, "Send").ref), target, soon())
        assert isinstance(paused, Paused), paused
        assert (paused.dialog.kind, paused.dialog.message, paused.dialog.tab) == ("confirm", "Really?", "main")
        assert place.effects() == 0
        assert await code(held.session.observe("main", soon())) is Code.DIALOG_OPEN
        assert await code(held.session.answer_dialog("d0", True, "", soon())) is Code.ACTION_NOT_ALLOWED
        closed = await held.session.answer_dialog(paused.dialog.id, accept, "", soon())
        assert closed == paused.dialog
        assert isinstance(await held.session.resume(paused.dialog.id), Sent)
        assert await code(held.session.answer_dialog(paused.dialog.id, True, "", soon())) is Code.ACTION_NOT_ALLOWED
        assert place.effects() == effects


@pytest.mark.parametrize("decision", ["dismiss", "accept"])
async def test_b11_a_policy_answers_and_nothing_waits(place: Place, decision: Any) -> None:
    held = await lease(place, policy=PagePolicy(dialogs=decision))
    page = await held.form("/asking")
    await held.do(Click(ref=element(page, "Send").ref), page)
    assert place.effects() == (decision == "accept")


async def test_a_passed_deadline_is_silence_for_reads_and_not_sent_for_acts(place: Place) -> None:
    held = await lease(place)
    page = await held.form()
    click = Click(ref=element(page, "Send").ref)
    target = await held.aim(click, page)
    assert isinstance(target, Target)
    assert await held.session.observe("main", boot_ms()) is Away.SILENT
    assert await held.session.aim("main", page.revision, click, "target", boot_ms()) is Away.SILENT
    assert isinstance(await held.session.dispatch("main", click, target, boot_ms()), NotSent)
    assert place.effects() == 0


async def test_a_kill_is_confirmed_and_final(place: Place) -> None:
    held = await lease(place)
    page = await held.form()
    click = Click(ref=element(page, "Send").ref)
    target = await held.aim(click, page)
    assert isinstance(target, Target)
    assert await held.browser.confirm_gone(held.spec.instance) is None
    gone_ms = await held.session.kill()
    assert gone_ms is not None
    assert await held.session.kill() == gone_ms
    assert await held.browser.confirm_gone(held.spec.instance) == gone_ms
    assert await held.session.observe("main", soon()) is Away.GONE
    assert isinstance(await held.session.dispatch("main", click, target, soon()), NotSent)
    assert await held.session.extend(soon(60_000)) is None
    assert await held.browser.find(dataclasses.replace(held.spec, epoch=2), held.on_gone) is None
    assert held.gone == 0
    assert place.effects() == 0


async def test_a_restarted_host_finds_the_page_and_fences_the_one_before(place: Place) -> None:
    held = await lease(place)
    page = await held.form()
    typed = await held.do(Type(ref=element(page, "Name").ref, text="draft"), page)
    click = Click(ref=element(page, "Send").ref)
    target = await held.aim(click, typed)
    assert isinstance(target, Target)

    later = Lease(place, place.browser(), dataclasses.replace(held.spec, epoch=2, target=held.session.target))
    found = await later.browser.find(later.spec, later.on_gone)
    assert found is not None
    later.session = found
    place.rig.sessions.append(found)  # type: ignore[arg-type] # it only ever kills them
    assert found.target == held.session.target
    assert element(await later.look(), "Name").value == "draft"

    assert await held.session.observe("main", soon()) is Away.FENCED
    assert isinstance(await held.session.dispatch("main", click, target, soon()), NotSent)
    assert await held.session.kill() is None
    assert held.gone == 1
    assert place.effects() == 0
    # The references of before are good in the session of now.
    await later.do(Click(ref=element(typed, "Send").ref), typed)
    assert place.effects() == 1


async def test_an_unknown_instance_is_neither_found_nor_gone(place: Place) -> None:
    browser = place.browser()
    assert await browser.find(place.rig.spec(place.origin), lambda: None) is None
    assert await browser.confirm_gone("nobody") is None


async def test_a_deadline_is_extended_and_never_moves_back(place: Place) -> None:
    held = await lease(place)
    later_ms = soon(120_000)
    assert await held.session.extend(later_ms) == later_ms
    assert await held.session.extend(soon(90_000)) == later_ms


async def test_a_seal_opens_for_its_generation_only(place: Place) -> None:
    held = await lease(place)
    sealed = await held.session.seal(4, soon())
    assert isinstance(sealed, SealedState)
    assert sealed.key_id == "k1"
    await held.session.kill()
    spec = place.rig.spec(place.origin, sealed=sealed.sealed, generation=5)
    refused = await held.browser.start(spec, held.on_gone)
    assert isinstance(refused, Problem)
    assert refused.code is Code.SETUP_FAILED
    again = await Lease(place, held.browser, dataclasses.replace(spec, generation=4)).start()
    assert (await again.look()).url == "about:blank"


async def test_a_start_past_its_deadline_is_refused(place: Place, tmp_path: Path) -> None:
    browser = place.browser()
    refused = await browser.start(place.rig.spec(place.origin, until_ms=boot_ms() - 1), lambda: None)
    assert isinstance(refused, Problem)


async def test_an_engine_that_closes_leaves_its_browsers_to_the_next(place: Place) -> None:
    held = await lease(place)
    await held.browser.close()
    assert held.gone == 0
    spec = dataclasses.replace(held.spec, epoch=2, target=held.session.target)
    found = await place.browser().find(spec, held.on_gone)
    assert found is not None
    place.rig.sessions.append(found)  # type: ignore[arg-type] # it only ever kills them
    assert await found.kill() is not None


async def code(answering: Any) -> Code:
    answer = await answering
    assert isinstance(answer, Problem), answer
    return answer.code
