"""What the demo's workers and its journal say, in plain words."""

from collections.abc import Mapping
from typing import Any

from lessor.messages.record import (
    AnyRecord,
    Attached,
    Dispatched,
    Intent,
    LeaseClosed,
    LeaseClosing,
    LeaseGranted,
    Outcome,
    Reconciled,
    SealCommitted,
)
from lessor.messages.reply import ActOutcome


def of_worker(event: Mapping[str, Any]) -> str | None:
    """A worker's line in words; None for what the journal tells better."""
    match event:
        case {"event": "took", "run": run, "claim": claim}:
            return f"takes the run {run!r} (claim {claim})"
        case {"event": "leased", "reattached": True}:
            return "gets the same lease and the same page"
        case {"event": "leased", "generation": 0}:
            return "gets a fresh browser that nobody has logged in"
        case {"event": "leased", "generation": generation}:
            return f"gets a browser from sealed generation {generation}"
        case {"event": "logged_in", "as_wanted": True}:
            return "logs in; the password comes from the host's store"
        case {"event": "ready", "number": number, "amount": amount, "again": again}:
            return f"has filled in {number} over {amount}, {'once more, ' if again else ''}and clicks"
        case {"event": "unknown", "number": number}:
            return f"is told: nobody can know whether {number} was sent"
        case {"event": "lost", "number": number, "code": code}:
            return f"is told for {number}: {code}"
        case {"event": "confirmed", "number": number}:
            return f"reads on the page that {number} is submitted"
        case {"event": "looked_up", "number": number, "found": 0}:
            return f"looks {number} up by its request key: not there (yet)"
        case {"event": "looked_up", "number": number}:
            return f"looks {number} up by its request key: it is there"
        case {"event": "reconciled", "number": number, "state": "NOT_SENT"}:
            return f"may send {number} again, under the same key"
        case {"event": "finished", "run": run}:
            return f"has finished the run {run!r}"
        case _:
            return None


class JournalReader:
    """Journal records in words, where a reader of the timeline needs them: leases, commits, seals, verdicts."""

    def __init__(self) -> None:
        self._commits: dict[tuple[str, int], str] = {}

    def tell(self, record: AnyRecord) -> str | None:
        match record:
            case LeaseGranted(lease=lease, scope=scope):
                return f"lease {short(lease)} granted to run {scope.run!r}"
            case Attached(lease=lease, worker=worker):
                return f"lease {short(lease)} goes on with {worker}: whoever had it is fenced"
            case Intent(request_key=str() as key, lease=lease, sequence=sequence, step=str() as step):
                self._commits[(lease, sequence)] = step
                return f"intent {sequence}: {step!r} under key {key[:8]}, on disk before the click"
            case Dispatched(sequence=sequence):
                return f"act {sequence} is dispatched, not yet answered"
            case Outcome(lease=lease, sequence=sequence, outcome=outcome):
                return self._outcome(self._commits.get((lease, sequence)), sequence, outcome)
            case Reconciled(counted=True, verdict=verdict, evidence=evidence):
                return f"settled as {verdict}: {evidence}"
            case Reconciled(counted=False):
                return "that look-up came too early to count: still unknown"
            case LeaseClosing(lease=lease, reason=reason):
                return f"lease {short(lease)} is closing: {reason}"
            case SealCommitted(generation=generation, size=size):
                return f"profile sealed as generation {generation} ({size} bytes, encrypted)"
            case LeaseClosed(lease=lease, receipt=receipt, gone_ms=gone_ms):
                return f"lease {short(lease)} is closed: {receipt}{', browser gone' if gone_ms is not None else ''}"
            case _:
                return None

    def _outcome(self, step: str | None, sequence: int, outcome: ActOutcome) -> str | None:
        if outcome is ActOutcome.UNKNOWN:
            return f"outcome {sequence}: UNKNOWN; nobody repeats it without a look"
        return None if step is None else f"outcome {sequence}: {step!r} {outcome}"


def short(name: str) -> str:
    return name[:6]
