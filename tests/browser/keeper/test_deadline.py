"""The deadline kills, whoever sleeps."""

from __future__ import annotations

import asyncio
import os
import signal

import pytest

from lessor.browser.keeper import client, linux
from tests.browser.keeper.bench import Bench, exited, stop

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_f04_the_browser_is_dead_within_half_a_second_of_the_deadline(bench: Bench) -> None:
    """The host does nothing at all here, as if paused."""
    keeper = await bench.launch()
    deadline_ms = (await bench.admit(keeper, epoch=2, ttl_ms=700)).deadline_ms
    await exited(keeper.pid)
    record = bench.record(keeper)
    assert record["why"] == "deadline"
    assert not bench.tree(keeper)
    assert deadline_ms <= record["killed_at_ms"] <= record["gone_at_ms"] <= deadline_ms + 500
    await asyncio.wait_for(keeper.gone, 1)


async def test_f04_a_stopped_keepers_browser_is_killed_by_the_guard_and_no_command_passes(
    bench: Bench,
) -> None:
    keeper = await bench.launch()
    raw = await bench.connect((await bench.admit(keeper, epoch=2, ttl_ms=700)).ws_url)
    await raw.call(1, "Browser.getVersion")
    before = bench.record(keeper)
    stop(keeper.pid)
    for number in range(2, 100):
        raw.send({"id": number, "method": "Browser.getVersion"})
    await exited(keeper.pid, 3)
    await exited(before["guard"])
    record = bench.record(keeper)
    assert record["why"] == "deadline_by_guard"
    assert record["gone_at_ms"] <= record["deadline_ms"] + 2000
    assert record["last_command_ms"]["2"] <= record["deadline_ms"]
    assert not bench.tree(keeper)


async def test_a_late_extension_does_not_revive(bench: Bench) -> None:
    """The keeper sleeps past its deadline, the extension in its socket, and wakes before the guard."""
    keeper = await bench.launch(guard_ms=10_000)
    deadline_ms = (await bench.admit(keeper, epoch=2, ttl_ms=500)).deadline_ms
    stop(keeper.pid)
    extension = asyncio.create_task(keeper.extend(2, linux.boot_ms() + 20_000))
    timer = linux.BootTimer()
    timer.arm(deadline_ms + 5)
    passed = asyncio.Event()
    asyncio.get_running_loop().add_reader(timer.fd, passed.set)
    await passed.wait()
    asyncio.get_running_loop().remove_reader(timer.fd)
    os.close(timer.fd)
    os.kill(keeper.pid, signal.SIGCONT)
    assert await extension in (client.Refused("too_late"), client.Refused("no_answer"))
    await exited(keeper.pid)
    assert bench.record(keeper)["why"] == "deadline"
    assert not bench.tree(keeper)


async def test_an_acknowledged_extension_holds_and_none_shortens(bench: Bench) -> None:
    keeper = await bench.launch(ttl_ms=5_000)
    later = linux.boot_ms() + 20_000
    assert await keeper.extend(1, later) == later
    assert await keeper.extend(1, later - 10_000) == later
