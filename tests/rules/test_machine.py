"""Any order of requests, faults and time keeps the invariants: Hypothesis walks a world around the rules.

The moves are `World`'s. Predicates are scans of the history, true of every prefix once true of the
whole, so each walk is judged once, at its end, after everything has healed.
"""

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

import pytest

from tests.rules.world import World

STEPS = 50
N = st.integers(0, 63)


class Leasing(RuleBasedStateMachine):
    """Several runs, claims and workers; failures, unknown outcomes, crashes, dead browsers, jumps of time."""

    def __init__(self) -> None:
        super().__init__()
        self.world = World()
