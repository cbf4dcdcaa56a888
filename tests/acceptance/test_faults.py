"""Acceptance of faults: real hosts killed and stopped by pid, their keepers, browsers and brokers; real Chromium."""

import asyncio
import contextlib
import signal
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import psutil
import pytest

import lessor
from lessor.actors.clock import BootClock
from lessor.broker.embedded import Endpoint
from lessor.cli.demo.site import Site
from lessor.client import Lease
from lessor.config import Config
from lessor.errors import Code, LessorError
from lessor.limits import Limits
from lessor.runtime import Runtime
from tests.support.broker import until
from tests.support.keepers import Part, trees
from tests.support.pages import Pages, named, ref
from tests.support.processes import host_process, up_process, worker_process
from tests.support.stage import QUICK, refused, staged
from tests.support.wire import code

CLOCK = BootClock()
NOTHING_DONE = (Code.BROWSER_GONE, Code.LEASE_LOST, Code.LEASE_EXPIRED, Code.LEASE_CLOSED, Code.MOVED)
ORPHAN_S_MAX = 2.0
RETURN_MS_MAX = 1000
DEADLINE_S = QUICK.keeper_s


@pytest.fixture
async def steady(endpoint: Endpoint, tmp_path: Path) -> AsyncIterator[Pages]:
    """The contract's own limits: pages outlive their host for half a minute. Hosts are processes."""
    async with _pages(endpoint, tmp_path, Limits()) as pages:
        yield pages


@pytest.fixture
async def quick(endpoint: Endpoint, tmp_path: Path) -> AsyncIterator[Pages]:
    """A host that is not heard of for 2.5 s has lost its pages."""
    async with _pages(endpoint, tmp_path, QUICK) as pages:
        yield pages


@asynccontextmanager
async def _pages(endpoint: Endpoint, directory: Path, limits: Limits) -> AsyncGenerator[Pages, None]:
    async with staged(endpoint, directory, limits, model=False) as stage:
        with Site(directory / "site") as site:
            yield Pages(stage, site, await stage.worker())


async def counting(pages: Pages, lease: Lease) -> None:
    """A page that asks the site for a tick every 200 ms, and has begun to."""
    before = len(pages.site.ticks())
    await lease.navigate(f"{pages.site.url}/counter")
    await until(lambda: len(pages.site.ticks()) > before + 1, 5)


async def test_f02_a_host_that_was_killed_finds_the_page_with_its_text(steady: Pages) -> None:
    steady.give_secret()
    async with host_process(steady.stage) as host:
        lease = await steady.lease()
        page = await steady.log_in(lease)
        await lease.act(lessor.Type(ref=ref(page, "Invoice number"), text="half done"))
        host.kill()
        await host.ended()
    took_ms: list[int] = []
    # Restarted up to three times: on a machine that is busy otherwise, one of them must be in time.
    while not took_ms or (took_ms[-1] > RETURN_MS_MAX and len(took_ms) < 3):
        async with host_process(steady.stage) as host:
            began_ms = CLOCK.now_ms()
            held = await lease.run.acquire(lease.profile)
            page = await held.observe()
            took_ms.append(CLOCK.now_ms() - began_ms)
            assert named(page, "Invoice number").value == "half done"
            assert (held.id, held.reattached, held.next_sequence) == (lease.id, True, 5)
            host.kill()
            await host.ended()
    assert took_ms[-1] <= RETURN_MS_MAX, took_ms
    async with host_process(steady.stage):
        held = await lease.run.acquire(lease.profile)
        acted = await held.act(lessor.Type(ref=ref(page, "Amount"), text="2.00"), revision=page.revision)
        assert acted.sequence == 5
        assert (await held.close()).kind == "sealed"


