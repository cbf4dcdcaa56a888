"""What a worker's tick costs its host: thousands of leases of one worker, renewed by one message (contract 18)."""

import asyncio
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import psutil

import lessor
from benchmarks.tree import child
from lessor.client import Client
from lessor.ids import fresh_id
from lessor.messages.reply import Granted, Refused, RenewedAll, Reply
from lessor.messages.request import Acquire, RenewAll, Request
from lessor.ports import Silence

AT_ONCE = 32
REST_S = 0.5
TICK_S = 120
"""The host's own ticks come after what is measured."""
SPREAD_S = 6.0
"""Renewals come in groups; of 2,000 the last one begins after 4 s."""


async def ticks(directory: Path, leases: int) -> dict[str, object]:
    """CPU seconds of the host's process for one tick: when every lease is renewed, and when none is due.

    The host's own ticks and beats are put off: they are no part of it. Idle CPU of the while is.
    """
    limits = {
        "BROWSERS_MAX": leases,
        "TENANT_LEASES_MAX": leases,
        "SESSION_TTL_S": 900,
        "BEAT_S": 600,
        "IDLE_S": 600,
        "TICK_S": 3600,
    }
    environment = {f"LESSOR_LIMIT_{name}": str(value) for name, value in limits.items()}
    async with child("benchmarks.model_host", LESSOR_DATA_DIR=str(directory), **environment) as up:
        assert up.process is not None
        host = psutil.Process(up.process.pid)
        async with lessor.connect(data_dir=directory) as client:
            name = await _lease(client, leases)
            renewing_s, renewing_took_s = await _tick(client, name, host, SPREAD_S)
            for number in (0, leases // 2, leases - 1):
                holder = (await client.status(f"p{number}")).holder
                assert holder is not None
                assert holder.expires_in_s > 299, "the tick has renewed it"
            idle_s, took_s = await _tick(client, name, host, 0)
    return {
        "tick_leases": leases,
        "tick_messages": 1,
        "tick_cpu_s": round(idle_s, 3),
        "tick_answer_s": round(took_s, 3),
        "tick_renewing_cpu_s": round(renewing_s, 3),
        "tick_renewing_answer_s": round(renewing_took_s, 3),
    }


async def _lease(client: Client, leases: int) -> str:
    """Lease so many profiles for so short a time that the first tick renews them all; the host's name."""
    gate, hosts = asyncio.Semaphore(AT_ONCE), set[str]()

    async def one(number: int) -> None:
        profile = f"p{number}"
        async with gate:
            await client.create_profile(profile, origins=["http://127.0.0.1:1"], timeout_s=60)
            request = Acquire(
                id=fresh_id(),
                budget_s=30,
                run=f"r{number}",
                worker="bench",
                horizon_s=299,
                run_deadline=datetime.now(UTC) + timedelta(hours=2),
            )
            told = await _asked(client, client.talk.to.profile(profile, "acquire"), request)
            assert isinstance(told, Granted), told
            assert told.lease is not None
            hosts.add(told.lease.host)

    await asyncio.gather(*map(one, range(leases)))
    assert len(hosts) == 1
    return hosts.pop()


async def _asked(client: Client, subject: str, request: Request[Reply]) -> object:
    while True:
        heard = await client.talk.line.ask(subject, request, 30)
        retry = isinstance(heard, Silence) or (isinstance(heard, Refused) and heard.error.retryable)
        if not retry:
            return heard
        await asyncio.sleep(0.1)


async def _tick(client: Client, host: str, process: psutil.Process, spread_s: float) -> tuple[float, float]:
    """CPU from the tick until the host rests again, and the time until the worker had its answer."""
    await _rested(process)
    before, began = _cpu_s(process), time.monotonic()
    subject = client.talk.to.renew(host)
    told = await client.talk.line.ask(subject, RenewAll(id=fresh_id(), worker="bench"), 30)
    assert isinstance(told, RenewedAll), told
    assert told.exceptions == ()
    answered_s = time.monotonic() - began
    await asyncio.sleep(spread_s)
    await _rested(process)
    return _cpu_s(process) - before, answered_s


async def _rested(process: psutil.Process) -> None:
    seen = -1.0
    while (now := _cpu_s(process)) - seen > 0.01:
        seen = now
        await asyncio.sleep(REST_S)


def _cpu_s(process: psutil.Process) -> float:
    times = process.cpu_times()
    return times.user + times.system
