"""The step machine: what is known about a step, and which verdict on an uncertain one counts. Pure.

A step's state is derived from the journal alone: its last commit's outcome, refined by the
verdicts that came after it (contract, Steps). `gone_ms` is when the page that tried, with its
egress process, was confirmed gone; a `not_sent` from a look-up counts only when the look-up was
sent at least `settle_s` after that, or when the target refuses a second use of the key itself.
"""

from dataclasses import dataclass
from typing import assert_never

from lessor.journal import LeaseState, Ledger, StepHistory
from lessor.limits import ms
from lessor.messages.record import Reconciled
from lessor.messages.reply import ActOutcome, StepState
from lessor.messages.request import Reconcile


@dataclass(frozen=True, slots=True)
class StepView:
    """A step as the journal knows it. `lease` and `sequence` name its last commit."""

    state: StepState
    lease: str
    sequence: int
    evidence: str | None = None

    @property
    def may_run(self) -> bool:
        """Only what provably did not happen may be committed again."""
        return self.state in (StepState.NOT_SENT, StepState.FAILED)


def view(ledger: Ledger, key: str) -> StepView | None:
    """The step's state, or None when its key was never committed (`no_record`, never `not_sent`)."""
    history = ledger.steps.get(key)
    if history is None or not history.commits:
        return None
    lease, sequence = history.commits[-1]
    act = ledger.act_of(lease, sequence)
    outcome = act.outcome if act else ActOutcome.UNKNOWN
    plain = StepView(_of_outcome(outcome), lease, sequence)
    verdict = _counting_verdict(history)
    if verdict is None:
        return plain
    return StepView(after(plain, verdict.verdict), lease, sequence, verdict.evidence)


def after(step: StepView, verdict: str) -> StepState:
    """The state that a counting verdict leads to. What was dispatched without effect has FAILED."""
    if verdict == "succeeded":
        return StepState.SUCCEEDED
    return StepState.FAILED if step.state is StepState.DISPATCHED else StepState.NOT_SENT


def _counting_verdict(history: StepHistory) -> Reconciled | None:
    """The last verdict on the last commit that counted."""
    for after, verdict in reversed(history.verdicts):
        if after == len(history.commits) and verdict.counted and verdict.verdict != "still_unknown":
            return verdict
    return None


def _of_outcome(outcome: ActOutcome | None) -> StepState:
    match outcome:
        case None:
            return StepState.INTENDED
        case ActOutcome.APPLIED:
            return StepState.DISPATCHED
        case ActOutcome.NOT_SENT:
            return StepState.NOT_SENT
        case ActOutcome.UNKNOWN:
            return StepState.UNKNOWN
        case _:
            assert_never(outcome)


@dataclass(frozen=True, slots=True)
class Weighed:
    """Whether a verdict counts; when not, after how long another look may."""

    counted: bool
    retry_after_s: float | None = None
    why: str = ""


def weigh(ledger: Ledger, found: Reconcile, step: StepView, boot: str, now_ms: int) -> Weighed:
    """Judge a verdict against the rules for when a `not_sent` counts (contract, Steps)."""
    assert ledger.profile is not None
    if found.verdict == "still_unknown":
        return Weighed(False, ledger.profile.settle_s, "The look-up could not tell.")
    if found.verdict == "succeeded" or ledger.profile.idempotent_target:
        return Weighed(True)
    held = ledger.leases.get(step.lease)
    settle_ms = ms(ledger.profile.settle_s)
    gone_ms = page_gone_ms(ledger, held, boot)
    if gone_ms is None:
        return Weighed(False, ledger.profile.settle_s, "The page that tried is not confirmed gone yet.")
    if found.looked_up_ms is None:
        return Weighed(False, None, "Say when the look-up was sent (looked_up_ms, on the owner's clock).")
    if found.looked_up_ms > now_ms:
        return Weighed(False, None, "The look-up lies in the future of the owner's clock.")
    if found.looked_up_ms < gone_ms + settle_ms:
        left_ms = max(0, gone_ms + settle_ms - now_ms)
        return Weighed(False, left_ms / 1000, "The look-up was sent before settle_s had passed.")
    return Weighed(True)


def page_gone_ms(ledger: Ledger, held: LeaseState | None, boot: str) -> int | None:
    """When the page of that lease was confirmed gone, on the clock of `boot`; None while it may still send.

    What another boot confirmed happened, at the latest, before this boot's first entry.
    """
    if held is None or held.phase != "closed" or held.gone_ms is None:
        return None
    return held.gone_ms if held.gone_boot == boot else ledger.boot_ms
