"""Nothing happens where nothing is leased (architecture, Processes)."""

from __future__ import annotations

import asyncio

import pytest

from lessor.browser.keeper.client import Keeper
from tests.support.engines import Rig, go, look
from tests.support.web import Web

pytestmark = pytest.mark.asyncio(loop_scope="session")

QUIET_S = 1.0


async def _commands_ms(keeper: Keeper) -> object:
    """When commands last passed the keeper's bridge, by epoch."""
    told = await keeper.status()
    assert isinstance(told, dict), told
    return told["last_command_ms"]


async def _is_quiet(keeper: Keeper) -> bool:
    await asyncio.wait({keeper.gone}, timeout=QUIET_S / 4)  # what was begun before is over
    before = await _commands_ms(keeper)
    await asyncio.wait({keeper.gone}, timeout=QUIET_S)
    return before == await _commands_ms(keeper)


async def test_a_warm_browser_hears_nothing_and_no_second_one_runs(rig: Rig, web: Web) -> None:
    engine = rig.engine(warm_max=1)
    await (await rig.start(engine, rig.spec(web.origin))).kill()
    await engine.warmed()
    [warm] = engine._pool._warm
    assert await _is_quiet(warm.keeper)


async def test_a_leased_page_that_nobody_asks_hears_nothing(rig: Rig, web: Web) -> None:
    web.pages["/still"] = "<button>Go</button>"
    session = await rig.start(rig.engine(), rig.spec(web.origin))
    await go(session, f"{web.origin}/still")
    await look(session)
    assert await _is_quiet(session._keeper)
