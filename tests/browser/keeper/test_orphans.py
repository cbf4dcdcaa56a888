"""F01: two seconds after any SIGKILL nothing of ours runs without a bound."""

from __future__ import annotations

import asyncio
import os
import signal
from typing import Literal

import pytest

from lessor.browser.keeper import client, linux
from lessor.browser.keeper.ending import confirm_gone, sweep
from tests.browser.keeper.bench import Bench, exited, stop

pytestmark = pytest.mark.asyncio(loop_scope="session")


@pytest.mark.parametrize("victim", ["keeper", "browser", "egress"])
@pytest.mark.parametrize("busy", [False, True], ids=["at_rest", "all_stopped"])
async def test_f01_no_orphan_two_seconds_after_a_sigkill(
    bench: Bench, victim: Literal["keeper", "browser", "egress"], busy: bool
) -> None:
    """Also when Chromium's processes are stopped, and so notice nothing themselves."""
    keeper = await bench.launch()
    record = bench.record(keeper)
    tree = bench.tree(keeper)
    if busy:
        for pid in set(tree) - {record["keeper"], record["guard"], record["egress"]}:
            stop(pid)
    os.kill(record[victim], signal.SIGKILL)
    async with asyncio.timeout(2):
        for pid in tree:
            await exited(pid)
    assert confirm_gone(keeper.directory)
    assert bench.record(keeper)["phase"] == "dead"
    assert bench.files(keeper) == ["state.json"]


async def test_f01_a_killed_guard_is_replaced_and_the_page_lives(bench: Bench) -> None:
    keeper = await bench.launch()
    first = bench.record(keeper)["guard"]
    os.kill(first, signal.SIGKILL)
    await exited(first)
    status = await keeper.status()
    assert not isinstance(status, client.Refused)
    second = bench.record(keeper)["guard"]
    assert second != first
    tree = bench.tree(keeper)
    os.kill(keeper.pid, signal.SIGKILL)
    async with asyncio.timeout(2):
        for pid in tree:
            await exited(pid)
    assert confirm_gone(keeper.directory)


async def test_f01_keeper_and_guard_killed_together_leave_no_browser(bench: Bench) -> None:
    keeper = await bench.launch()
    tree = bench.tree(keeper)
    stop(keeper.pid)  # or it might replace its guard in between
    for pid in (bench.record(keeper)["guard"], keeper.pid):
        os.kill(pid, signal.SIGKILL)
    async with asyncio.timeout(2):
        for pid in tree:
            await exited(pid)
    assert confirm_gone(keeper.directory)


async def test_a_sweep_removes_the_dead_and_spares_the_living(bench: Bench) -> None:
    living = await bench.launch()
    stuck = await bench.launch(guard_ms=60_000)
    await bench.admit(stuck, epoch=2, ttl_ms=400)
    timer_fired = linux.BootTimer()
    stop(stuck.pid)
    timer_fired.arm(bench.record(stuck)["deadline_ms"] + 1)
    passed = asyncio.Event()
    asyncio.get_running_loop().add_reader(timer_fired.fd, passed.set)
    await passed.wait()
    asyncio.get_running_loop().remove_reader(timer_fired.fd)
    os.close(timer_fired.fd)
    bench.keepers.remove(stuck)
    assert await asyncio.to_thread(sweep, bench.root) == [living.directory]
    await asyncio.wait_for(stuck.gone, 2)
    assert not stuck.directory.exists()
    assert await client.find(stuck.directory) is None
    found = await client.find(living.directory)
    assert found is not None
    bench.keepers.append(found)


async def test_the_keeper_outlives_its_hosts_connection(bench: Bench) -> None:
    keeper = await bench.launch()
    raw = await bench.connect((await bench.admit(keeper)).ws_url)
    raw.writer.close()
    await keeper.close()
    bench.keepers.remove(keeper)
    again = await client.find(keeper.directory)
    assert again is not None
    bench.keepers.append(again)
    status = await again.status()
    assert not isinstance(status, client.Refused)
    assert status["phase"] == "live"
