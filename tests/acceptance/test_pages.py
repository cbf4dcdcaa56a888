"""Acceptance on real Chromium, one host for all: what an act may hit, what is kept, what a step's effect is."""

import asyncio
import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest
import pytest_asyncio

import lessor
from lessor.broker.embedded import Endpoint
from lessor.cli.demo.site import Site
from lessor.errors import Code
from lessor.limits import Limits
from lessor.messages.policy import PagePolicy
from lessor.messages.record import ArtifactKept, Intent, Outcome, SealCommitted
from lessor.messages.reply import ActOutcome, StepState
from tests.support.broker import fresh
from tests.support.pages import Pages, named, ref
from tests.support.processes import worker_process
from tests.support.stage import refused, staged
from tests.support.web import Web

pytestmark = pytest.mark.asyncio(loop_scope="module")
HELD_S_MAX = 10.0


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def pages(endpoint: Endpoint, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Pages]:
    directory = Path(tmp_path_factory.mktemp("pages"))
    async with staged(endpoint, directory, Limits(), model=False) as stage:
        with Site(directory / "site") as site:
            await stage.open_host()
            pages = Pages(stage, site, await stage.worker())
            pages.give_secret()
            yield pages


async def test_b14_a_target_that_moved_is_hit_and_one_that_cannot_be_is_refused(pages: Pages) -> None:
    lease = await pages.lease()
    await lease.navigate(f"{pages.site.url}/table")
    page = await lease.observe()
    assert len([one for one in page.elements if one.name == "Approve"]) == 3, page.elements
    acted = await lease.act(lessor.Click(ref=[one.ref for one in page.elements if one.name == "Approve"][1]))
    assert acted.sequence == 1
    assert [one["number"] for one in pages.site.approvals()] == ["INV-102"]
    before = asyncio.get_running_loop().time()
    with refused(Code.ELEMENT_NOT_FOUND, Code.PAGE_CHANGED):
        await lease.act(lessor.Click(ref="e9999.abcdef0123456789"))
    assert asyncio.get_running_loop().time() - before < 5
    assert len(await pages.stage.written(Intent, lease.profile)) == 1


async def test_b15_an_old_revision_or_an_unknown_reference_sends_nothing(pages: Pages) -> None:
    lease = await pages.lease()
    page = await pages.log_in(lease)
    old, button = page.revision, ref(page, "Submit invoice")
    await lease.navigate(f"{pages.site.url}/invoices")
    with refused(Code.PAGE_CHANGED):
        await lease.act(lessor.Click(ref=button), revision=old)
    await lease.observe()
    with refused(Code.ELEMENT_NOT_FOUND, Code.STALE_REFERENCE):
        await lease.act(lessor.Click(ref="e77.0123456789abcdef"))
    assert len(await pages.stage.written(Intent, lease.profile)) == 3, "only those of the login"


async def test_b16_an_amount_that_changes_unseen_refuses_the_click(pages: Pages) -> None:
    lease = await pages.lease()
    await lease.navigate(f"{pages.site.url}/table")
    page = await lease.observe()
    button = next(one.ref for one in page.elements if one.name == "Approve")
    before = len(pages.site.approvals())
    pages.site.set(amounts={"INV-101": "999.00"})
    async with asyncio.timeout(5):
        while "999.00" not in (await lease.observe()).text:
            pass
    with refused(Code.PAGE_CHANGED):
        await lease.act(lessor.Click(ref=button), revision=page.revision)
    assert len(pages.site.approvals()) == before


async def test_b17_an_acts_answer_carries_a_revision_to_act_on(pages: Pages) -> None:
    lease = await pages.lease()
    page = await pages.log_in(lease)
    first = await lease.act(lessor.Type(ref=ref(page, "Invoice number"), text="INV-17"))
    assert first.page is not None
    second = await lease.act(lessor.Type(ref=ref(first.page, "Amount"), text="17.00"), revision=first.page.revision)
    assert second.page is not None
    assert (named(second.page, "Invoice number").value, named(second.page, "Amount").value) == ("INV-17", "17.00")


