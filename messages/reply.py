"""What owners answer. Replies ignore unknown fields on decoding, so a rolling upgrade works."""

from enum import StrEnum
from typing import Literal

import msgspec

from lessor.errors import Effect, OpenDialog, Problem
from lessor.messages.action import Artifact, Observation, PageView, TabView
from lessor.messages.health import HealthCheck
from lessor.messages.policy import PagePolicy
from lessor.messages.run import RunRecord
from lessor.messages.step import StepRecord, StepState

__all__ = ["StepState"]  # part of what is answered


class LeaseView(msgspec.Struct, frozen=True, kw_only=True):
    """What every reply to the holder carries. `route` is opaque: put the verb behind it and publish there."""

    route: str
    host: str
    """Where the worker's renewal tick for this lease goes."""
    lease: str
    claim: int
    next_sequence: int
    expires_in_s: float
    clock_ms: int
    """The owner's CLOCK_BOOTTIME when it answered."""


class Reply(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", omit_defaults=True):
    """Base of all answers. `v` and `effect` are always sent: only a plain default is left out, a factory's is not."""

    v: int = msgspec.field(default_factory=lambda: 1)
    effect: Effect = msgspec.field(default_factory=lambda: Effect.NONE)
    lease: LeaseView | None = None


class Refused(Reply, frozen=True, kw_only=True, tag="refused"):
    """Any answer that is not what was asked for: refusal, progress, unknown outcome."""

    error: Problem


class Granted(Reply, frozen=True, kw_only=True, tag="granted"):
    reattached: bool = False
    generation: int = 0
    """Sealed generation the browser was started from; 0 is a fresh one."""


class Renewed(Reply, frozen=True, kw_only=True, tag="renewed"):
    pass


class Receipt(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How a lease ended: a sealed generation, discarded, or kept because the run still needs the page."""

    kind: Literal["sealed", "discarded", "seal_failed"]
    reason: str
    generation: int | None = None
    aside: int | None = None
    """Of `seal_failed`: the state failed the health check and lies aside as this generation, which is not current."""


class Closed(Reply, frozen=True, kw_only=True, tag="closed"):
    receipt: Receipt


class Navigated(Reply, frozen=True, kw_only=True, tag="navigated"):
    page: PageView


class Observed(Reply, frozen=True, kw_only=True, tag="observed"):
    page: Observation


class Acted(Reply, frozen=True, kw_only=True, tag="acted"):
    """The act was applied: its input reached the page."""

    sequence: int
    recorded: bool = False
    """True when this is the recorded answer to a repeat: no page comes with it."""
    changed: bool = False
    """Something other than the target had changed since the revision."""
    step: StepState | None = None
    """Of a step's commit: SUCCEEDED when the settled page showed what the step expects."""
    page: Observation | None = None


class DialogAnswered(Reply, frozen=True, kw_only=True, tag="dialog_answered"):
    """The dialog is closed as was asked. What follows from it shows in the next observation."""

    dialog: OpenDialog
    accepted: bool


class ArtifactTold(Reply, frozen=True, kw_only=True, tag="artifact"):
    """Files, or a piece of one: `data` is base64 in JSON, 256 KiB at most, from `offset` on."""

    artifacts: tuple[Artifact, ...]
    data: bytes = b""
    offset: int = 0


class TabsTold(Reply, frozen=True, kw_only=True, tag="tabs"):
    """By name. `popup-N` are what pages opened."""

    tabs: tuple[TabView, ...]


class ActOutcome(StrEnum):
    """What became of one act."""

    APPLIED = "applied"
    NOT_SENT = "not_sent"
    UNKNOWN = "unknown"


class OutcomeTold(Reply, frozen=True, kw_only=True, tag="outcome"):
    """The recorded truth. `by_lease` and `sequence` name the act; `step` is set for a request key."""

    outcome: ActOutcome
    by_lease: str
    sequence: int
    dispatched_ms: int | None = None
    step: StepState | None = None
    evidence: str | None = None
    lease_live: bool = False
    page_gone_ms: int | None = None
    """When the page that tried was confirmed gone, on the owner's clock."""
    settle_s: float | None = None
    """How long after that a look-up's `not_sent` begins to count."""
    clock_ms: int = 0


class Cancelled(Reply, frozen=True, kw_only=True, tag="cancelled"):
    found: bool


class Reconciled(Reply, frozen=True, kw_only=True, tag="reconciled"):
    step: StepState
    counted: bool
    """False when the verdict was recorded as `still_unknown` because it came too early."""
    retry_after_s: float | None = None


class StepTold(Reply, frozen=True, kw_only=True, tag="step"):
    """A step as it is on record now."""

    step: StepRecord


class StepsTold(Reply, frozen=True, kw_only=True, tag="steps"):
    """`total` counts what matched, listed or not; ask again with `skip` for the rest."""

    steps: tuple[StepRecord, ...]
    total: int
    settle_s: float
    clock_ms: int


class HolderView(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The lease as others may see it."""

    run: str
    attempt: int
    worker: str
    state: str
    since: str
    expires_at: str
    expires_in_s: float
    next_sequence: int
    page_url: str | None = None
    busy: str | None = None
    """The operation under way."""


class StatusTold(Reply, frozen=True, kw_only=True, tag="status"):
    profile: str
    host: str
    epoch: int
    generation: int
    clock_ms: int
    holder: HolderView | None = None
    queue: tuple[str, ...] = ()


class ProfileTold(Reply, frozen=True, kw_only=True, tag="profile"):
    profile: str
    principal: str
    origins: tuple[str, ...]
    state: str
    generation: int
    settle_s: float
    strict: bool = False
    idempotent_target: bool = False
    policy: PagePolicy = PagePolicy()
    leased_by: str | None = None
    health: HealthCheck | None = None
    why: str | None = None
    """What the last health check found, where the state is not `ready`."""
    approve: tuple[str, ...] = ()
    """Kinds of act that need an approval."""


class GenerationView(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A sealed generation that is kept. `object` is its name in the store."""

    generation: int
    base: int
    source: str
    key_id: str
    size: int
    object: str
    sha256: str
    origins: tuple[str, ...]
    provider: str = "chromium"
    current: bool = False
    unhealthy: bool = False


class GenerationsTold(Reply, frozen=True, kw_only=True, tag="generations"):
    """Newest first. `next` is the number that the next seal gets, `epoch` belongs into its object's name."""

    epoch: int
    next: int
    generations: tuple[GenerationView, ...]


class CeremonyTold(Reply, frozen=True, kw_only=True, tag="ceremony"):
    """How long the ceremony is still open; 0: it has ended."""

    left_s: float


class Listed(Reply, frozen=True, kw_only=True, tag="listed"):
    profiles: tuple[str, ...]
    active: tuple[str, ...] = ()
    """Those that a host owns just now: only they can be leased."""


class RunTold(Reply, frozen=True, kw_only=True, tag="run"):
    run: str
    revision: int
    record: RunRecord


class RunsListed(Reply, frozen=True, kw_only=True, tag="runs_listed"):
    """The newest change first. Approvals and grants are in `show`'s answer."""

    runs: tuple[RunTold, ...]
    more: bool = False


class RenewalException(msgspec.Struct, frozen=True, kw_only=True):
    lease: str
    error: Problem


class RenewedAll(Reply, frozen=True, kw_only=True, tag="renewed_all"):
    clock_ms: int
    exceptions: tuple[RenewalException, ...] = ()


AnyReply = (
    Refused
    | Granted
    | Renewed
    | Closed
    | Navigated
    | Observed
    | Acted
    | DialogAnswered
    | TabsTold
    | ArtifactTold
    | OutcomeTold
    | Cancelled
    | Reconciled
    | StepTold
    | StepsTold
    | StatusTold
    | ProfileTold
    | GenerationsTold
    | CeremonyTold
    | Listed
    | RunTold
    | RunsListed
    | RenewedAll
)
