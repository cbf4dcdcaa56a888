"""The dry run: what changes under a reference, and what does not."""

from __future__ import annotations

import pytest

from lessor.browser.session import LiveSession
from lessor.errors import Code
from lessor.messages.action import Check, Click, Press, Scroll, Select, Type
from lessor.ports import NotSent, Target
from tests.support.engines import do, go, look, named, refused, script, soon
from tests.support.web import Web

pytestmark = pytest.mark.asyncio(loop_scope="session")

ROWS = """<title>rows</title><p id=clock>12:00</p><table>
<tr><td>Rent<td id=amount>100<td><button onclick="fetch('/pay?rent')">Pay rent</button>
<tr><td>Power<td>20<td><button onclick="fetch('/pay?power')">Pay power</button></table>"""


async def test_b14_a_reordered_node_is_still_the_same(session: LiveSession, web: Web) -> None:
    web.pages["/list"] = ROWS
    page = await go(session, f"{web.origin}/list")
    await script(session, "document.querySelector('tbody').prepend(document.querySelectorAll('tr')[1])")
    await do(session, Click(ref=named(page, "Pay rent").ref), page)
    assert [path for path in web.paths() if path.startswith("/pay")] == ["/pay?rent"]


@pytest.mark.parametrize(
    "change",
    [
        "b.remove()",
        "b.style.display = 'none'",
        "b.style.visibility = 'hidden'",
        "b.disabled = true",
        "b.setAttribute('aria-disabled', 'true')",
        "document.body.insertAdjacentHTML('beforeend', '<div style=\"position:fixed;inset:0\">veil</div>')",
    ],
)
async def test_b14_gone_hidden_disabled_or_covered_is_refused(session: LiveSession, web: Web, change: str) -> None:
    web.pages["/list"] = ROWS
    page = await go(session, f"{web.origin}/list")
    await script(session, f"(() => {{ const b = document.querySelector('button'); {change} }})()")
    assert await refused(session, Click(ref=named(page, "Pay rent").ref), page) is Code.ELEMENT_NOT_FOUND
    assert web.paths() == ["/list"]


async def test_b15_a_reference_of_another_document_is_refused(session: LiveSession, web: Web) -> None:
    web.pages["/list"] = ROWS
    old = await go(session, f"{web.origin}/list")
    new = await go(session, f"{web.origin}/list")
    click = Click(ref=named(old, "Pay rent").ref)
    assert await refused(session, click, old) is Code.PAGE_CHANGED
    assert await refused(session, click.__class__(ref="e999999.0123456789abcdef"), new) is Code.ELEMENT_NOT_FOUND
    assert await refused(session, Click(ref="nonsense"), new) is Code.ELEMENT_NOT_FOUND
    assert web.paths() == ["/list", "/list"]


async def test_b16_only_a_change_around_the_target_refuses(session: LiveSession, web: Web) -> None:
    web.pages["/list"] = ROWS
    page = await go(session, f"{web.origin}/list")
    click = Click(ref=named(page, "Pay rent").ref)
    await script(session, "document.querySelector('#clock').textContent = '12:01'")
    target = await session.aim("main", page.revision, click, "target", soon())
    assert isinstance(target, Target)
    assert target.changed
    assert await refused(session, click, page, "page") is Code.PAGE_CHANGED
    await script(session, "document.querySelector('#amount').textContent = '1000'")
    assert await refused(session, click, page) is Code.PAGE_CHANGED
    assert web.paths() == ["/list"]


async def test_b16_a_form_value_changed_unseen_refuses_its_button(session: LiveSession, web: Web) -> None:
    web.pages["/form"] = "<form><label>Amount <input name=amount value=100></label><button>Send</button></form>"
    page = await go(session, f"{web.origin}/form")
    await script(session, "document.querySelector('input').value = '1000'")
    assert await refused(session, Click(ref=named(page, "Send").ref), page) is Code.PAGE_CHANGED


async def test_b17_the_revision_of_an_answer_is_good_for_the_next_act(session: LiveSession, web: Web) -> None:
    web.pages["/form"] = "<form action=/done><label>Amount <input name=amount></label><button>Send</button></form>"
    web.pages["/done"] = "<p>Thank you</p>"
    first = await go(session, f"{web.origin}/form")
    typed = await do(session, Type(ref=named(first, "Amount").ref, text="42"), first)
    assert named(typed, "Amount").value == "42"
    # The reference may be of the earlier observation, the revision is of the later one.
    done = await do(session, Click(ref=named(first, "Send").ref), typed)
    assert done.text == "Thank you"
    assert web.paths() == ["/form", "/done?amount=42"]


