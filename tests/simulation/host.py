"""A simulated host: a machine that keeps its keepers, and processes on it that come and go."""

import asyncio
from typing import TYPE_CHECKING, Any

import pykka

from lessor.actors.process import ChildFailed, Stop
from lessor.actors.supervisor import SessionLost, Wake
from lessor.actors.words import DrainAll, Ports
from lessor.broker.hosts import StreamHosts
from lessor.broker.journal import StreamJournal
from lessor.broker.runs import StreamRuns
from lessor.broker.subjects import Shard
from lessor.check.history import Acknowledged, Tried
from lessor.messages.ids import ProfileKey
from lessor.messages.record import Entry, HostSession, Own
from lessor.ports import BrokerAway, Landed, Superseded
from tests.model.stream import Line, ModelStream
from tests.model.vault import LineVault
from tests.simulation.browser import Keeper, Machine, ModelBrowser
from tests.simulation.clockwork import Loop, MachineClock, Process
from tests.simulation.network import Gateway
from tests.simulation.recorder import Recorder
from tests.simulation.stepped import SimulatedIo, SteppedProfile, SteppedSupervisor

if TYPE_CHECKING:
    from tests.simulation.world import World


class WatchedJournal(StreamJournal):
    """The real journal; notes when the owner learns that an append is its own."""

    def __init__(self, stream: ModelStream, recorder: Recorder) -> None:
        super().__init__(stream, Shard())
        self._recorder = recorder

    async def append(self, key: ProfileKey, message: Entry | Own, expected: int) -> Landed | Superseded:
        recorder = self._recorder
        recorder.add(Tried(at_ms=recorder.at_ms, profile=str(key), nonce=message.nonce))
        result = await super().append(key, message, expected)
        if isinstance(result, Landed):
            recorder.add(Acknowledged(at_ms=recorder.at_ms, profile=str(key), sequence=result.sequence))
        return result


class SimulatedHost:
    """One host name on one machine."""

    def __init__(self, world: "World", name: str) -> None:
        self.world, self.name = world, name
        self.line = Line(world.store)
        self.boots = 0
        self.process: Process | None = None
        self.machine = self._boot()
        self._gateway: Gateway | None = None
        self._supervisor: pykka.ActorRef[Any] | None = None

    def __repr__(self) -> str:
        return f"<SimulatedHost {self.name} {self.process}>"

    # -- the machine

    def _boot(self) -> Machine:
        world, self.boots = self.world, self.boots + 1
        draw = world.scheduler.random
        clock = MachineClock(
            world.scheduler,
            f"{self.name}-boot-{self.boots}",
            rate=draw.uniform(0.98, 1.02),
            offset_ms=draw.randrange(5_000, 50_000_000),
            wall_ms=draw.randrange(-300, 300),
        )
        return Machine(clock, draw, world.scheduler.at, world, world.browser_chances)

    @property
    def clock(self) -> MachineClock:
        assert isinstance(self.machine.clock, MachineClock)
        return self.machine.clock

    @property
    def keepers(self) -> list[Keeper]:
        return self.machine.live

    @property
    def is_up(self) -> bool:
        return self.process is not None and self.process.alive

    def lose_power(self) -> None:
        self.kill()
        self.machine.lose_power()
        self.machine = self._boot()

    # -- the process

    def kill(self) -> None:
        if self.process is not None and self.process.alive:
            self.process.kill()
        self._supervisor = self._gateway = None

    def start(self) -> None:
        """A new process under the name. Its predecessor is dead."""
        assert not self.is_up
        self.process = process = Process(self.world.scheduler, self.name, self.clock)
        self._loop = loop = Loop(process, self.world.broken)
        process.at(0.02, lambda: loop.run(lambda: loop.create_task(self._open())))

    async def _open(self) -> None:
        self._browser = ModelBrowser(self.machine)
        while True:
            try:
                if await self._begin():
                    return
            except BrokerAway:
                pass
            await asyncio.sleep(1)

    async def _begin(self) -> bool:
        """One incarnation, in the order of `runtime.Host`."""
        world, limits = self.world, self.world.limits
        stream = ModelStream(self.line)
        hosts = StreamHosts(stream, Shard(), self.clock, ttl_s=limits.session_ttl_s, watch_s=2 * limits.beat_s)
        session = HostSession(
            host=self.name,
            incarnation=world.fresh(),
            nonce=world.fresh(),
            boot=self.clock.boot,
            state="serving",
        )
        began_ms = self.clock.now_ms()
        if not await hosts.begin(session):
            return False
        self._hosts = hosts
        assert self.process is not None
        self._io = SimulatedIo(self._loop, world)
        self._gateway = Gateway(world.network, self.name, self._loop, self.line, self._tell)
        ports = Ports(
            clock=self.clock,
            journal=WatchedJournal(stream, world.recorder),
            vault=LineVault(self.line, world.objects),
            runs=StreamRuns(stream, Shard(), self.clock),
            hosts=hosts,
            browser=self._browser,
            doors=self._gateway,
            fresh=world.fresh,
            limits=limits,
            host=self.name,
            incarnation=session.incarnation,
        )
        self._supervisor = SteppedSupervisor.start(self._io, ports, began_ms, self._told, SteppedProfile)
        self._tell(Wake(await ports.journal.owned_by(self.name)))
        return True

    def _tell(self, message: object) -> None:
        if self._supervisor is not None and self._supervisor.is_alive():
            self._supervisor.tell(message)

    def _told(self, message: ChildFailed | SessionLost) -> None:
        self._loop.call_soon_threadsafe(self._heard, message)

    def _heard(self, message: ChildFailed | SessionLost) -> None:
        if isinstance(message, ChildFailed):
            # Whoever runs hosts starts them again.
            self.kill()
            self.world.scheduler.at(1, self._again)
            return
        self.world.recorder.fault("session lapsed")
        self._loop.create_task(self._begin_again())

    async def _begin_again(self) -> None:
        await self._stop_actors()
        await self._open()

    async def _stop_actors(self) -> None:
        supervisor, self._supervisor = self._supervisor, None
        if supervisor is not None and supervisor.is_alive():
            supervisor.tell(Stop())
        await asyncio.sleep(0.05)
        if self._gateway is not None:
            self._gateway.leave()
            self._gateway = None
        await self._io.close()

    # -- an orderly end

    def drain(self) -> None:
        """What SIGTERM does; the process ends afterwards and is started again."""
        if self.is_up and self._supervisor is not None:
            self._loop.call_soon_threadsafe(lambda: self._loop.create_task(self._drain()))

    async def _drain(self) -> None:
        done = asyncio.Event()
        if self._gateway is not None:
            self._gateway.shared = False

        def drained() -> None:
            self._loop.call_soon_threadsafe(done.set)

        self._tell(DrainAll(drained))
        waiting = asyncio.ensure_future(done.wait())
        await asyncio.wait({waiting}, timeout=45)
        if self._supervisor is not None:
            await self._stop_actors()
            if done.is_set():
                ending = asyncio.ensure_future(self._hosts.end())
                await asyncio.wait({ending}, timeout=2)
        self.world.scheduler.at(self.world.scheduler.random.uniform(0.05, 5), self._again)
        self.kill()

    def _again(self) -> None:
        if not self.is_up:
            self.start()
