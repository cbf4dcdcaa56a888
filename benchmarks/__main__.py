"""`make bench`: what a user waits for, as ratios within one run; JSON on the last line.

`ARGS="--times 50"` takes fewer; a figure quoted anywhere comes from 200 or more. `ARGS="--only ticks"` measures one
section: pages, observe, ticks, idle.
"""

import argparse
import asyncio
import json
import tempfile
from pathlib import Path

import psutil

import lessor
from benchmarks.acting import acting
from benchmarks.idle import idle
from benchmarks.journaling import journaling
from benchmarks.measure import Times, fsync_ms
from benchmarks.observing import observing
from benchmarks.page import served
from benchmarks.sessions import readoption, reattach, sessions
from benchmarks.ticks import ticks
from benchmarks.tree import lessor_up
from lessor.cli.restarts import RESTARTS_MAX

TARGETS = {
    "journaled_over_unjournaled_ms": "at most 1 ms + 2 fsyncs",
    "act_over_direct_ms": "at most 1.5 ms + 2 fsyncs",
    "observe_over_direct_ms": "at most 1 ms",
    "session_cold_ratio": "at most 1.2",
    "session_warm_speedup": "at least 1.7",
    "reattach_ms": "at most 5",
    "readoption_ms": "at most 1000",
    "tick_cpu_s": "below 1 for 2,000 leases",
    "tick_renewing_cpu_s": "below 1 for 2,000 leases",
    "idle_core_percent": "at most 0.5",
    "observe_speedup": "at least 3 over aria_snapshot, 10,000 nodes",
    "click_ratio": "at most 1, over Playwright's own click",
}


async def main(only: str | None, times: int, restarts: int, leases: int, profiles: int) -> dict[str, object]:
    figures: dict[str, object] = {}
    with tempfile.TemporaryDirectory(prefix="lessor-bench-") as scratch:
        if only in (None, "idle"):
            figures |= await idle(Path(scratch, "idle"), profiles)
        if only in (None, "ticks"):
            figures |= await ticks(Path(scratch, "ticks"), leases)
        if only in (None, "observe"):
            figures |= await observe(Path(scratch, "observe"), times)
    if only in (None, "pages"):
        figures |= await pages(times, restarts)
    return figures


async def observe(directory: Path, times: int) -> dict[str, object]:
    with served() as origin:
        seen = await observing(directory, f"{origin}/", times)
    print(f"observe 10,000    {seen.observe}\n  aria_snapshot   {seen.aria_snapshot}")
    print(f"click             {seen.click}\n  Playwright's    {seen.click_playwright}")
    return {
        "observe_10000_ms": round(seen.observe.median, 1),
        "observe_speedup": round(seen.aria_snapshot.median / seen.observe.median, 2),
        "click_ratio": round(seen.click.median / seen.click_playwright.median, 3),
    }


async def pages(times: int, restarts: int) -> dict[str, object]:
    with tempfile.TemporaryDirectory(prefix="lessor-bench-") as scratch:
        directory = Path(scratch)
        data_dir = directory / "data"
        synced = fsync_ms(directory)
        print(f"fsync             {synced}")
        with served() as origin:
            written, forgotten = await journaling(directory, f"{origin}/", times)
            print(f"act journaled     {written}\n  unjournaled     {forgotten}")
            cost = {
                "journaled_over_unjournaled_ms": round(written.median - forgotten.median, 3),
                "journaled_allowed_ms": round(1 + 2 * synced.median, 3),
            }
            return cost | await measure(directory, data_dir, origin, synced, times, restarts)


async def measure(
    directory: Path, data_dir: Path, origin: str, synced: Times, times: int, restarts: int
) -> dict[str, object]:
    async with (
        lessor_up(data_dir) as up,
        lessor_up(directory / "cold", LESSOR_LIMIT_WARM_MAX="0"),
        lessor.connect(data_dir=data_dir) as client,
        lessor.connect(data_dir=directory / "cold") as cold,
    ):
        for one in (client, cold):
            await one.create_profile("bench", origins=[origin])
        taken = await sessions(cold, client, "bench", f"{origin}/", max(20, times // 4))
        print(f"session cold      {taken.cold}\n  by hand         {taken.cold_by_hand}")
        print(f"session warm      {taken.warm}\n  by hand         {taken.warm_by_hand}")
        async with client.run("bench-acts", deadline_s=3500) as run:
            lease = await run.acquire("bench", horizon_s=900)
            acts = await acting(lease, f"{origin}/", directory, times)
            print(f"act               {acts.act}\n  direct          {acts.act_direct}")
            print(f"  without dry run {acts.act_without_dry_run}")
            print(f"observe           {acts.observe}\n  direct          {acts.observe_direct}")
            again = await reattach(run, "bench", times)
            print(f"reattach          {again}")
            assert up.process is not None
            adopted = await readoption(lease, psutil.Process(up.process.pid), restarts)
            print(f"re-adoption       {adopted}")
            await lease.close()
    return {
        "times": times,
        "fsync_ms": round(synced.median, 3),
        "act_over_direct_ms": round(acts.act.median - acts.act_direct.median, 3),
        "act_over_direct_without_dry_run_ms": round(acts.act.median - acts.act_without_dry_run.median, 3),
        "act_allowed_ms": round(1.5 + 2 * synced.median, 3),
        "observe_over_direct_ms": round(acts.observe.median - acts.observe_direct.median, 3),
        "session_cold_ratio": round(taken.cold.median / taken.cold_by_hand.median, 3),
        "session_warm_speedup": round(taken.warm_by_hand.median / taken.warm.median, 3),
        "reattach_ms": round(again.median, 3),
        "readoption_ms": round(adopted.median, 1),
        "readoption_max_ms": round(adopted.ms[-1], 1),
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="make bench", description=__doc__)
    parser.add_argument("--times", type=int, default=200)
    # `lessor up` gives up after so many in a minute, and closes the lease with it: no more can be measured.
    parser.add_argument("--restarts", type=int, default=RESTARTS_MAX, choices=range(1, RESTARTS_MAX + 1))
    parser.add_argument("--leases", type=int, default=2000)
    parser.add_argument("--profiles", type=int, default=1000)
    parser.add_argument("--only", choices=("pages", "observe", "ticks", "idle"))
    given = parser.parse_args()
    figures = asyncio.run(main(given.only, given.times, given.restarts, given.leases, given.profiles))
    for name in TARGETS.keys() & figures.keys():
        print(f"{name:26} {figures[name]:>8}   {TARGETS[name]}")
    print(json.dumps(figures))
