"""The worker's ticks: armed only while there are leases, and no failure disturbs another lease (contract 18; L23)."""

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field

import pykka
import pytest

from lessor.actors.bridge import LoopIo
from lessor.actors.clock import BootClock
from lessor.actors.process import ChildFailed, Stop
from lessor.actors.run import LeaseGone, RunActor
from lessor.actors.talk import Talk
from lessor.actors.worker import Begin, Forget, WorkerSupervisor
from lessor.broker.subjects import Addresses
from lessor.errors import Code, Problem, problem
from lessor.ids import fresh_id
from lessor.limits import Limits
from lessor.messages.ids import Caller
from lessor.messages.reply import AnyReply, RenewalException, RenewedAll, Reply
from lessor.messages.request import RenewAll, Request
from lessor.ports import Silence

TICK_S = 0.1
LEASES = 50
EXPIRED = problem(Code.LEASE_EXPIRED, "The lease has expired: acquire again.")


@dataclass
class Hosts:
    """Every host: its answers in order, the last one for ever, and when it was asked."""

    answers: list[AnyReply | Silence]
    asked_s: list[float] = field(default_factory=list[float])
    subjects: list[str] = field(default_factory=list[str])
    asked: asyncio.Event = field(default_factory=asyncio.Event)

    async def ask(self, subject: str, request: Request[Reply], timeout_s: float) -> AnyReply | Problem | Silence:
        assert isinstance(request, RenewAll)
        self.asked_s.append(asyncio.get_running_loop().time())
        self.subjects.append(subject)
        self.asked.set()
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]

    async def ticked(self, times: int) -> None:
        async with asyncio.timeout(10):
            while len(self.asked_s) < times:
                self.asked.clear()
                await self.asked.wait()


@dataclass(frozen=True)
class Hold:
    """Hold a lease, named like the run; `gone` hears of its end."""

    gone: list[str]


class Holder(RunActor):
    """Holds what it is told to."""

    def receive(self, message: object) -> None:
        match message:
            case Hold(gone=gone):
                self._gone = gone
                self._held(self._run_name, "host-1")
            case LeaseGone(lease=lease):
                self._gone.append(lease)
                self._held(lease, None)
            case _:
                raise AssertionError(message)


Ref = pykka.ActorRef[WorkerSupervisor]
Start = Callable[[Hosts], Ref]


@pytest.fixture
async def start() -> AsyncIterator[Start]:
    io, refs = LoopIo(asyncio.get_running_loop()), list[Ref]()
    caller = Caller("acme", "ann")

    def failed(failure: ChildFailed) -> None:
        raise AssertionError(failure)

    def make(hosts: Hosts) -> Ref:
        talk = Talk(line=hosts, to=Addresses(caller), clock=BootClock(), caller=caller, fresh=fresh_id)
        refs.append(WorkerSupervisor.start(io, talk, "w1", Limits(tick_s=TICK_S), failed, Holder))
        return refs[-1]

    yield make
    for ref in refs:
        ref.tell(Stop())
        await asyncio.to_thread(ref.actor_stopped.wait, 5)
    await io.close()


async def holding(worker: Ref, runs: int, gone: list[str]) -> list["pykka.ActorRef[RunActor]"]:
    begun = list["pykka.ActorRef[RunActor]"]()
    for number in range(runs):
        worker.tell(Begin(f"lease-{number}", 1, begun.append))
    async with asyncio.timeout(5):
        while len(begun) < runs:  # noqa: ASYNC110  # told in another thread
            await asyncio.sleep(0.01)
    for ref in begun:
        ref.tell(Hold(gone))
    return begun


async def test_l23_a_failed_tick_and_a_failed_renewal_disturb_no_other_lease(start: Start) -> None:
    one = RenewedAll(clock_ms=1, exceptions=(RenewalException(lease="lease-7", error=EXPIRED),))
    hosts = Hosts([Silence.DISCONNECTED, one, RenewedAll(clock_ms=2)])
    worker = start(hosts)
    gone: list[str] = []
    await holding(worker, LEASES, gone)
    await hosts.ticked(4)
    assert gone == ["lease-7"]
    apart = [later - earlier for earlier, later in zip(hosts.asked_s, hosts.asked_s[1:], strict=False)]
    assert all(gap >= TICK_S * 0.95 for gap in apart), "ticks are never closer than their period"
    assert set(hosts.subjects) == {"lessor.v1.acme.ann.h.host-1.renew"}


async def test_no_tick_without_a_lease(start: Start) -> None:
    hosts = Hosts([RenewedAll(clock_ms=1)])
    worker = start(hosts)
    begun = await holding(worker, 2, [])
    await hosts.ticked(1)
    for ref in begun:
        worker.tell(Forget(ref))
    await hosts.ticked(1)
    seen = len(hosts.asked_s)
    await asyncio.sleep(4 * TICK_S)
    assert len(hosts.asked_s) <= seen + 1
