"""Any order of requests, faults and time keeps the invariants: Hypothesis walks a world around the rules.

The moves are `World`'s. The predicates are scans of a history, and what is wrong with a prefix is
wrong with the whole: so a walk is judged once, at its end, and again after everything has healed.
"""

import random

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule, run_state_machine_as_test

from tests.rules.world import World

N = st.integers(0, 63)
STEPS_PER_WALK = 50


def judge(world: World) -> None:
    assert world.violations() == []
    world.settle()
    assert world.violations() == []
    assert world.silent() == [], "requests without an answer"


class Leasing(RuleBasedStateMachine):
    """Several runs, claims and workers; failures, unknown outcomes, crashes, dead browsers, jumps of time."""

    def __init__(self) -> None:
        super().__init__()
        self.world = World()

    def teardown(self) -> None:
        judge(self.world)

    @rule(who=N, wait=N, horizon=N)
    def acquire(self, who: int, wait: int, horizon: int) -> None:
        self.world.acquire(who, wait, horizon)

    @rule(who=N, off=N, step=N, timeout=N)
    def act(self, who: int, off: int, step: int, timeout: int) -> None:
        self.world.act(who, off, step, timeout)

    @rule(who=N, off=N, step=N, count=N)
    def act_and_flow(self, who: int, off: int, step: int, count: int) -> None:
        self.world.act(who, off, step, 0)
        self.world.flow(count)

    @rule(count=N)
    def flow(self, count: int) -> None:
        self.world.flow(count)

    @rule(which=N, how=N)
    def complete(self, which: int, how: int) -> None:
        self.world.complete(which, how)

    @rule(amount=N)
    def time_passes(self, amount: int) -> None:
        self.world.time_passes(amount)

    @rule(who=N, navigate=N, timeout=N)
    def read(self, who: int, navigate: int, timeout: int) -> None:
        self.world.read(who, navigate, timeout)

    @rule(who=N, off=N)
    def ask_outcome(self, who: int, off: int) -> None:
        self.world.ask_outcome(who, off)

    @rule(kind=st.sampled_from(("close", "renew")), who=N, how=N)
    def control(self, kind: str, who: int, how: int) -> None:
        {"close": self.world.close, "renew": self.world.renew}[kind](who, how)

    @rule(kind=st.sampled_from(("cancel", "repeat", "stranger", "revoke")), which=N)
    def trouble(self, kind: str, which: int) -> None:
        world = self.world
        if kind != "revoke":
            {"cancel": world.cancel, "repeat": world.repeat, "stranger": world.stranger}[kind](which)
        elif which == 1:
            world.revoke()

    @rule(kind=st.sampled_from(("take_run", "set_status")), run=N, how=N)
    def run_changes(self, kind: str, run: int, how: int) -> None:
        {"take_run": self.world.take_run, "set_status": self.world.set_status}[kind](run, how)

    @rule(kind=st.sampled_from(("read_for_a_sweep", "deliver_reading", "read_runs", "deliver_runs")), which=N)
    def readings(self, kind: str, which: int) -> None:
        world = self.world
        {
            "read_for_a_sweep": world.read_for_a_sweep,
            "deliver_reading": world.deliver_reading,
            "read_runs": world.read_runs,
            "deliver_runs": world.deliver_runs,
        }[kind](which)

    @rule(kind=st.sampled_from(("land", "look_up", "reconcile")), which=N)
    def effects(self, kind: str, which: int) -> None:
        world = self.world
        {"land": world.land, "look_up": world.look_up, "reconcile": world.reconcile}[kind](which)

    @rule(kind=st.sampled_from(("crash", "browser_dies", "store_slows")), how=N)
    def faults(self, kind: str, how: int) -> None:
        world = self.world
        {"crash": world.crash, "browser_dies": world.browser_dies, "store_slows": world.store_slows}[kind](how)


def explore(steps: int) -> None:
    profile = settings(
        max_examples=steps // STEPS_PER_WALK,
        stateful_step_count=STEPS_PER_WALK,
        deadline=None,
        database=None,
        suppress_health_check=[HealthCheck.too_slow],
    )
    run_state_machine_as_test(Leasing, settings=profile)


@pytest.mark.timeout(300)
def test_rules_keep_the_invariants_in_any_order() -> None:
    explore(50_000)


WEIGHTS = {
    "flow": 20,
    "act": 20,
    "complete": 14,
    "acquire": 10,
    "time_passes": 8,
    "read": 5,
    "repeat": 5,
    "ask_outcome": 4,
    "renew": 3,
    "land": 3,
    "read_runs": 3,
    "deliver_runs": 3,
    "close": 2,
    "set_status": 2,
    "cancel": 2,
    "look_up": 2,
    "reconcile": 2,
    "take_run": 1,
    "crash": 1,
    "browser_dies": 1,
    "read_for_a_sweep": 1,
    "deliver_reading": 1,
    "stranger": 1,
    "store_slows": 1,
}
"""How often a seeded walk makes each move: leases must live long enough to be worth breaking."""
MOVES = [name for name, weight in WEIGHTS.items() for _ in range(weight)]
TWO = ("complete", "ask_outcome", "renew", "close", "set_status", "take_run")
NUMBERS = {"act": 4, "acquire": 3, "read": 3, **dict.fromkeys(TWO, 2)}
"""How many numbers a move takes, when not one."""


def walk(seed: int, steps: int) -> World:
    """A weighted random walk; the same seed walks the same way."""
    chance = random.Random(seed)
    world = World()
    for _ in range(steps):
        move = chance.choice(MOVES)
        getattr(world, move)(*(chance.randrange(64) for _ in range(NUMBERS.get(move, 1))))
        if chance.randrange(2000) == 0:
            world.revoke()
    return world


def stroll(walks: int, steps: int) -> None:
    for seed in range(walks):
        try:
            judge(walk(seed, steps))
        except AssertionError as error:
            error.add_note(f"seed {seed}, {steps} steps")
            raise


@pytest.mark.timeout(300)
def test_seeded_walks_keep_the_invariants() -> None:
    stroll(walks=400, steps=150)


@pytest.mark.proof
@pytest.mark.timeout(3600)
def test_rules_keep_the_invariants_in_a_million_steps() -> None:
    explore(1_000_000)
    stroll(walks=7_000, steps=150)
