"""Downloads are artifacts of the lease, within its quota; uploads take nothing else (B22, B23)."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable

import pytest

from lessor.browser.session import LiveSession
from lessor.errors import Code, Problem
from lessor.messages.action import Artifact, Click, PageView, Upload
from lessor.messages.policy import PagePolicy
from lessor.ports import FileFound, FileSpec
from tests.support.engines import Rig, do, go, look, named, soon
from tests.support.web import Web

pytestmark = pytest.mark.asyncio(loop_scope="session")
BODY = "x" * 100_000
HEADERS = {"content-type": "application/octet-stream", "content-disposition": "attachment; filename=../.a b.bin"}
UPLOAD = (
    "<form action=/done method=post enctype=multipart/form-data>"
    "<input type=file name=f aria-label=File><button>Send</button></form>"
)


@pytest.fixture
def files(web: Web) -> Web:
    web.pages["/file"] = (200, HEADERS, BODY)
    web.pages["/page"] = "<a href=/file>Get</a><p>stays</p>"
    web.log.clear()
    web.bodies.clear()
    return web


async def until(session: LiveSession, holds: Callable[[tuple[Artifact, ...]], bool]) -> tuple[Artifact, ...]:
    async with asyncio.timeout(20):
        while True:
            told = await session.artifacts(None, soon())
            assert isinstance(told, tuple)
            if holds(told):
                return told
            await asyncio.sleep(0.01)


async def kept(session: LiveSession) -> Artifact:
    return (await until(session, lambda all_: bool(all_) and all_[0].state == "kept"))[0]


async def test_b22_a_download_is_an_artifact_and_encrypted(rig: Rig, files: Web) -> None:
    engine = rig.engine()
    session = await rig.start(engine, rig.spec(files.origin))
    found: list[FileFound] = []
    session.hear_files(found.append)
    page = await go(session, f"{files.origin}/page")
    acted = await do(session, Click(ref=named(page, "Get").ref), page)
    artifact = await kept(session)
    assert (artifact.name, artifact.size) == ("_.a b.bin", len(BODY))
    assert artifact.sha256 == hashlib.sha256(BODY.encode()).hexdigest()
    notices = (*acted.notices, *(await look(session)).notices)
    assert any("whole" in notice and artifact.id in notice for notice in notices)
    [one] = found
    assert one.artifact == artifact
    assert BODY[:100].encode() not in one.sealed
    spec = FileSpec(session._spec.key, "ann", session.instance, artifact.id)
    assert await engine.open_file(spec, one.sealed) == BODY.encode()
    other = FileSpec(session._spec.key, "ann", "another", artifact.id)
    assert isinstance(await engine.open_file(other, one.sealed), Problem)
    assert "stays" in (await look(session)).text


async def test_b22_straight_to_a_download_the_page_stays(rig: Rig, files: Web) -> None:
    session = await rig.start(rig.engine(), rig.spec(files.origin))
    before = await go(session, f"{files.origin}/page")
    view = await session.navigate("main", f"{files.origin}/file", soon())
    assert isinstance(view, PageView), view
    assert (view.url, view.revision, view.status) == (before.url, before.revision, None)
    assert "a download began" in view.notices[0]
    assert (await kept(session)).size == len(BODY)


async def test_b22_a_slow_download_is_cancelled(rig: Rig, files: Web) -> None:
    files.pages["/slow"] = (200, {**HEADERS, "x-hold": "1"}, BODY)
    session = await rig.start(rig.engine(), rig.spec(files.origin))
    await go(session, f"{files.origin}/page")
    assert isinstance(await session.navigate("main", f"{files.origin}/slow", soon()), PageView)
    [slow] = await until(session, bool)
    assert slow.state == "running"
    told = await session.artifacts(slow.id, soon())
    assert isinstance(told, tuple)
    assert [one.state for one in told] == ["cancelled"]
    files.release.set()
    assert "stays" in (await look(session)).text
    unknown = await session.artifacts("nothing", soon())
    assert isinstance(unknown, Problem)
    assert unknown.code is Code.NOT_FOUND
    files.release.clear()


@pytest.mark.parametrize("policy", [PagePolicy(files_bytes_max=50_000), PagePolicy(downloads="refuse")])
async def test_b22_over_quota_or_by_policy_nothing_is_kept(rig: Rig, files: Web, policy: PagePolicy) -> None:
    session = await rig.start(rig.engine(), rig.spec(files.origin, policy=policy))
    found: list[FileFound] = []
    session.hear_files(found.append)
    page = await go(session, f"{files.origin}/page")
    acted = await do(session, Click(ref=named(page, "Get").ref), page)
    if policy.downloads == "keep":
        await until(session, lambda all_: bool(all_) and all_[0].state == "over_quota")
    notices = list(acted.notices)
    while not any("quota" in notice or "policy" in notice for notice in notices):
        notices += (await look(session)).notices
    assert found == []


async def test_b23_an_upload_takes_artifacts_of_the_lease_only(rig: Rig, files: Web) -> None:
    files.pages["/up"], files.pages["/done"] = UPLOAD, "done"
    session = await rig.start(rig.engine(), rig.spec(files.origin))
    await go(session, f"{files.origin}/page")
    await session.navigate("main", f"{files.origin}/file", soon())
    artifact = await kept(session)
    page = await go(session, f"{files.origin}/up")
    for stranger in ("passwd", "0" * 32):
        refused = await session.aim(
            "main", page.revision, Upload(ref=named(page, "File").ref, artifacts=(stranger,)), "target", soon()
        )
        assert isinstance(refused, Problem)
        assert refused.code is Code.ACTION_NOT_ALLOWED
    button = Upload(ref=named(page, "Send").ref, artifacts=(artifact.id,))
    refused = await session.aim("main", page.revision, button, "target", soon())
    assert isinstance(refused, Problem)
    assert refused.code is Code.ACTION_NOT_ALLOWED
    page = await do(session, Upload(ref=named(page, "File").ref, artifacts=(artifact.id,)), page)
    page = await do(session, Click(ref=named(page, "Send").ref), page)
    assert page.text == "done"
    [body] = files.bodies
    assert 'filename="_.a b.bin"' in body
    assert BODY in body