async def test_f03_a_paused_host_has_lost_its_page_before_another_takes_over(quick: Pages) -> None:
    quick.give_secret("h1")
    async with host_process(quick.stage, "h1") as first:
        profile = await quick.profile()
        lease = await quick.lease(profile)
        page = await quick.log_in(lease, "/invoices/new?key=f03&number=INV-3&amount=3.00")
        tree = await quick.stage.tree(profile, "h1")
        session = await quick.stage.session("h1")
        async with host_process(quick.stage, "h2"):
            wire = quick.stage.wire(lease.run.run, profile=profile)
            await wire.acquire()
            first.signal(signal.SIGSTOP)
            click = wire.acting(lessor.Click(ref=ref(page, "Submit invoice")), revision=page.revision, timeout_s=60)
            # The broker may drop a host that hangs, and with it the way back: no answer is one of the right ones.
            clicking = asyncio.create_task(wire.press(click, timeout_s=20))
            await tree.gone(DEADLINE_S + 1)
            second = await quick.lease(profile)
            assert (await second.observe()).url == "about:blank"
            before = await quick.stage.chain(profile)
            first.signal(signal.SIGCONT)
            told = await clicking
            assert told is None or code(told) in NOTHING_DONE

            await quick.stage.new_session(session, "h1")
            after = await quick.stage.chain(profile)
            later = after.entries[len(before.entries) :]
            assert after.own == before.own
            assert all(entry.epoch == after.own_sequence for _, entry in later), "it wrote nothing of this profile"
            assert (quick.site.submissions(), tree.living) == ([], [])
            await second.close()
            closed = await quick.stage.closed(2, profile)
        assert [one.reason for one in closed] == ["lost", "ended"]


@pytest.mark.parametrize(("paused", "bound_s"), [("host", 0.5), ("keeper", 2.0)])
async def test_f04_the_keepers_deadline_holds_when_somebody_is_paused(
    quick: Pages, paused: str, bound_s: float
) -> None:
    async with host_process(quick.stage) as host:
        lease = await quick.lease()
        await counting(quick, lease)
        tree = await quick.stage.tree(lease.profile)
        pid = host.pid if paused == "host" else tree.pid("keeper")
        stopped_ms, stopped_unix_ms = CLOCK.now_ms(), CLOCK.unix_ms()
        psutil.Process(pid).suspend()
        try:
            browser = psutil.Process(tree.pid("browser"))
            await until(lambda: not running(browser), DEADLINE_S + bound_s + 1)
            assert CLOCK.now_ms() - stopped_ms <= (DEADLINE_S + bound_s) * 1000
            last = max(quick.site.ticks(), default=0)
            assert last <= stopped_unix_ms + (DEADLINE_S + bound_s) * 1000
        finally:
            with contextlib.suppress(psutil.NoSuchProcess):
                psutil.Process(pid).resume()
        await tree.gone(ORPHAN_S_MAX)


async def test_f16_no_request_leaves_while_the_host_is_away(steady: Pages) -> None:
    async with host_process(steady.stage) as host:
        lease = await steady.lease()
        await counting(steady, lease)
        host.kill()
        await host.ended()
    gone_ms = CLOCK.unix_ms()
    async with host_process(steady.stage):
        held = await lease.run.acquire(lease.profile)
        back_ms = CLOCK.unix_ms()
        assert (held.id, held.reattached) == (lease.id, True)
        await until(lambda: max(steady.site.ticks()) > back_ms, 5)
        with refused(Code.URL_DISALLOWED):
            await held.navigate("http://127.0.0.1:9/elsewhere")
        assert "Counter" in (await held.observe()).title
        await held.close()
    away = [tick for tick in steady.site.ticks() if gone_ms + 100 < tick < back_ms - 1000]
    assert away == []


async def test_f13_a_second_lessor_on_one_data_directory_names_the_first(tmp_path: Path) -> None:
    async with up_process(tmp_path, QUICK) as (first, _):
        with refused(Code.SETUP_FAILED) as told:
            async with Runtime(Config(data_dir=tmp_path, limits=QUICK)):
                pass
        assert str(tmp_path) in told[0].message or str(first.pid) in told[0].message


def running(process: psutil.Process) -> bool:
    return process.is_running() and process.status() != psutil.STATUS_ZOMBIE


