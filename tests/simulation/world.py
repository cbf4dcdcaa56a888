"""One simulated world: hosts, workers, broker, browsers, site and faults, all from one seed."""

import random
import traceback
from collections import Counter
from dataclasses import dataclass
from typing import Literal

import pykka

from lessor.actors.process import Process as Actor
from lessor.check.history import Healed, History, Hit, Ordered, Page, Rest, Sent
from lessor.limits import Limits
from tests.model.stream import Chances as StoreChances
from tests.model.stream import Store
from tests.simulation.browser import Chances as BrowserChances
from tests.simulation.browser import Keeper
from tests.simulation.clockwork import Scheduler
from tests.simulation.host import SimulatedHost
from tests.simulation.nemesis import Nemesis
from tests.simulation.network import Chances as NetworkChances
from tests.simulation.network import Network
from tests.simulation.recorder import Recorder
from tests.simulation.worker import Job, SimulatedWorker, stop

LIMITS = Limits(
    horizon_s_max=60,
    life_s_max=130,
    tick_s=15,
    renew_below_s=30,
    idle_s=10,
    quarantine_s=45,
)


@dataclass(frozen=True, slots=True)
class Size:
    """How much world there is, and for how long."""

    hosts: int = 3
    workers: int = 3
    profiles: int = 2
    runs: int = 5
    steps: int = 9
    chaos_s: float = 150.0
    calm_s: float = 320.0
    think_s: float = 4.0
    settle_s: float = 8.0
    quiet: bool = False
    """No fault at all."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one seed left behind."""

    seed: int
    history: History
    faults: Counter[str]
    steps: Counter[str]
    events: int
    effects: int


