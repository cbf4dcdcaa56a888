"""Browsers that start, outlive their host, are found again, and end (architecture, Keeper; F01, F02, F16)."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from lessor.browser.keeper import state, tree
from lessor.browser.keeper.linux import boot_ms
from lessor.browser.session import LiveSession
from lessor.errors import Code, Problem
from lessor.messages.action import Click, Type
from lessor.ports import Away, BrowserSpec, NotSent, SealedState, Target
from tests.browser.keeper.bench import exited
from tests.support.engines import Rig, do, go, look, named, refused, script, soon
from tests.support.web import Web

pytestmark = pytest.mark.asyncio(loop_scope="session")

FORM = """<form action=/done><label>Name <input name=n></label><button>Send</button></form>
    <p id=clock>0</p><script>count = 0; setInterval(() => { clock.textContent = ++count; fetch('/tick') }, 20)
    </script>"""


def children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def is_driver(pid: int) -> bool:
    return b"run-driver" in Path(f"/proc/{pid}/cmdline").read_bytes()


def again(spec: BrowserSpec, session: LiveSession, epoch: int) -> BrowserSpec:
    return dataclasses.replace(spec, epoch=epoch, target=session.target, until_ms=soon(30_000))


async def find(rig: Rig, spec: BrowserSpec) -> LiveSession:
    session = await rig.engine().find(spec, lambda: rig.gone.append(spec.instance))
    assert isinstance(session, LiveSession)
    rig.sessions.append(session)
    return session


async def test_f02_the_same_page_with_its_text_is_found_after_a_restart(rig: Rig, web: Web) -> None:
    web.pages["/form"] = FORM
    spec = rig.spec(web.origin)
    first = rig.engine()
    session = await rig.start(first, spec)
    page = await go(session, f"{web.origin}/form")
    page = await do(session, Type(ref=named(page, "Name").ref, text="typed before"), page)
    rig.sessions.remove(session)
    await first.close()  # the driver goes; keeper, browser and page stay
    web.log.clear()
    began_ms = boot_ms()
    found = await find(rig, again(spec, session, 2))
    assert boot_ms() - began_ms < 2000
    assert found.target == session.target
    later = await look(found)
    assert named(later, "Name").value == "typed before"
    # Nothing is remembered here of the earlier revision, and yet the reference of before is good for it.
    target = await found.aim("main", page.revision, Click(ref=named(page, "Send").ref), "target", soon())
    assert isinstance(target, Target)
    await script(found, "document.querySelector('input').value = 'changed'")
    assert await refused(found, Click(ref=named(page, "Send").ref), page) is Code.PAGE_CHANGED


async def test_f16_guards_and_dialog_policy_are_back_before_the_first_request(rig: Rig, web: Web) -> None:
    web.pages["/form"] = FORM
    web.pages["/frame"] = "frame"
    spec = rig.spec(web.origin)
    first = rig.engine()
    session = await rig.start(first, spec)
    await go(session, f"{web.origin}/form")
    await script(
        session,
        f"""setInterval(() => {{ const frame = document.createElement('iframe'); frame.src = '{web.other}/frame';
            document.body.append(frame); }}, 20)""",
    )
    rig.sessions.remove(session)
    await first.close()
    record = state.read(str(rig.root / "live" / "b" / spec.instance))
    assert record is not None
    web.log.clear()
    found = await find(rig, again(spec, session, 2))
    while "/tick" not in web.paths():
        await look(found)
    assert {host for _, host, _ in web.log} == {f"127.0.0.1:{web.port}"}
    await script(found, "setTimeout(() => { document.title = String(confirm('sure?')) })")
    while (page := await look(found)).title != "false":
        pass
    assert await found.seal(1, soon()) is not None
    assert page.url == f"{web.origin}/form"


async def test_a_found_page_seals_what_was_stored_before(rig: Rig, web: Web) -> None:
    web.pages["/form"] = "form"
    spec = rig.spec(web.origin, web.other)
    first = rig.engine()
    session = await rig.start(first, spec)
    await go(session, f"{web.origin}/form")
    await script(session, "localStorage.token = 'kept'")
    await go(session, f"{web.other}/form")
    rig.sessions.remove(session)
    await first.close()
    found = await find(rig, again(spec, session, 2))
    web.log.clear()
    sealed = await found.seal(1, soon())
    assert isinstance(sealed, SealedState)
    assert web.log == []
    assert (await look(found)).notices == (), "pages of the engine's own are no popups"
    await found.kill()
    # A lease that never goes there keeps it as well.
    middle = await rig.start(rig.engines[1], rig.spec(web.origin, web.other, sealed=sealed.sealed, generation=1))
    sealed = await middle.seal(2, soon())
    assert isinstance(sealed, SealedState)
    last = await rig.start(rig.engines[1], rig.spec(web.origin, web.other, sealed=sealed.sealed, generation=2))
    await go(last, f"{web.origin}/form")
    assert await script(last, "localStorage.token") == "kept"


async def test_a_higher_epoch_fences_the_session_before(rig: Rig, web: Web) -> None:
    web.pages["/form"] = FORM
    spec = rig.spec(web.origin)
    session = await rig.start(rig.engine(), spec)
    page = await go(session, f"{web.origin}/form")
    click = Click(ref=named(page, "Send").ref)
    target = await session.aim("main", page.revision, click, "target", soon())
    assert isinstance(target, Target)
    await find(rig, again(spec, session, 2))
    assert await session.observe("main", soon()) is Away.FENCED
    assert isinstance(await session.dispatch("main", click, target, soon()), NotSent)
    assert await session.extend(soon(60_000)) is None
    assert await session.kill() is None
    assert rig.gone == [spec.instance]
    assert "/done" not in web.paths()


async def test_a_page_that_is_gone_is_not_found_and_its_browser_ends(rig: Rig, web: Web) -> None:
    spec = rig.spec(web.origin)
    first = rig.engine()
    session = await rig.start(first, spec)
    await first.close()
    engine = rig.engine()
    lost = dataclasses.replace(spec, epoch=2, target="X")
    assert await engine.find(lost, lambda: None) is None
    assert await engine.confirm_gone(session.instance) is not None
    assert await engine.find(lost, lambda: None) is None


async def test_b09_a_browser_that_dies_says_so_once(rig: Rig, web: Web) -> None:
    spec = rig.spec(web.origin)
    died = asyncio.Event()
    session = await rig.engine().start(spec, died.set)
    assert isinstance(session, LiveSession)
    rig.sessions.append(session)
    record = state.read(str(rig.root / "live" / "b" / spec.instance))
    assert record is not None
    os.kill(record["browser"], signal.SIGKILL)
    await asyncio.wait_for(died.wait(), 2)
    assert await session.observe("main", soon()) is Away.GONE
    await exited(record["keeper"])
    assert await rig.engines[0].confirm_gone(spec.instance) is not None


async def test_f01_a_killed_driver_is_noticed_and_started_again(rig: Rig, web: Web) -> None:
    web.pages["/page"] = "page"
    engine = rig.engine()
    before = set(children(os.getpid()))
    died = asyncio.Event()
    session = await engine.start(rig.spec(web.origin), died.set)
    assert isinstance(session, LiveSession)
    rig.sessions.append(session)
    [pid] = [pid for pid in set(children(os.getpid())) - before if is_driver(pid)]
    os.kill(pid, signal.SIGKILL)
    await asyncio.wait_for(died.wait(), 2)
    assert await session.observe("main", soon()) is Away.GONE
    assert await session.kill() is not None
    next_one = await rig.start(engine, rig.spec(web.origin))
    assert (await go(next_one, f"{web.origin}/page")).text == "page"


async def test_a_start_that_fails_leaves_nothing(rig: Rig, web: Web) -> None:
    engine = rig.engine()
    late = await engine.start(rig.spec(web.origin, until_ms=boot_ms() - 1), lambda: None)
    assert isinstance(late, Problem)
    assert list((rig.root / "live" / "b").iterdir()) == []


async def test_a_browser_is_kept_warm_after_a_close_and_taken_by_the_next_start(rig: Rig, web: Web) -> None:
    web.pages["/page"] = "page"
    engine = rig.engine(warm_max=1)
    first = await rig.start(engine, rig.spec(web.origin))
    await first.kill()
    await engine.warmed()
    [warm] = (rig.root / "live" / "b").iterdir()
    spec = rig.spec(web.origin)
    second = await rig.start(engine, spec)
    assert (rig.root / "live" / "b" / spec.instance).resolve() == warm
    assert (await go(second, f"{web.origin}/page")).text == "page"
    assert await second.kill() is not None
    assert await engine.confirm_gone(spec.instance) is not None
    await engine.close()
    assert list((rig.root / "live" / "b").glob(f"{spec.instance}*")) == []
    assert not [path for path in (rig.root / "live" / "b").iterdir() if (path / "control.sock").exists()]


REPO = str(Path(__file__).parents[2])
HOST = """
import asyncio, json, sys
from tests.support.engines import Rig, go
from pathlib import Path
async def main():
    rig = Rig(Path(sys.argv[1]))
    spec = rig.spec(sys.argv[2], instance="inst")
    session = await rig.start(rig.engine(), spec)
    await go(session, sys.argv[2] + "/form")
    print(json.dumps({"target": session.target}), flush=True)
    await asyncio.sleep(60)
asyncio.run(main())
"""


async def test_f01_a_killed_host_leaves_no_driver_and_its_page_can_be_found(rig: Rig, web: Web) -> None:
    web.pages["/form"] = FORM
    command = [sys.executable, "-c", HOST, str(rig.root), web.origin]
    host = await asyncio.create_subprocess_exec(
        *command, stdout=subprocess.PIPE, env={**os.environ, "PYTHONPATH": REPO}
    )
    assert host.stdout is not None
    said = json.loads(await host.stdout.readline())
    record = state.read(str(rig.root / "live" / "b" / "inst"))
    assert record is not None
    drivers = [pid for pid in children(host.pid) if pid != record["keeper"]]
    assert len(drivers) == 1
    host.kill()
    await host.wait()
    await exited(drivers[0])
    assert tree.is_alive(record["keeper"], record["keeper_start"])
    found = await find(rig, rig.spec(web.origin, instance="inst", epoch=2, target=said["target"]))
    assert (await look(found)).url == f"{web.origin}/form"