async def test_b24_a_password_is_never_typed_and_a_secret_is_nowhere_in_sight(pages: Pages) -> None:
    lease = await pages.lease()
    await lease.navigate(f"{pages.site.url}/login")
    page = await lease.observe()
    with refused(Code.ACTION_NOT_ALLOWED):
        await lease.act(lessor.Type(ref=ref(page, "Password"), text="demo-typed"))
    acted = await lease.act(lessor.Type(ref=ref(page, "Password"), secret="demo-password"))
    assert acted.page is not None
    assert named(acted.page, "Password").value is None
    assert b"demo-typed" not in msgspec.json.encode(await pages.stage.entries(lease.profile))


async def test_b28_a_login_is_sealed_and_lives_on_with_another_host(pages: Pages) -> None:
    profile = await pages.profile()
    lease = await pages.lease(profile)
    await pages.log_in(lease)
    assert (await lease.close()).generation == 1
    sealed = await pages.stage.written(SealCommitted, profile)
    assert [one.generation for one in sealed] == [1]
    stage = pages.stage
    await stage.leave("h", drained=True)
    shutil.copytree(stage.directory / "h" / "keys", stage.directory / "h2" / "keys")
    await stage.open_host("h2")
    again = await pages.lease(profile)
    assert (again.generation, again.next_sequence) == (1, 1)
    view = await again.navigate(f"{pages.site.url}/invoices/new")
    assert view.url == f"{pages.site.url}/invoices/new", "logged in, not led to the login"
    assert (await again.close()).generation == 2
    assert (await pages.client.status(profile)).host.endswith("-h2")
    await stage.leave("h2", drained=True)
    await stage.open_host("h")


async def test_s03_a_worker_that_dies_while_the_site_holds_its_answer(pages: Pages) -> None:
    profile = await pages.profile()
    setting_up = await pages.lease(profile)
    await pages.log_in(setting_up)
    await setting_up.close()
    pages.site.set(answer="hold", times=1)
    job = {"run": "s03", "task": "t", "step": "submit", "profile": profile, "button": "Submit invoice"}
    url = f"{pages.site.url}/invoices/new?key=s03&number=INV-3&amount=3.00"
    async with worker_process(pages.stage, url=url, **job) as died:
        held = await asyncio.to_thread(pages.site.held, HELD_S_MAX)
        assert [one.request_key for one in held] == ["s03"]
        died.kill()
        await died.ended()
    pages.site.release()
    run = await pages.stage.take(pages.client, "s03")
    lease = await run.acquire(profile)
    page = await lease.observe()
    acted = await run.step(lease, "submit", task="t").commit(lessor.Click(ref=page.elements[0].ref))
    assert (lease.reattached, acted.recorded, acted.sequence) == (True, True, 1)
    assert len(pages.site.submissions("s03")) == 1
    await lease.close()


async def test_s04_a_browser_that_dies_with_the_answer_held_is_reconciled_by_key(pages: Pages) -> None:
    profile = await pages.profile()
    lease = await pages.lease(profile)
    await pages.log_in(lease)
    step = lease.run.step(lease, "submit")
    key = step.request_key
    await lease.navigate(f"{pages.site.url}/invoices/new?key={key}&number=INV-4&amount=4.00")
    page = await lease.observe()
    pages.site.set(answer="hold", times=1)
    committing = asyncio.create_task(step.commit(lessor.Click(ref=ref(page, "Submit invoice"))))
    await asyncio.to_thread(pages.site.held, HELD_S_MAX)
    (await pages.stage.tree(profile)).kill("browser")
    with pytest.raises(lessor.OutcomeUnknown):
        await committing
    pages.site.release()

    async def look_up(wanted: str) -> str | None:
        return "found" if pages.site.submissions(wanted) else None

    assert await step.reconcile(look_up, by="test") is StepState.SUCCEEDED
    assert len(pages.site.submissions(key)) == 1
    again = await pages.lease(profile)
    await again.observe()
    repeated = again.run.step(again, "submit", task=lease.run.run)
    assert (await repeated.commit(lessor.Click(ref="e1.0"))).recorded
    assert len(pages.site.submissions(key)) == 1


