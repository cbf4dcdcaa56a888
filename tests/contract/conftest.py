"""Both sides of every port suite: the model, and the real nats-server."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Protocol

import pytest

from lessor.broker.embedded import Endpoint
from lessor.broker.hosts import StreamHosts
from lessor.broker.journal import StreamJournal
from lessor.broker.runs import StreamRuns
from lessor.broker.stream import open_stream
from lessor.broker.subjects import Shard
from lessor.broker.vault import open_vault
from lessor.errors import Problem
from lessor.ports import Clock, Hosts, Journal, Runs, Vault
from tests.model.hosts import MemoryHosts
from tests.model.journal import MemoryJournal
from tests.model.runs import MemoryRuns
from tests.model.vault import MemoryVault
from tests.model.world import VirtualClock, World
from tests.support.broker import FaultyStream, MachineClock, connect, endpoint

__all__ = ["endpoint"]

TTL_S = 1.0


class Faults(Protocol):
    """What a test can do to the way to the broker."""

    away: bool

    def lose_acknowledgements(self, count: int = 1) -> None: ...
    def refuse(self, count: int) -> None: ...
    def delay(self, count: int = 1) -> None: ...
    async def release_ghosts(self) -> None: ...


@dataclass(frozen=True)
class Bench:
    """One implementation of all ports, and its faults. `pass_ttl` lets a session's TTL go by."""

    journal: Journal
    runs: Runs
    vault: Vault
    hosts: Callable[[], Hosts]
    """A host process: called twice it is two of them."""
    clock: Clock
    faults: Faults
    pass_ttl: Callable[[], Awaitable[None]]


def _model() -> Bench:
    clock = VirtualClock()
    world = World(clock, lambda: asyncio.sleep(0))

    async def pass_ttl() -> None:
        clock.advance(TTL_S + 0.1)

    return Bench(
        journal=MemoryJournal(world),
        runs=MemoryRuns(world),
        vault=MemoryVault(world),
        hosts=lambda: MemoryHosts(world, TTL_S),
        clock=clock,
        faults=world,
        pass_ttl=pass_ttl,
    )


@pytest.fixture(params=["model", "broker"])
async def bench(request: pytest.FixtureRequest) -> AsyncIterator[Bench]:
    if request.param == "model":
        yield _model()
        return
    found = request.getfixturevalue("endpoint")
    assert isinstance(found, Endpoint)
    connection = await connect(found)
    shard, clock = Shard(), MachineClock()
    opened, vault = await open_stream(connection, shard), await open_vault(connection, shard)
    assert not isinstance(opened, Problem), opened
    assert not isinstance(vault, Problem), vault
    stream = FaultyStream(connection, shard.stream)
    yield Bench(
        journal=StreamJournal(stream, shard),
        runs=StreamRuns(stream, shard, clock, write_s_max=0.3),
        vault=vault,
        hosts=lambda: StreamHosts(stream, shard, clock, TTL_S, watch_s=0.4),
        clock=clock,
        faults=stream,
        pass_ttl=lambda: asyncio.sleep(TTL_S + 0.3),
    )
    await connection.close()
