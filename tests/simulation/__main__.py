"""`python -m tests.simulation SEEDS`: simulate many worlds, check every history, and see that planted bugs are found.

The last line is one JSON object. A failure prints its seed and the few records that prove it; run that seed
again with `--only SEED --history FILE` to have its whole history.
"""

import argparse
import json
import sys
import time
import warnings
from collections import Counter
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import structlog

from lessor.check import Finding, check
from lessor.check.history import Rest, lines
from tests.simulation.mutants import Killed, Mutant, kill, mutants
from tests.simulation.world import LIMITS, World

SHOWN_MAX = 3


@dataclass(frozen=True, slots=True)
class Result:
    seed: int
    effects: int
    events: int
    orphans: int
    faults: Counter[str]
    steps: Counter[str]
    findings: tuple[tuple[str, str], ...]
    """Predicate and text."""


def simulate(seed: int, history: Path | None = None) -> Result:
    """One world. Its log is not wanted: what matters is in its history."""
    structlog.configure(logger_factory=structlog.ReturnLoggerFactory())
    # Coroutines of killed processes are never finished; that is the point.
    warnings.simplefilter("ignore", RuntimeWarning)
    outcome = World(seed).run()
    if history is not None:
        history.write_bytes(b"".join(lines(outcome.history)))
    found: list[Finding] = check(outcome.history, LIMITS)
    orphans = sum(moment.browsers + moment.owners for moment in outcome.history if isinstance(moment, Rest))
    return Result(
        seed,
        outcome.effects,
        outcome.events,
        orphans,
        outcome.faults,
        outcome.steps,
        tuple((finding.predicate, str(finding)[:4000]) for finding in found),
    )


def main() -> int:
    options = _options()
    began = time.monotonic()
    seeds = [int(word) for word in options.only.split(",")] if options.only else list(range(options.seeds))
    if options.first:
        return _first(seeds)
    with ProcessPoolExecutor(options.jobs) as pool:
        files = [options.history] * len(seeds)
        results = list(pool.map(simulate, seeds, files, chunksize=4))
    seconds = time.monotonic() - began
    _show(results, seconds)
    killed = _mutants(options.jobs) if options.mutants else []
    violations = sum(len(result.findings) for result in results)
    survivors = [one for one in killed if one.seed is None]
    print(
        json.dumps(
            {
                "runs": len(results),
                "faults": sum(sum(result.faults.values()) for result in results),
                "effects": sum(result.effects for result in results),
                "violations": violations,
                "mutants_killed": f"{len(killed) - len(survivors)}/{len(killed)}",
                "orphans": sum(result.orphans for result in results),
                "seconds": round(time.monotonic() - began, 1),
            }
        )
    )
    return 1 if violations or survivors else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("seeds", nargs="?", type=int, default=100, help="simulate seeds 0 to SEEDS - 1")
    parser.add_argument("--only", default="", help="these seeds, with commas")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--history", type=Path, help="write the history of the last seed there, one moment a line")
    parser.add_argument("--mutants", action="store_true", help="see that every planted bug is found")
    parser.add_argument("--first", action="store_true", help="stop at the first violation and print it as JSON")
    return parser.parse_args()


def _first(seeds: list[int]) -> int:
    for seed in seeds:
        found = simulate(seed).findings
        if found:
            print(found[0][1])
            print(json.dumps({"seed": seed, "predicates": sorted({predicate for predicate, _ in found})}))
            return 1
    print(json.dumps({"seed": None, "predicates": []}))
    return 0


def _show(results: list[Result], seconds: float) -> None:
    for result in [result for result in results if result.findings][:SHOWN_MAX]:
        print(f"seed {result.seed}:")
        for _, text in result.findings[:SHOWN_MAX]:
            print(f"  {text}")
    faults, steps = Counter[str](), Counter[str]()
    for result in results:
        faults.update(result.faults)
        steps.update(result.steps)
    print("faults: " + ", ".join(f"{kind} {count}" for kind, count in sorted(faults.items())))
    print("owners crashed while: " + ", ".join(f"{step} {count}" for step, count in sorted(steps.items())))
    print(
        f"effects per seed: {min(result.effects for result in results)} to {max(result.effects for result in results)}"
    )
    events = sum(result.events for result in results)
    print(f"{len(results) / seconds:.1f} seeds/s, {events / seconds:,.0f} events/s")


def _mutants(jobs: int) -> list[Killed]:
    planted: list[Mutant] = mutants()
    with ThreadPoolExecutor(jobs) as pool:
        killed = list(pool.map(kill, planted))
    for one in killed:
        by = f"seed {one.seed}: {', '.join(one.predicates)}" if one.seed is not None else "SURVIVED"
        print(f"mutant {one.mutant.name}: {by}")
    return killed


if __name__ == "__main__":
    sys.exit(main())
