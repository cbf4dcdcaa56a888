"""Dialogs: answered by policy and told, or held until somebody answers (B11, B12, B13)."""

from __future__ import annotations

from typing import Any

import pytest

from lessor.browser.keeper.linux import boot_ms
from lessor.browser.session import LiveSession
from lessor.errors import Code, OpenDialog, Problem
from lessor.messages.action import Click, PageView, Type
from lessor.messages.policy import PagePolicy
from lessor.ports import Paused, Sent, Target
from tests.support.engines import Rig, do, go, look, named, soon
from tests.support.web import Web

pytestmark = pytest.mark.asyncio(loop_scope="session")
DRAFT = "<input aria-label=Draft><script>onbeforeunload = (event) => event.preventDefault()</script>"


async def asking(rig: Rig, web: Web, **policy: Any) -> LiveSession:
    return await rig.start(rig.engine(), rig.spec(web.origin, policy=PagePolicy(**policy)))


def the_dialog(answer: object) -> OpenDialog:
    assert isinstance(answer, Problem), answer
    assert answer.code is Code.DIALOG_OPEN
    assert answer.dialog is not None
    return answer.dialog


async def test_b11_one_prompt_after_another_and_each_is_told(rig: Rig, web: Web) -> None:
    source = "document.title = prompt('Name?', 'Ann') + (confirm('Sure?') ? ' yes' : ' no'); alert('Done')"
    web.pages["/prompts"] = f'<button onclick="{source}">Go</button>'
    session = await asking(rig, web, dialogs="ask")
    page = await go(session, f"{web.origin}/prompts")
    click = Click(ref=named(page, "Go").ref)
    target = await session.aim("main", page.revision, click, "target", soon())
    assert isinstance(target, Target)
    paused = await session.dispatch("main", click, target, soon())
    seen: list[tuple[str, str, str | None]] = []
    for accept, text in ((True, "Eve"), (False, ""), (True, "")):
        assert isinstance(paused, Paused), paused
        seen.append((paused.dialog.kind, paused.dialog.message, paused.dialog.default))
        assert the_dialog(await session.navigate("main", f"{web.origin}/other", soon())) == paused.dialog
        assert the_dialog(await session.aim("main", page.revision, click, "target", soon())) == paused.dialog
        assert await session.answer_dialog(paused.dialog.id, accept, text, soon()) == paused.dialog
        paused = await session.resume(paused.dialog.id)
    assert isinstance(paused, Sent), paused
    assert seen == [("prompt", "Name?", "Ann"), ("confirm", "Sure?", None), ("alert", "Done", None)]
    assert (await look(session)).title == "Eve no"
    assert "/other" not in web.paths()


async def test_b12_a_dialog_while_a_page_loads_is_answered_by_navigate(rig: Rig, web: Web) -> None:
    web.pages["/greets"] = "<script>alert('Hello')</script><p>below</p>"
    session = await asking(rig, web, dialogs="ask")
    began_ms = boot_ms()
    dialog = the_dialog(await session.navigate("main", f"{web.origin}/greets", soon(20_000)))
    assert boot_ms() - began_ms < 5000
    assert (dialog.kind, dialog.message) == ("alert", "Hello")
    assert the_dialog(await session.observe("main", soon())) == dialog
    assert await session.answer_dialog(dialog.id, True, "", soon()) == dialog
    assert (await look(session)).text == "below"


async def test_b12_by_policy_navigate_goes_on_and_tells(session: LiveSession, web: Web) -> None:
    web.pages["/greets"] = "<script>alert('Hello')</script><p>below</p>"
    view = await session.navigate("main", f"{web.origin}/greets", soon())
    assert isinstance(view, PageView)
    assert view.notices == ("alert dialog dismissed by policy: Hello",)


@pytest.mark.parametrize("leaving", ["stay", "leave", "ask"])
async def test_b13_a_draft_stays_unless_it_is_left(rig: Rig, web: Web, leaving: Any) -> None:
    web.pages["/draft"], web.pages["/next"] = DRAFT, "next"
    session = await asking(rig, web, leaving=leaving)
    page = await go(session, f"{web.origin}/draft")
    await do(session, Type(ref=named(page, "Draft").ref, text="mine"), page)
    for accept in (False, True) if leaving == "ask" else (False,):
        answer = await session.navigate("main", f"{web.origin}/next", soon())
        if leaving == "leave":
            assert isinstance(answer, PageView)
            return
        if leaving == "ask":
            dialog = the_dialog(answer)
            assert dialog.kind == "beforeunload"
            assert await session.answer_dialog(dialog.id, accept, "", soon()) == dialog
            if accept:
                assert (await look(session)).text == "next"
                return
        else:
            assert isinstance(answer, Problem)
            assert answer.code is Code.NAVIGATION_CANCELLED
        assert named(await look(session), "Draft").value == "mine"


async def test_b29_a_page_with_an_open_dialog_is_sealed_all_the_same(rig: Rig, web: Web) -> None:
    web.pages["/greets"] = "<script>alert('Hello')</script>"
    session = await asking(rig, web, dialogs="ask")
    the_dialog(await session.navigate("main", f"{web.origin}/greets", soon()))
    began_ms = boot_ms()
    assert not isinstance(await session.seal(1, soon()), Problem)
    assert boot_ms() - began_ms < 5000