@pytest.mark.parametrize("part", ["keeper", "guard", "browser", "egress"])
async def test_f01_no_process_outlives_a_part_of_its_browser(steady: Pages, part: Part) -> None:
    async with host_process(steady.stage):
        profile = await steady.profile()
        lease = await steady.lease(profile)
        await lease.navigate(f"{steady.site.url}/login")
        tree = await steady.stage.tree(profile)
        tree.kill(part)
        if part == "guard":
            assert (await lease.observe()).title.startswith("Log in"), "a guard is replaced"
            await lease.close()
            await (await steady.stage.tree(profile)).gone(ORPHAN_S_MAX)
            return
        await tree.gone(ORPHAN_S_MAX)
        with refused(Code.LEASE_LOST, Code.LEASE_CLOSED, Code.BROWSER_GONE):
            await lease.observe()
        fresh = await steady.lease(profile)
        assert (fresh.id != lease.id, fresh.next_sequence) == (True, 1)
        await fresh.close()


async def test_f01_a_killed_driver_costs_no_orphan_and_the_host_serves_on(steady: Pages) -> None:
    async with host_process(steady.stage) as host:
        profile = await steady.profile()
        await (await steady.lease(profile)).navigate(f"{steady.site.url}/login")
        (driver,) = [one for one in psutil.Process(host.pid).children() if "run-driver" in one.cmdline()]
        driver.kill()
        with contextlib.suppress(lessor.Unavailable):
            await steady.lease()  # the first start after it may be the one that notices
        other = await steady.lease()
        assert (await other.navigate(f"{steady.site.url}/login")).status == 200
        await other.close()
        for tree in trees(steady.stage.live / "h"):
            assert tree.living, "a keeper's browser is not an orphan: its host lives"


async def test_f01_a_killed_host_leaves_keepers_with_a_deadline_and_nothing_else(quick: Pages) -> None:
    async with host_process(quick.stage) as host:
        lease = await quick.lease()
        await lease.navigate(f"{quick.site.url}/login")
        tree = await quick.stage.tree(lease.profile)
        others = [one for one in psutil.Process(host.pid).children() if one.pid != tree.pid("keeper")]
        assert others
        host.kill()
        await host.ended()
        await until(lambda: not any(map(running, others)), ORPHAN_S_MAX)
        await tree.gone(DEADLINE_S + ORPHAN_S_MAX)


async def test_f01_a_killed_worker_leaves_nothing_of_itself_and_its_page_to_its_successor(quick: Pages) -> None:
    async with host_process(quick.stage):
        profile = await quick.profile()
        async with worker_process(
            quick.stage, run="r", profile=profile, url=f"{quick.site.url}/login", button="Log in"
        ) as worker:
            await worker.said("acted")
            children = psutil.Process(worker.pid).children(recursive=True)
            worker.kill()
            await worker.ended()
        await until(lambda: not any(map(running, children)), ORPHAN_S_MAX)
        lease = await (await quick.stage.take(quick.client, "r")).acquire(profile)
        assert lease.reattached
        await lease.close()


async def test_f01_a_killed_broker_and_a_killed_parent_leave_no_orphan(tmp_path: Path) -> None:
    async with up_process(tmp_path, QUICK) as (up, live):
        with Site(tmp_path / "site") as site:
            async with lessor.connect(data_dir=tmp_path, limits=QUICK) as client:
                await client.create_profile("shop", origins=[site.url])
                run = client.run("r1")
                await run.__aenter__()
                lease = await run.acquire("shop")
                await lease.navigate(f"{site.url}/login")
                (tree,) = [one for one in trees(live) if one.state["epoch"] > 1]
                (broker,) = [one for one in psutil.Process(up.pid).children() if "nats-server" in one.name()]
                broker.kill()
                await tree.gone(DEADLINE_S + ORPHAN_S_MAX)
                with pytest.raises(LessorError):
                    await lease.observe(timeout_s=0.5)
                children = psutil.Process(up.pid).children(recursive=True)
                up.kill()
                await up.ended()
                await until(lambda: not any(map(running, children)), ORPHAN_S_MAX)
