"""F14: what a host costs that has profiles and no lease, its broker included."""

import asyncio
from pathlib import Path

import psutil

import lessor
from benchmarks.tree import lessor_up

AT_ONCE = 32
REST_S = 4.0


async def idle(directory: Path, profiles: int, seconds: float = 30.0) -> dict[str, object]:
    """Share of one core, in per cent, of `lessor up` with everything below it."""
    async with lessor_up(directory, LESSOR_LIMIT_IDLE_S="1") as up, lessor.connect(data_dir=directory) as client:
        gate = asyncio.Semaphore(AT_ONCE)

        async def one(number: int) -> None:
            async with gate:
                await client.create_profile(f"p{number}", origins=["http://127.0.0.1:1"], timeout_s=60)

        await asyncio.gather(*map(one, range(profiles)))
        while await client.active_profiles():  # noqa: ASYNC110  # nobody is told
            await asyncio.sleep(0.5)
        await asyncio.sleep(REST_S)
        assert up.process is not None
        top = psutil.Process(up.process.pid)
        tree = [top, *top.children(recursive=True)]
        before = sum(map(_cpu_s, tree))
        threads = max(process.num_threads() for process in tree)
        await asyncio.sleep(seconds)
        used_s = sum(map(_cpu_s, tree)) - before
        browsers = [one for one in top.children(recursive=True) if "keeper" in " ".join(one.cmdline())]
    return {
        "idle_profiles": profiles,
        "idle_core_percent": round(100 * used_s / seconds, 2),
        "idle_threads_max": threads,
        "idle_keepers": len(browsers),
    }


def _cpu_s(process: psutil.Process) -> float:
    times = process.cpu_times()
    return times.user + times.system
