"""A whole session through lessor, against launching the same browser by hand; reattach; re-adoption."""

import itertools
import os
import signal
import time
from dataclasses import dataclass

import psutil
from playwright.async_api import async_playwright

import lessor
from benchmarks.measure import Times, alone, paired, timed
from lessor.browser.arguments import chromium_arguments
from lessor.browser.find import find_chromium
from lessor.client import Client, Lease, Run

REST_S = 0.7
"""Between two sessions: the last browser ends, and the next one gets warm, in nobody's time."""


@dataclass(frozen=True, slots=True)
class Sessions:
    cold: Times
    cold_by_hand: Times
    warm: Times
    warm_by_hand: Times


async def sessions(cold: Client, warm: Client, profile: str, url: str, times: int) -> Sessions:
    """Acquire with restore, goto, sealed close; by hand: launch, restore, goto, storage_state, close.

    `cold` is a client of a host without warm browsers, `warm` of one that keeps one.
    """
    numbers = itertools.count(1)

    async def through(client: Client) -> None:
        async with client.run(f"bench-{next(numbers)}-{os.getpid()}") as run:
            lease = await run.acquire(profile)
            await lease.navigate(url)
            await lease.close()

    chromium = find_chromium()
    assert chromium is not None
    async with async_playwright() as playwright:
        saved: object = None

        async def by_hand() -> None:
            nonlocal saved
            browser = await playwright.chromium.launch(
                executable_path=str(chromium), args=list(chromium_arguments()), chromium_sandbox=os.geteuid() != 0
            )
            context = await browser.new_context(storage_state=saved)  # type: ignore[arg-type] # its own export
            page = await context.new_page()
            await page.goto(url)
            saved = await context.storage_state(indexed_db=True)
            await browser.close()

        cold_times, cold_hand = await paired(lambda: through(cold), by_hand, times, warm=2, rest_s=REST_S)
        warm_times, warm_hand = await paired(lambda: through(warm), by_hand, times, warm=2, rest_s=REST_S)
    return Sessions(cold_times, cold_hand, warm_times, warm_hand)


async def reattach(run: Run, profile: str, times: int) -> Times:
    """The same scope asks again: same lease, same page."""

    async def again() -> None:
        assert (await run.acquire(profile)).reattached

    return await alone(again, times)


async def readoption(lease: Lease, up: psutil.Process, times: int) -> Times:
    """SIGKILL of the host; from the start of its next process to the first answer on the same page."""
    taken: list[float] = []
    for _ in range(times):
        host = _host_of(up)
        host.send_signal(signal.SIGKILL)
        host.wait(5)
        before = lease.id
        taken.append(await _until_served(lease, up))
        assert lease.id == before
    return Times(tuple(sorted(taken)))


async def _until_served(lease: Lease, up: psutil.Process) -> float:
    """Ask at once and again; what counts begins with the new process, not with the restart's backoff."""

    async def ask() -> None:
        while True:
            try:
                await lease.observe(timeout_s=5)
            except lessor.Unavailable:
                continue
            return

    await timed(ask)
    served = time.time()
    return (served - _host_of(up).create_time()) * 1000


def _host_of(up: psutil.Process) -> psutil.Process:
    return next(child for child in up.children() if "host" in child.cmdline())
