"""Frames and shadow roots are seen and acted on; what is closed is said to be (B19)."""

from __future__ import annotations

import pytest
import pytest_asyncio

from lessor.browser.session import LiveSession
from lessor.errors import Code
from lessor.messages.action import Check, Click, Hover, Press, Select, Type
from tests.support.engines import Rig, do, go, look, named, refused, script
from tests.support.web import Web

pytestmark = pytest.mark.asyncio(loop_scope="session")

INNER = """<p>inside {0}</p><label>Name {0} <input name=n></label>
    <p id=tip></p>
    <button onclick="fetch('/pressed-{0}')" onmouseover="tip.textContent = 'under the pointer {0}'">Go {0}</button>
    <label><input type=checkbox> Keep {0}</label><select aria-label="How {0}"><option>a<option>b</select>"""


@pytest_asyncio.fixture(loop_scope="session")
async def held(rig: Rig, web: Web) -> LiveSession:
    web.log.clear()
    for name in ("one", "two", "three"):
        web.pages[f"/{name}"] = INNER.format(name)
    return await rig.start(rig.engine(), rig.spec(web.origin, web.other))


async def _everything(session: LiveSession, web: Web, name: str) -> None:
    """Each action once, inside that frame."""
    page = await look(session)
    assert f"inside {name}" in page.text
    page = await do(session, Type(ref=named(page, f"Name {name}").ref, text="Ann"), page)
    assert named(page, f"Name {name}").value == "Ann"
    page = await do(session, Check(ref=named(page, f"Keep {name}").ref), page)
    assert named(page, f"Keep {name}").state == ("checked",)
    page = await do(session, Select(ref=named(page, f"How {name}").ref, options=("b",)), page)
    assert named(page, f"How {name}").value == "b"
    page = await do(session, Press(ref=named(page, f"Name {name}").ref, key="End"), page)
    page = await do(session, Hover(ref=named(page, f"Go {name}").ref), page)
    assert f"under the pointer {name}" in page.text
    await do(session, Click(ref=named(page, f"Go {name}").ref), page)
    assert web.paths().count(f"/pressed-{name}") == 1


@pytest.mark.parametrize("where", ["origin", "other"])
async def test_b19_a_frame_is_seen_and_acted_on(held: LiveSession, web: Web, where: str) -> None:
    source = web.origin if where == "origin" else web.other
    web.pages["/outer"] = f"""<div style="height:1500px">above</div><button>Outside</button><br>
        <iframe src="{source}/one" style="border:7px solid;padding:5px" width=500 height=300></iframe>"""
    page = await go(held, f"{web.origin}/outer")
    assert {element.name for element in page.elements} >= {"Outside", "Go one"}
    assert page.unreachable == 0
    outside, inside = named(page, "Outside").box, named(page, "Go one").box
    assert outside is not None
    assert inside is not None
    assert inside[1] > outside[1]
    await _everything(held, web, "one")


async def test_b19_a_frame_in_a_frame_of_another_site_is_seen_and_acted_on(held: LiveSession, web: Web) -> None:
    web.pages["/middle"] = f"{INNER.format('two')}<iframe src={web.origin}/three width=500 height=300></iframe>"
    web.pages["/outer"] = f"<p>outer</p><iframe src={web.other}/middle width=700 height=600></iframe>"
    await go(held, f"{web.origin}/outer")
    await _everything(held, web, "two")
    await _everything(held, web, "three")


async def test_b19_a_frame_that_is_covered_or_hidden_is_refused(held: LiveSession, web: Web) -> None:
    web.pages["/outer"] = f"<iframe src={web.other}/one width=500 height=300></iframe>"
    page = await go(held, f"{web.origin}/outer")
    click = Click(ref=named(page, "Go one").ref)
    await script(
        held,
        """(() => { const lid = document.createElement('div'); lid.id = 'lid';
        lid.style = 'position:fixed;inset:0;background:white'; document.body.append(lid) })()""",
    )
    assert await refused(held, click, page) is Code.ELEMENT_NOT_FOUND
    await script(held, "lid.remove(); document.querySelector('iframe').style.display = 'none'")
    assert await refused(held, click, page) in (Code.ELEMENT_NOT_FOUND, Code.PAGE_CHANGED)
    assert "/pressed-one" not in web.paths()


async def test_b19_what_changes_in_a_frame_changes_the_revision(held: LiveSession, web: Web) -> None:
    web.pages["/outer"] = f"<button>Outside</button><iframe src={web.other}/one width=500 height=300></iframe>"
    page = await go(held, f"{web.origin}/outer")
    assert (await look(held)).revision == page.revision
    typed = await do(held, Type(ref=named(page, "Name one").ref, text="Ann"), page)
    assert typed.revision != page.revision
    click = Click(ref=named(page, "Outside").ref)
    assert await refused(held, click, page, "page") is Code.PAGE_CHANGED
    assert await refused(held, Click(ref=named(page, "Name one").ref), page) is Code.PAGE_CHANGED


async def test_b19_a_frame_that_went_elsewhere_takes_no_old_reference(held: LiveSession, web: Web) -> None:
    web.pages["/outer"] = f"<iframe name=f src={web.other}/one width=500 height=300></iframe>"
    page = await go(held, f"{web.origin}/outer")
    await script(held, f"document.querySelector('iframe').src = '{web.origin}/two'")
    while "inside two" not in (await look(held)).text:
        pass
    assert await refused(held, Click(ref=named(page, "Go one").ref), page) is Code.PAGE_CHANGED
    await _everything(held, web, "two")


async def test_b19_open_shadow_roots_are_acted_on_and_closed_ones_are_named(held: LiveSession, web: Web) -> None:
    web.pages["/shadow"] = """<div id=open></div><div id=closed style="width:200px;height:40px"></div><x-card></x-card>
        <div style="width:40px;height:40px"></div><script>
        open_ = document.querySelector('#open').attachShadow({mode: 'open'});
        open_.innerHTML = "<button onclick=\\"fetch('/deep')\\">Deep</button>";
        document.querySelector('#closed').attachShadow({mode: 'closed'}).innerHTML = '<button>Shut</button>';
        document.querySelector('x-card').attachShadow({mode: 'closed'}).innerHTML = '<button>Card</button>';
        </script>"""
    page = await go(held, f"{web.origin}/shadow")
    assert [element.name for element in page.elements] == ["Deep"]
    assert page.unreachable == 2
    await do(held, Click(ref=named(page, "Deep").ref), page)
    assert "/deep" in web.paths()
