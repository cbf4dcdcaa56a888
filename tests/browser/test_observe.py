"""What an observation shows, and that it stays within its bounds (contract, Numbers)."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from lessor.browser.keeper.linux import boot_ms
from lessor.browser.session import LiveSession
from lessor.errors import Code, Problem
from lessor.messages.action import Click
from lessor.ports import Away, Target
from tests.support.engines import Rig, go, look, named, script, soon
from tests.support.web import Web

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_b18_hidden_controls_are_left_out(session: LiveSession, web: Web) -> None:
    hides = (
        "display:none",
        "visibility:hidden",
        "opacity:0",
        "position:absolute;left:-9999px",
        "width:0;padding:0;border:0;overflow:hidden",
    )
    hidden = "".join(f'<button style="{hides[n % 5]}">hidden {n}</button>' for n in range(300))
    web.pages["/many"] = (
        hidden + "".join(f"<button>seen {n}</button>" for n in range(5)) + "<input type=hidden value=x>"
    )
    page = await go(session, f"{web.origin}/many")
    assert [element.name for element in page.elements] == [f"seen {n}" for n in range(5)]
    assert (page.total, page.truncated) == (5, False)


async def test_b18_a_table_of_40000_rows_is_bounded_and_counted(session: LiveSession, web: Web) -> None:
    rows = "".join(f"<tr><td>row {n}<td>x<td><button>Pay</button>" for n in range(40_000))
    web.pages["/table"] = f"<table>{rows}</table>"
    await session.navigate("main", f"{web.origin}/table", soon(20_000))
    began_ms = boot_ms()
    page = await look(session)
    assert boot_ms() - began_ms < 5000
    assert page.truncated
    assert len(page.elements) == 256
    assert page.total == 40_000
    assert len(msgspec.json.encode(page.text)) - 2 <= 256 << 10
    assert page.text_total > 400_000
    assert len(msgspec.json.encode(page)) <= 640 << 10


async def test_b18_ten_megabytes_of_text_are_cut(session: LiveSession, web: Web) -> None:
    web.pages["/long"] = "<p id=p></p>"
    await go(session, f"{web.origin}/long")
    await script(session, """document.querySelector('p').textContent = 'grüß "Gott" '.repeat(800000)""")
    began_ms = boot_ms()
    page = await look(session)
    assert boot_ms() - began_ms < 5000
    assert page.truncated
    assert page.text_total == 14 * 800_000 - 1
    assert len(msgspec.json.encode(page.text)) - 2 <= 256 << 10


async def test_names_values_and_attributes_cannot_swell_an_answer(session: LiveSession, web: Web) -> None:
    web.pages["/swollen"] = "<p>swollen</p>"
    await go(session, f"{web.origin}/swollen")
    await script(
        session,
        """for (let n = 0; n < 300; n++) {
            const input = document.createElement('input');
            input.value = input.ariaLabel = '"\\u0001ä'.repeat(2000);
            input.setAttribute('data-x', 'y'.repeat(100000));
            document.body.append(input);
        }""",
    )
    page = await look(session)
    assert page.total == 300
    assert page.truncated
    assert 0 < len(page.elements) < 256, "elements whose attributes are beyond the bound are left out"
    assert all(len(msgspec.json.encode(element.name)) - 2 <= 1024 for element in page.elements)
    assert len(msgspec.json.encode(page)) <= 640 << 10


async def test_names_roles_and_states_are_a_persons(session: LiveSession, web: Web) -> None:
    web.pages["/form"] = """<a href=/x><img alt=Home></a><button aria-label=Close>x</button>
        <label for=i>Mail</label><input id=i type=email required value=a@b.c>
        <span id=l>Colour</span><div role=checkbox aria-checked=true tabindex=0 aria-labelledby=l>☑</div>
        <details><summary>More</summary>hidden</details><input type=submit><textarea placeholder=Note></textarea>
        <div contenteditable=true aria-label=Body>draft</div><button aria-expanded=false disabled>Menu</button>"""
    page = await go(session, f"{web.origin}/form")
    assert [(e.role, e.name, e.state, e.value) for e in page.elements] == [
        ("link", "Home", (), None),
        ("button", "Close", (), None),
        ("textbox", "Mail", ("required",), "a@b.c"),
        ("checkbox", "Colour", ("checked",), None),
        ("button", "More", (), None),
        ("button", "Submit", (), None),
        ("textbox", "Note", (), ""),
        ("textbox", "Body", (), "draft"),
        ("button", "Menu", ("disabled", "collapsed"), None),
    ]
    assert "hidden" not in page.text


async def test_b19_an_open_shadow_root_is_seen(session: LiveSession, web: Web) -> None:
    web.pages["/shadow"] = """<div id=h></div><script>
        h.attachShadow({mode: 'open'}).innerHTML = '<p>inside</p><button>Deep</button>'</script>"""
    page = await go(session, f"{web.origin}/shadow")
    assert "inside" in page.text
    assert named(page, "Deep").role == "button"


async def test_a_page_cannot_reach_or_shadow_the_observer(session: LiveSession, web: Web) -> None:
    web.pages["/clobber"] = """<form name=body><input name=elements><input name=getAttribute></form>
        <img name=querySelectorAll><img name=title><img name=activeElement><img name=elementFromPoint>
        <button>Real</button><script>
        Element.prototype.checkVisibility = () => false; JSON.stringify = () => '{}';
        window.lessor = {observe: () => ['{}']}; </script>"""
    page = await go(session, f"{web.origin}/clobber")
    assert named(page, "Real").role == "button"
    assert await script(session, "typeof lessor.act") == "undefined"


async def test_an_unchanged_page_keeps_its_revision(session: LiveSession, web: Web) -> None:
    web.pages["/still"] = "<p>still</p><button>Go</button>"
    page = await go(session, f"{web.origin}/still")
    assert (await look(session)).revision == page.revision
    await script(session, "document.querySelector('p').textContent = 'moved'")
    assert (await look(session)).revision != page.revision


async def test_b11_a_dialog_is_dismissed_and_reported(session: LiveSession, web: Web) -> None:
    web.pages["/ask"] = "<p>?</p><script>document.querySelector('p').textContent = confirm('Delete it all?')</script>"
    view = await session.navigate("main", f"{web.origin}/ask", soon())
    assert not isinstance(view, (Problem, Away))
    assert view.notices == ("confirm dialog dismissed by policy: Delete it all?",)
    page = await look(session)
    assert page.text == "false"
    assert page.notices == (), "told once"


async def test_b01_a_wedged_page_is_named_by_the_deadline(rig: Rig, web: Web) -> None:
    web.pages["/wedge"] = "<button onclick='for(;;);'>Wedge</button>"
    session = await rig.start(rig.engine(), rig.spec(web.origin))
    page = await go(session, f"{web.origin}/wedge")
    click = Click(ref=named(page, "Wedge").ref)
    target = await session.aim("main", page.revision, click, "target", soon())
    assert isinstance(target, Target)
    began_ms = boot_ms()
    assert await session.dispatch("main", click, target, boot_ms() + 400) is Away.SILENT
    for answer in (
        await session.observe("main", boot_ms() + 300),
        await session.aim("main", page.revision, click, "target", boot_ms() + 300),
    ):
        assert isinstance(answer, Problem)
        assert answer.code is Code.TAB_HUNG
    assert boot_ms() - began_ms < 1500
    assert await session.extend(soon(30_000)) is not None, "the keeper answers all the same"


async def test_cancel_stops_a_read(session: LiveSession, web: Web) -> None:
    reading = asyncio.create_task(session.navigate("main", f"{web.origin}/hold", soon()))
    assert await asyncio.to_thread(web.held.wait, 5)
    await session.cancel()
    stopped = await reading
    web.release.set()
    assert isinstance(stopped, Problem)
    assert stopped.code is Code.NAVIGATION_CANCELLED
    web.release.clear()