async def test_b11_a_click_waits_at_a_dialog_until_the_worker_answers(pages: Pages) -> None:
    form = "<form action=/done method=post><button onclick=\"return confirm('Pay?')\">Pay</button></form>"
    with Web(ask=form, done="paid") as web:
        name = fresh("p")
        await pages.client.create_profile(name, origins=[web.origin], policy=PagePolicy(dialogs="ask"))
        lease = await pages.lease(name)
        await lease.navigate(f"{web.origin}/ask")
        for accept in (False, True):
            page = await lease.observe()
            with refused(Code.DIALOG_OPEN) as told:
                await lease.act(lessor.Click(ref=ref(page, "Pay")))
            dialog = told[0].dialog
            assert dialog is not None
            assert (dialog.kind, dialog.message) == ("confirm", "Pay?")
            with refused(Code.DIALOG_OPEN):
                await lease.observe()
            assert (await lease.dialog(dialog.id, accept=accept)).accepted is accept
            assert ("paid" in (await lease.observe()).text) is accept
            with refused(Code.ACTION_NOT_ALLOWED):
                await lease.dialog(dialog.id, accept=True)
        assert web.paths().count("/done") == 1
        outcomes = await pages.stage.written(Outcome, name)
        assert [one.outcome for one in outcomes] == [ActOutcome.APPLIED] * 2


async def test_b22_a_download_is_fetched_over_the_broker_when_its_lease_has_closed(pages: Pages) -> None:
    body = "0123456789abcdef" * 40_000
    with Web(page="<a href=/report>Report</a>") as web:
        web.pages["/report"] = (200, {"content-disposition": "attachment; filename=report.txt"}, body)
        name = fresh("p")
        await pages.client.create_profile(name, origins=[web.origin])
        lease = await pages.lease(name)
        await lease.navigate(f"{web.origin}/page")
        acted = await lease.act(lessor.Click(ref=ref(await lease.observe(), "Report")))
        assert acted.page is not None
        async with asyncio.timeout(HELD_S_MAX):
            while True:
                mine = await lease.artifacts()
                if [one.state for one in mine] == ["kept"]:
                    break
                await asyncio.sleep(0.01)
        [kept] = await pages.stage.awaited(ArtifactKept, 1, name)
        assert kept.artifact == mine[0]
        await lease.close()
        assert await pages.client.artifacts(name) == mine
        one, fetched = await pages.client.artifact(name, mine[0].id)
        assert (one.name, fetched.decode()) == ("report.txt", body)
        with refused(Code.NOT_FOUND):
            await pages.client.artifact(name, "nothing")
        stranger = await pages.stage.worker("b", principal="mallory")
        with refused(Code.NOT_FOUND):
            await stranger.artifact(name, one.id)


async def test_b20_b25_tabs_and_popups_through_the_whole_stack(pages: Pages) -> None:
    with Web(page="<a href=/child target=_blank>Child</a>", child="child") as web:
        name = fresh("p")
        await pages.client.create_profile(name, origins=[web.origin])
        lease = await pages.lease(name)
        await lease.navigate(f"{web.origin}/page")
        await lease.act(lessor.Click(ref=ref(await lease.observe(), "Child")))
        assert (await lease.navigate(f"{web.origin}/child", tab="side")).status == 200
        async with asyncio.timeout(HELD_S_MAX):
            while len(await lease.tabs()) < 3:  # noqa: ASYNC110 - nobody is told
                await asyncio.sleep(0.01)
        assert [tab.name for tab in await lease.tabs()] == ["main", "popup-1", "side"]
        assert (await lease.observe(tab="popup-1")).text == "child"
        assert [tab.name for tab in await lease.tabs(close="popup-1")] == ["main", "side"]
        with refused(Code.ACTION_NOT_ALLOWED):
            await lease.tabs(close="main")
