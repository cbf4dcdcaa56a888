"""Whatever can go wrong, at moments that the seed decides; every fault is counted."""

import random
from collections.abc import Callable
from typing import TYPE_CHECKING

from lessor.actors.process import Process as Actor
from tests.simulation.stepped import SteppedProfile

if TYPE_CHECKING:
    from tests.simulation.host import SimulatedHost
    from tests.simulation.worker import SimulatedWorker
    from tests.simulation.world import World

EVERY_S = 6.0
ARMED_S = 60.0


class Nemesis:
    """Begins after a while, and heals everything at the end of the chaos."""

    def __init__(self, world: "World") -> None:
        self._world = world
        self.active = False
        self._every_s = EVERY_S
        self._armed: dict[str, tuple[float, str, str]] = {}
        """By kind of actor: until when, before or after, and in which step."""
        self._kinds: list[tuple[float, Callable[[], str | None]]] = [
            (5, self._host_crash),
            (4, self._host_pause),
            (4, self._host_partition),
            (2, self._broker_outage),
            (1, self._power_loss),
            (1, self._drain),
            (6, self._crash_owner),
            (1, self._crash_supervisor),
            (2, self._crash_run),
            (1, self._crash_worker_supervisor),
            (2, self._worker_crash),
            (2, self._worker_pause),
            (2, self._worker_partition),
            (3, self._browser_crash),
            (2, self._stale_leader),
            (0.3, self._revoke),
            (0.3, self._cancel_run),
        ]

    @property
    def _draw(self) -> random.Random:
        return self._world.scheduler.random

    def begin(self) -> None:
        """Each seed has a temper of its own: a world in which everything fails a little shows less than many
        in which a few things fail often."""
        self.active = True
        draw = self._draw
        store, network, browser = self._world.store_chances, self._world.network_chances, self._world.browser_chances
        store.lost, store.ghost, store.in_flight = (draw.choice([0, 0.01, 0.06]) for _ in range(3))
        store.lagging = draw.choice([0, 0.1, 0.4])
        network.lost, network.twice, network.late = (draw.choice([0, 0.02, 0.08]) for _ in range(3))
        browser.slow, browser.silent = draw.choice([0.02, 0.15]), draw.choice([0.005, 0.02, 0.08])
        browser.refused, browser.fails = draw.choice([0.01, 0.1]), draw.choice([0.01, 0.1])
        browser.long_way = draw.choice([0.1, 0.5, 0.9])
        browser.late, browser.overdue = draw.choice([0.05, 0.3, 0.7]), draw.choice([0, 0.3, 1])
        self._kinds = [(weight * draw.choice([0, 1, 1, 4]), do) for weight, do in self._kinds]
        self._every_s = draw.choice([2.5, EVERY_S, EVERY_S, 12])
        if any(weight for weight, _ in self._kinds):
            self._next()

    def heal(self) -> None:
        """Everything up and connected, nothing stopped, no chance of failure any more."""
        self.active = False
        world = self._world
        now_us, now_s = world.scheduler.now_us, world.scheduler.now_s
        for chances in (world.store_chances, world.network_chances, world.browser_chances):
            chances.silence()
        world.store.down_until_s = now_s
        self._armed.clear()
        for host in world.hosts:
            host.line.cut_until_s = host.line.stale_until_s = now_s
            if host.process is not None:
                host.process.stopped_until_us = now_us
            if not host.is_up:
                host.start()
        for worker in world.workers:
            worker.line.cut_until_s = now_s
            if worker.process is not None:
                worker.process.stopped_until_us = now_us
            if not worker.is_up:
                worker.start()

    def _next(self) -> None:
        if not self.active:
            return
        weights = [weight for weight, _ in self._kinds]
        kind = self._draw.choices([do for _, do in self._kinds], weights)[0]()
        if kind is not None:
            self._world.recorder.fault(kind)
        self._world.scheduler.at(self._draw.expovariate(1 / self._every_s), self._next)

    # -- processes

    def _host_crash(self) -> str | None:
        host = self._draw.choice(self._world.hosts)
        if not host.is_up:
            return None
        host.kill()
        soon = self._draw.random() < 0.5
        self._world.scheduler.at(self._draw.uniform(0.05, 2) if soon else self._draw.uniform(2, 60), self._up(host))
        return "host crash"

    def _up(self, process: "SimulatedHost | SimulatedWorker") -> Callable[[], None]:
        return lambda: None if process.is_up else process.start()

    def _power_loss(self) -> str | None:
        host = self._draw.choice(self._world.hosts)
        host.lose_power()
        self._world.scheduler.at(self._draw.uniform(1, 50), self._up(host))
        return "power loss"

    def _drain(self) -> str | None:
        host = self._draw.choice(self._world.hosts)
        if not host.is_up:
            return None
        host.drain()
        return "drain"

    def _host_pause(self) -> str | None:
        host = self._draw.choice(self._world.hosts)
        if host.process is None or not host.is_up:
            return None
        host.process.stop(self._seconds(50))
        return "host pause"

    def _worker_crash(self) -> str | None:
        worker = self._draw.choice(self._world.workers)
        if not worker.is_up:
            return None
        worker.kill()
        self._world.scheduler.at(self._draw.uniform(0.1, 20), self._up(worker))
        return "worker crash"

    def _worker_pause(self) -> str | None:
        worker = self._draw.choice(self._world.workers)
        if worker.process is None or not worker.is_up:
            return None
        worker.process.stop(self._seconds(60))
        return "worker pause"

    def _seconds(self, most_s: float) -> float:
        return self._draw.uniform(0.1, 3) if self._draw.random() < 0.5 else self._draw.uniform(3, most_s)

    # -- ways and places

    def _host_partition(self) -> str:
        host = self._draw.choice(self._world.hosts)
        host.line.cut_until_s = self._world.scheduler.now_s + self._seconds(50)
        return "host partition"

    def _worker_partition(self) -> str:
        worker = self._draw.choice(self._world.workers)
        worker.line.cut_until_s = self._world.scheduler.now_s + self._seconds(30)
        return "worker partition"

    def _broker_outage(self) -> str:
        self._world.store.down_until_s = self._world.scheduler.now_s + self._seconds(18)
        return "broker outage"

    def _stale_leader(self) -> str:
        self._draw.choice(self._world.hosts).line.goes_stale(self._draw.uniform(0.5, 4))
        return "stale leader"

    def _browser_crash(self) -> str | None:
        keepers = [keeper for host in self._world.hosts for keeper in host.keepers]
        if not keepers:
            return None
        self._draw.choice(keepers).die()
        return "browser crash"

    # -- operators

    def _revoke(self) -> str | None:
        """Late: what follows on that profile is only refused."""
        worker = self._draw.choice(self._world.workers)
        if not worker.is_up or self._world.scheduler.now_s < 0.8 * self._world.size.chaos_s:
            return None
        worker.revoke("shop-0")
        return "revoke"

    def _cancel_run(self) -> str | None:
        worker = self._draw.choice(self._world.workers)
        if not worker.is_up:
            return None
        worker.cancel_run(self._draw.choice(self._world.jobs).run)
        return "run cancelled"

    # -- actors

    def _crash_owner(self) -> None:
        steps, weights = zip(*STEPS.items(), strict=True)
        self._arm("ProfileActor", self._draw.choices(steps, weights)[0])

    def _crash_supervisor(self) -> None:
        self._arm("SupervisorActor", "any")

    def _crash_run(self) -> None:
        self._arm("RunActor", "any")

    def _crash_worker_supervisor(self) -> None:
        self._arm("WorkerSupervisor", "any")

    def _arm(self, kind: str, step: str) -> None:
        """Counted when it has happened."""
        until_s = self._world.scheduler.now_s + ARMED_S
        self._armed[kind] = (until_s, self._draw.choice(["before", "after"]), step)

    def crashes(self, actor: Actor, message: object, when: str) -> bool:
        """Asked before and after every message of every actor."""
        if not self._armed:
            return False
        kind = type(actor).__mro__[2].__name__
        until_s, moment, step = self._armed.get(kind, (0.0, "", ""))
        if moment != when or self._world.scheduler.now_s > until_s:
            return False
        if isinstance(actor, SteppedProfile):
            current = step_of(actor)
            if step not in ("any", current):
                return False
            self._world.recorder.steps[current] += 1
        elif self._draw.random() < 0.7:
            return False
        del self._armed[kind]
        self._world.recorder.fault(f"crash of {kind}")
        return True


STEPS = {
    "activating": 1,
    "starting": 2,
    "granting": 2,
    "reading": 1,
    "aiming": 1,
    "intending": 1,
    "dispatching": 8,
    "settling": 4,
    "closing": 2,
    "looking": 8,
    "sealing": 2,
    "killing": 4,
    "idle": 1,
    "any": 1,
}
"""The named steps of an owner's life, and how often each is aimed at: the short ones more often."""


def step_of(actor: SteppedProfile) -> str:
    """What the owner is at, from its mind and its ledger."""
    desk, held, busy = actor.mind
    if desk.epoch == 0:
        return "activating"
    if held is not None and held.open_act is not None and desk.operation is None:
        return "settling"
    if desk.operation is not None:
        return desk.operation.phase
    if desk.start is not None:
        return "granting" if busy else "starting"
    return desk.ending or "idle"