async def test_b24_a_password_field_takes_no_typed_value(session: LiveSession, web: Web) -> None:
    web.pages["/login"] = """<form><label>Password <input type=password value=hunter2></label>
        <label>Code <input autocomplete=one-time-code value=123456></label><label>Name <input></label></form>"""
    page = await go(session, f"{web.origin}/login")
    for name in ("Password", "Code"):
        assert await refused(session, Type(ref=named(page, name).ref, text="x"), page) is Code.ACTION_NOT_ALLOWED
        assert await refused(session, Press(ref=named(page, name).ref, key="x"), page) is Code.ACTION_NOT_ALLOWED
        assert named(page, name).value is None
        assert named(page, name).state == ("filled",)
    assert "hunter2" not in repr(page)
    assert "123456" not in repr(page)
    await script(session, "document.querySelector('input').type = 'text'")
    assert named(await look(session), "Password").value is None, "a revealed password stays one"


async def test_an_element_that_moves_after_the_dry_run_is_not_missed(session: LiveSession, web: Web) -> None:
    web.pages["/list"] = ROWS
    page = await go(session, f"{web.origin}/list")
    click = Click(ref=named(page, "Pay rent").ref)
    target = await session.aim("main", page.revision, click, "target", soon())
    assert isinstance(target, Target)
    await script(session, "document.querySelector('button').remove()")
    assert isinstance(await session.dispatch("main", click, target, soon()), NotSent)
    assert web.paths() == ["/list"]


async def test_a_press_that_would_meet_another_element_is_stopped(session: LiveSession, web: Web) -> None:
    web.pages["/trap"] = """<button id=a style="position:absolute;top:20px;left:20px"
        onmouseover="this.style.top = '200px'; document.querySelector('#b').style.top = '20px'">Keep</button>
        <button id=b style="position:absolute;top:200px;left:20px" onclick="fetch('/deleted')"
        onmousedown="fetch('/pressed')">Delete</button>"""
    page = await go(session, f"{web.origin}/trap")
    click = Click(ref=named(page, "Keep").ref)
    target = await session.aim("main", page.revision, click, "target", soon())
    assert isinstance(target, Target)
    assert isinstance(await session.dispatch("main", click, target, soon()), NotSent)
    await look(session)
    assert web.paths() == ["/trap"]


async def test_select_check_press_and_scroll_reach_the_page(session: LiveSession, web: Web) -> None:
    web.pages["/form"] = """<form action=/done><select name=s aria-label=Size><option value=1>small<option value=2>large
        </select><label><input type=checkbox name=c style="display:none"> Agree</label>
        <label><input type=radio name=r value=x> X</label><input name=q aria-label=Query value=old>
        <div style="height:3000px"></div><button>End</button></form>"""
    web.pages["/done"] = "done"
    page = await go(session, f"{web.origin}/form")
    page = await do(session, Select(ref=named(page, "Size").ref, options=("large",)), page)
    page = await do(session, Check(ref=named(page, "Agree").ref), page)
    page = await do(session, Check(ref=named(page, "Agree").ref), page)
    page = await do(session, Check(ref=named(page, "X").ref), page)
    page = await do(session, Type(ref=named(page, "Query").ref, text="grüße 🎉"), page)
    assert [named(page, name).state for name in ("Agree", "X")] == [("checked",), ("checked",)]
    page = await do(session, Scroll(by_px=500), page)
    assert await script(session, "scrollY") == 500
    page = await do(session, Scroll(ref=named(page, "Query").ref), page)
    page = await do(session, Press(ref=named(page, "Query").ref, key="Enter"), page)
    assert web.paths()[-1] == "/done?s=2&c=on&r=x&q=gr%C3%BC%C3%9Fe+%F0%9F%8E%89"


async def test_what_an_element_cannot_take_is_refused(session: LiveSession, web: Web) -> None:
    web.pages["/form"] = """<button>Go</button><select aria-label=Size><option>a<option>b</select>
        <label><input type=radio name=r checked> X</label>"""
    page = await go(session, f"{web.origin}/form")
    go_, size, radio = (named(page, name).ref for name in ("Go", "Size", "X"))
    assert await refused(session, Type(ref=go_, text="x"), page) is Code.ACTION_NOT_ALLOWED
    assert await refused(session, Check(ref=go_), page) is Code.ACTION_NOT_ALLOWED
    assert await refused(session, Check(ref=radio, on=False), page) is Code.ACTION_NOT_ALLOWED
    assert await refused(session, Select(ref=size, options=("c",)), page) is Code.ELEMENT_NOT_FOUND
    assert await refused(session, Select(ref=size, options=("a", "b")), page) is Code.ACTION_NOT_ALLOWED
    assert await refused(session, Press(key="Bogus"), page) is Code.INVALID_REQUEST
