"""One checker for whoever produced a history: the simulator, a chaos run, or a production journal. Pure.

Every predicate is one scan of one profile's moments; what a history does not hold is not judged.
"""

from collections.abc import Callable
from typing import Final

from lessor.check import chain, effects
from lessor.check.history import History
from lessor.check.view import Finding, Findings, View, views
from lessor.limits import Limits

__all__ = ["PREDICATES", "Finding", "check"]

PREDICATES: Final[tuple[Callable[[View], Findings], ...]] = (
    chain.p1_fence,
    chain.p2_epochs,
    effects.p3_intent_first,
    effects.p4_at_most_once,
    chain.p5_one_outcome,
    effects.p6_truth,
    effects.p7_late_effects,
    effects.p8_output_gate,
    chain.p9_sequence,
    chain.p10_one_holder,
    chain.p11_reattach,
    chain.p12_renewal,
    chain.p13_expired_never_seals,
    chain.p14_seal_chain,
    chain.p15_unknown_stays,
    chain.p16_teardown,
    effects.p17_tenants,
    chain.p18_liveness,
    chain.p19_durability,
    effects.p20_hygiene,
    effects.p21_deadlines,
    effects.fenced_claims,
)


def check(history: History, limits: Limits) -> list[Finding]:
    """Everything wrong with a history, by predicate. `limits` are those that its hosts ran with."""
    found = [finding for view in views(history, limits) for scan in PREDICATES for finding in scan(view)]
    # What concerns no single profile is found once for each.
    return list({str(finding): finding for finding in found}.values())
