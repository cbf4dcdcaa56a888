"""`act` and `observe` through lessor, against the same made directly on a page of the same kind."""

import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import lessor
from benchmarks.measure import Times, paired
from lessor.actors.clock import BootClock
from lessor.browser.engine import Engine, Settings
from lessor.browser.session import LiveSession
from lessor.client import Lease
from lessor.ids import fresh_id
from lessor.messages.action import Observation
from lessor.messages.ids import ProfileKey
from lessor.ports import BrowserSpec, Sent, Target

MINUTE_MS = 60_000


@dataclass(frozen=True, slots=True)
class Acting:
    act: Times
    act_direct: Times
    act_without_dry_run: Times
    observe: Times
    observe_direct: Times


@asynccontextmanager
async def direct_page(directory: Path, url: str) -> AsyncIterator[LiveSession]:
    """The same browser and the same page operations, with neither broker nor actors nor journal."""
    engine = Engine(Settings(live=directory / "live", keys=directory / "keys", secrets=directory / "secrets"))
    origin = "/".join(url.split("/")[:3])
    spec = BrowserSpec(
        key=ProfileKey("bench", "direct"),
        principal="bench",
        provider="chromium",
        epoch=1,
        instance=fresh_id(),
        until_ms=BootClock().now_ms() + 30 * MINUTE_MS,
        origins=(origin,),
        strict=False,
        sealed=None,
        generation=0,
    )
    session = await engine.start(spec, lambda: None)
    assert isinstance(session, LiveSession), session
    try:
        await session.navigate("main", url, BootClock().now_ms() + MINUTE_MS)
        yield session
    finally:
        await session.kill()
        await engine.close()


async def acting(lease: Lease, url: str, directory: Path, times: int) -> Acting:
    """Clicks on a button that changes nothing but a counter; each pair on its own page of the same URL."""
    await lease.navigate(url)
    async with direct_page(directory, url) as session:
        clock = BootClock()
        mine = button_of(await lease.observe())
        seen = await session.observe("main", clock.now_ms() + MINUTE_MS)
        assert isinstance(seen, Observation)
        theirs, revision = itertools.repeat(button_of(seen)), seen.revision

        async def through() -> None:
            nonlocal mine
            done = await lease.act(lessor.Click(ref=mine))
            assert done.page is not None
            mine = button_of(done.page)

        aimed: Target | None = None

        async def click(*, dry_run: bool) -> None:
            nonlocal revision, theirs, aimed
            action, until_ms = lessor.Click(ref=next(theirs)), clock.now_ms() + MINUTE_MS
            if dry_run or aimed is None:
                found = await session.aim("main", revision, action, "target", until_ms)
                assert isinstance(found, Target), found
                aimed = found
            sent = await session.dispatch("main", action, aimed, until_ms)
            assert isinstance(sent, Sent), sent
            assert sent.page is not None
            revision, theirs = sent.page.revision, itertools.repeat(button_of(sent.page))

        act, act_direct = await paired(through, lambda: click(dry_run=True), times)
        _, bare = await paired(through, lambda: click(dry_run=False), times)

        async def observe() -> None:
            await lease.observe()

        async def observe_direct() -> None:
            await session.observe("main", clock.now_ms() + MINUTE_MS)

        seen_through, seen_direct = await paired(observe, observe_direct, times)
    return Acting(act, act_direct, bare, seen_through, seen_direct)


def button_of(page: Observation) -> str:
    return next(element.ref for element in page.elements if element.role == "button")
