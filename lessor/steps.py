"""The step machine: what is known about a step, what it waits for, and which verdict on it counts. Pure.

A step's state is derived from the journal alone: its last commit's outcome, refined by the
verdicts that came after it (contract, Steps). `gone_ms` is when the page that tried, with its
egress process, was confirmed gone; a `not_sent` from a look-up counts only when the look-up was
sent at least `settle_s` after that, or when the target refuses a second use of the key itself.
"""

from dataclasses import dataclass
from typing import assert_never

from lessor.journal import Commit, LeaseState, Ledger, StepHistory
from lessor.limits import ms
from lessor.messages.action import Observation
from lessor.messages.record import Reconciled
from lessor.messages.reply import ActOutcome, StepState
from lessor.messages.request import Reconcile
from lessor.messages.step import Expectation


@dataclass(frozen=True, slots=True)
class StepView:
    """A step as the journal knows it. `lease` and `sequence` name its last commit."""

    state: StepState
    commit: Commit
    evidence: str | None = None
    by: str | None = None

    @property
    def lease(self) -> str:
        return self.commit.lease

    @property
    def sequence(self) -> int:
        return self.commit.sequence

    @property
    def may_run(self) -> bool:
        """Only what provably did not happen may be committed again."""
        return self.state in (StepState.NOT_SENT, StepState.FAILED)


def view(ledger: Ledger, key: str) -> StepView | None:
    """The step's state, or None when its key was never committed (`no_record`, never `not_sent`)."""
    history = ledger.steps.get(key)
    if history is None or not history.commits:
        return None
    commit = history.commits[-1]
    plain = StepView(_of_outcome(commit.act.outcome), commit)
    verdict = _counting_verdict(history)
    if verdict is None:
        return plain
    return StepView(after(plain, verdict.verdict), commit, verdict.evidence, verdict.by)


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


def blocked_by(ledger: Ledger, key: str) -> tuple[str, ...]:
    """Steps that this one depends on and that are not done: it must not commit before them."""
    history = ledger.steps.get(key)
    if history is None or history.declared is None:
        return ()
    return not_done(ledger, history.declared.desired.depends)


def not_done(ledger: Ledger, keys: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(key for key in keys if not _done(ledger, key))


def _done(ledger: Ledger, key: str) -> bool:
    """SUCCEEDED; or dispatched with no evidence declared, which is all that will ever be known; or without effects."""
    history = ledger.steps.get(key)
    declared = history.declared.desired if history is not None and history.declared is not None else None
    if declared is not None and not declared.effects:
        return True
    step = view(ledger, key)
    if step is None:
        return False
    if step.state is StepState.DISPATCHED:
        return declared is None or not declared.evidence
    return step.state is StepState.SUCCEEDED


def shown(ledger: Ledger, key: str | None, page: Observation) -> Reconciled | None:
    """The verdict that a page gives on a step just committed on it, where the step declared what to expect."""
    history = ledger.steps.get(key) if key is not None else None
    if key is None or history is None or history.declared is None:
        return None
    expect = history.declared.desired.expect
    if expect is None or not _meets(page, expect):
        return None
    return Reconciled(
        request_key=key,
        verdict="succeeded",
        evidence=f"the page shows what the step expects: {' and '.join(filter(None, (expect.url, expect.text)))!r}",
        by="the profile's owner",
        counted=True,
        how="expectation",
        run=history.declared.run,
    )


def _meets(page: Observation, expect: Expectation) -> bool:
    address = page.url.split("?", 1)[0].split("#", 1)[0]
    return bool(expect.url or expect.text) and address.startswith(expect.url) and expect.text in page.text


def awaiting(ledger: Ledger, held: LeaseState, *states: StepState) -> str | None:
    """The key of the lease's last commit, while its step is in one of these states: what a page may still prove."""
    commit = held.commits[-1] if held.commits else None
    intent = commit.act.intent if commit is not None else None
    key = intent.request_key if intent is not None else None
    step = view(ledger, key) if key is not None else None
    return key if step is not None and step.commit is commit and step.state in states else None


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
    if found.verdict == "succeeded" or _refuses_twice(ledger, found.request_key):
        return Weighed(True)
    settle_ms = ms(ledger.profile.settle_s)
    gone_ms = page_gone_ms(ledger, step.commit, boot)
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


def _refuses_twice(ledger: Ledger, key: str) -> bool:
    """Whether the target itself refuses a second use of the key: said of the profile, or of the step."""
    assert ledger.profile is not None
    history = ledger.steps.get(key)
    declared = history.declared if history is not None else None
    return ledger.profile.idempotent_target or (declared is not None and declared.desired.idempotent)


def page_gone_ms(ledger: Ledger, tried: Commit | LeaseState, boot: str) -> int | None:
    """When the page that tried was confirmed gone, on the clock of `boot`; None while it may still send.

    What another boot confirmed happened, at the latest, before this boot's first entry.
    """
    closed = tried.closed if isinstance(tried, Commit) else tried.phase == "closed"
    if not closed or tried.gone_ms is None:
        return None
    return tried.gone_ms if tried.gone_boot == boot else ledger.boot_ms