class World:
    """Built from a seed; `run` gives its history. Two worlds of one seed are the same."""

    def __init__(self, seed: int, size: Size = Size(), limits: Limits = LIMITS) -> None:
        # Jitter inside the product comes from here as well.
        random.seed(seed)
        self.seed, self.size, self.limits = seed, size, limits
        self.scheduler = Scheduler(seed)
        self.recorder = Recorder(self.scheduler)
        self.browser_chances, self.store_chances, self.network_chances = (
            BrowserChances(),
            StoreChances(),
            NetworkChances(),
        )
        self.store = Store(
            random=self.scheduler.random,
            now_s=lambda: self.scheduler.now_s,
            later=self.scheduler.at,
            stored=self.recorder.stored,
            counted=self.recorder.fault,
            chances=self.store_chances,
        )
        self.network = Network(self.scheduler, self.recorder)
        self.network.chances = self.network_chances
        self.objects: dict[str, bytes] = {}
        self.keys_hit: set[str] = set()
        self.think_s = size.think_s
        self.deadline_s = size.chaos_s + size.calm_s + 3600
        self._ids = 0
        self._texts = 0
        self.nemesis = Nemesis(self)
        self.hosts = [SimulatedHost(self, f"host-{number}") for number in range(1, size.hosts + 1)]
        self.workers = [SimulatedWorker(self, f"worker-{number}") for number in range(1, size.workers + 1)]
        self.jobs = [
            Job(run=f"run-{number}", profile=f"shop-{number % size.profiles}", steps=size.steps)
            for number in range(size.runs)
        ]

    def fresh(self) -> str:
        self._ids += 1
        return f"id-{self._ids}"

    def text(self) -> str:
        self._texts += 1
        return f"text-{self._texts}"

    # -- running

    def run(self) -> Outcome:
        size = self.size
        for host in self.hosts:
            host.start()
        for worker in self.workers:
            worker.start()
        self.scheduler.at(1, self._assign)
        if not size.quiet:
            self.scheduler.at(3, self.nemesis.begin)
        self.scheduler.run(size.chaos_s)
        self.nemesis.heal()
        self.recorder.add(Healed(at_ms=self.recorder.at_ms))
        until_s = size.chaos_s + size.calm_s
        while self.scheduler.now_s < until_s and not self._all_done():
            self.scheduler.run(min(until_s, self.scheduler.now_s + 10))
        for worker in self.workers:
            stop(worker)
        # Owners rest when they have been idle; warm bound zero in this model.
        self.scheduler.run(self.scheduler.now_s + self.limits.idle_s + self.limits.session_ttl_s + 15)
        self._rest()
        self._end()
        return Outcome(
            self.seed,
            self.recorder.history,
            self.recorder.faults,
            self.recorder.steps,
            self.scheduler.events,
            sum(isinstance(moment, Hit) for moment in self.recorder.history),
        )

    def _all_done(self) -> bool:
        return all(job.finished for job in self.jobs)

    def _assign(self) -> None:
        """Whoever runs jobs gives those that nobody works on to a worker; sometimes one that is worked on."""
        draw = self.scheduler.random
        for job in self.jobs:
            if job.finished:
                continue
            lost = job.worker is None or not job.worker.alive or job.worker.stopped
            if lost or (self.nemesis.active and draw.random() < 0.02):
                able = [worker for worker in self.workers if worker.is_up and not worker.process.stopped]  # type: ignore[union-attr]  # up
                if able:
                    if draw.random() < 0.1 and job.worker is not None:
                        job.attempt += 1
                    draw.choice(able).work_on(job)
        self.scheduler.at(draw.uniform(1, 4), self._assign)

    def _rest(self) -> None:
        left = pykka.ActorRegistry.get_all()
        self.recorder.add(
            Rest(
                at_ms=self.recorder.at_ms,
                unfinished=tuple(job.run for job in self.jobs if not job.finished),
                owners=sum(ref.actor_class.__name__ == "SteppedProfile" for ref in left),
                browsers=sum(len(host.keepers) for host in self.hosts),
                broken=tuple(self.recorder.broken),
            )
        )

    def _end(self) -> None:
        for process in [host.process for host in self.hosts] + [worker.process for worker in self.workers]:
            if process is not None and process.alive:
                process.alive = False
                for run in process.at_end:
                    if getattr(run, "__name__", "") == "_sim_die":
                        run()

    # -- what really happened, for the recorder

    def broken(self, error: BaseException) -> None:
        where = traceback.extract_tb(error.__traceback__)[-1:]
        at = f" at {where[0].filename.rsplit('/', 1)[-1]}:{where[0].lineno}" if where else ""
        self.recorder.broken.append(f"{type(error).__name__}: {error}"[:300] + at)

    def crashes(self, actor: Actor, message: object, when: str) -> bool:
        return self.nemesis.crashes(actor, message, when)

    def page(self, keeper: Keeper, state: Literal["up", "overdue", "gone"]) -> None:
        profile = str(keeper.spec.key)
        self.recorder.add(Page(at_ms=self.recorder.at_ms, profile=profile, instance=keeper.instance, state=state))

    def counted(self, fault: str) -> None:
        self.recorder.fault(fault)

    def ordered(self, keeper: Keeper, epoch: int, text: str, boot_ms: int) -> None:
        act = self.recorder.acts[text]
        self.recorder.add(
            Ordered(
                at_ms=self.recorder.at_ms,
                profile=str(keeper.spec.key),
                epoch=epoch,
                lease=act.lease,
                sequence=act.sequence,
                boot_ms=boot_ms,
                deadline_ms=act.deadline_ms,
                act=text,
            )
        )

    def sent(self, keeper: Keeper, epoch: int, text: str) -> None:
        act = self.recorder.acts[text]
        self.recorder.add(
            Sent(
                at_ms=self.recorder.at_ms,
                profile=str(keeper.spec.key),
                instance=keeper.instance,
                epoch=epoch,
                lease=act.lease,
                sequence=act.sequence,
                boot_ms=keeper.machine.clock.now_ms(),
                until_ms=keeper.until_ms,
                act=text,
            )
        )

    def hit(self, keeper: Keeper, epoch: int, text: str) -> None:
        act = self.recorder.acts[text]
        key = act.step.request_key if act.step is not None else None
        if key is not None:
            self.keys_hit.add(key)
        self.recorder.add(
            Hit(
                at_ms=self.recorder.at_ms,
                profile=str(keeper.spec.key),
                lease=act.lease,
                sequence=act.sequence,
                epoch=epoch,
                request_key=key,
                act=text,
            )
        )
