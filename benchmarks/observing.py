"""`observe` against Playwright's own snapshot on a page of 10,000 nodes, and a click against Playwright's own."""

from dataclasses import dataclass
from pathlib import Path

import lessor
from benchmarks.acting import MINUTE_MS, direct_page
from benchmarks.measure import Times, paired
from lessor.actors.clock import BootClock
from lessor.messages.action import Observation
from lessor.ports import Sent, Target

ROWS = 2000


@dataclass(frozen=True, slots=True)
class Observing:
    observe: Times
    aria_snapshot: Times
    click: Times
    click_playwright: Times


async def observing(directory: Path, url: str, times: int) -> Observing:
    """On one page and one connection, without broker, actors and journal on either side."""
    async with direct_page(directory, url) as session:
        clock, page = BootClock(), session.main.page
        await page.evaluate(
            f"""() => {{ const table = document.createElement('table');
            table.innerHTML = Array.from({{ length: {ROWS} }},
                (_, n) => `<tr><td>Order ${{n}}<td>${{n}}.00<td><a href=#>Show</a>`).join('');
            document.body.append(table) }}"""
        )
        nodes = int(await page.evaluate("document.querySelectorAll('*').length"))
        assert nodes >= 10_000, nodes

        async def observe() -> None:
            seen = await session.observe("main", clock.now_ms() + MINUTE_MS)
            assert isinstance(seen, Observation), seen

        async def aria_snapshot() -> None:
            await page.locator("body").aria_snapshot()

        seen_, snapshot = await paired(observe, aria_snapshot, max(5, times // 10), warm=2)
        await page.evaluate("() => document.querySelector('table:last-of-type').remove()")
        await session.observe("main", clock.now_ms() + MINUTE_MS)

        async def click() -> None:
            until_ms = clock.now_ms() + MINUTE_MS
            shown = last[0]
            button = next(element.ref for element in shown.elements if element.role == "button")
            action = lessor.Click(ref=button)
            target = await session.aim("main", shown.revision, action, "target", until_ms)
            assert isinstance(target, Target), target
            sent = await session.dispatch("main", action, target, until_ms)
            assert isinstance(sent, Sent), sent
            assert sent.page is not None
            last[0] = sent.page

        async def click_playwright() -> None:
            await page.click("button")

        first = await session.observe("main", clock.now_ms() + MINUTE_MS)
        assert isinstance(first, Observation), first
        last = [first]
        pressed, theirs = await paired(click, click_playwright, times)
    return Observing(seen_, snapshot, pressed, theirs)
