"""What the journal remembers. Readers ignore unknown fields; an unknown record kind means "not mine to own".

One journal message is an `Entry`: one or more records that became true together, stamped with the
epoch they were written under, a nonce that no other entry has, and the owner's boot clock. The
entry of an `own` subject is an `Own`; its stream sequence is the epoch.
"""

from typing import Literal

import msgspec

from lessor.messages.action import Artifact
from lessor.messages.health import HealthCheck
from lessor.messages.ids import Name
from lessor.messages.policy import PagePolicy
from lessor.messages.reply import ActOutcome
from lessor.messages.step import Desired


class Record(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", omit_defaults=True):
    """A past event of one profile."""


class Scope(msgspec.Struct, frozen=True, kw_only=True):
    """What makes two acquires the same (contract 1)."""

    tenant: Name
    principal: Name
    profile: Name
    provider: Name
    run: Name
    attempt: int


class Activated(Record, frozen=True, kw_only=True, tag="activated"):
    """An owner took the profile. `settled` intents of earlier epochs follow as `Outcome`s in the same entry."""

    host: str
    incarnation: str
    boot: str


class ProfileChanged(Record, frozen=True, kw_only=True, tag="profile_changed"):
    """The profile's settings from here on. `state` is `ready`, `authentication_required`, `needs_user`, `revoked`, or
    `deleted`: then its objects are gone, and its name is not given again."""

    principal: str
    origins: tuple[str, ...]
    settle_s: float
    idempotent_target: bool = False
    strict: bool = False
    state: str = "ready"
    policy: PagePolicy = PagePolicy()
    health: HealthCheck | None = None
    why: str | None = None
    """What the last health check found, where the state is not `ready`."""
    approve: tuple[str, ...] = ()


class LeaseGranted(Record, frozen=True, kw_only=True, tag="lease_granted"):
    """All times in ms on the owner's boot clock. `base` is the sealed generation the browser started from."""

    lease: str
    scope: Scope
    claim: int
    worker: str
    granted_ms: int
    expires_ms: int
    cap_ms: int
    """Grant + 60 min or the run's deadline, the earlier."""
    base: int
    instance: str
    """The browser's keeper: where its state file lies, below the host's live directory."""
    target: str
    """The main tab's target id, by which a restarted host finds it again."""
    run_revision: int
    deadline_unix_ms: int


class Attached(Record, frozen=True, kw_only=True, tag="attached"):
    """A higher claim of the same run took the lease over; the earlier worker is fenced (contract 1)."""

    lease: str
    claim: int
    worker: str
    run_revision: int


class LeaseRenewed(Record, frozen=True, kw_only=True, tag="lease_renewed"):
    lease: str
    expires_ms: int


class Intent(Record, frozen=True, kw_only=True, tag="intent"):
    """On disk before the side effect. A page-touching act is named by lease and sequence."""

    lease: str
    claim: int
    run: str
    attempt: int
    sequence: int
    tab: str
    do: str
    target: str
    """Normalised: role and name, never a value."""
    target_fingerprint: str
    payload_hash: str
    task: str | None = None
    step: str | None = None
    request_key: str | None = None
    policy: int = 1
    approval: str | None = None
    """The approval that it rests on, when one was needed."""


class Dispatched(Record, frozen=True, kw_only=True, tag="dispatched"):
    """Written when the page has not answered 250 ms after the input went out."""

    lease: str
    sequence: int
    dispatched_ms: int


class Outcome(Record, frozen=True, kw_only=True, tag="outcome"):
    lease: str
    sequence: int
    outcome: ActOutcome
    dispatched_ms: int | None = None
    why: str | None = None


class Skipped(Record, frozen=True, kw_only=True, tag="skipped"):
    """The number was asked about before it was used: it is consumed, and the act can never run (contract 11)."""

    lease: str
    sequence: int


class Read(Record, frozen=True, kw_only=True, tag="read"):
    """Audit of navigate and observe; decides nothing."""

    lease: str
    claim: int
    do: Literal["navigate", "observe"]
    tab: str
    url: str


class ArtifactKept(Record, frozen=True, kw_only=True, tag="artifact_kept"):
    """A file of a lease lies encrypted in the store, until 24 h after the run's deadline."""

    lease: str
    artifact: Artifact
    object: str
    object_sha256: str
    key_id: str
    kept_until_unix_ms: int


class ArtifactsDropped(Record, frozen=True, kw_only=True, tag="artifacts_dropped"):
    """Their time is over; the objects are deleted after this."""

    artifacts: tuple[str, ...]


class DialogDecided(Record, frozen=True, kw_only=True, tag="dialog_decided"):
    """Audit of an answer to a dialog, on disk before it is given; what it leads to belongs to the act that waits."""

    lease: str
    claim: int
    dialog: str
    accept: bool


class Reconciled(Record, frozen=True, kw_only=True, tag="reconciled"):
    """A verdict on a step whose outcome was not a fact. `counted` False keeps the step as it was."""

    request_key: str
    verdict: Literal["succeeded", "not_sent", "still_unknown"]
    evidence: str
    by: str
    counted: bool
    how: str = ""
    looked_up_ms: int | None = None
    run: str = ""


class StepDeclared(Record, frozen=True, kw_only=True, tag="step_declared"):
    """What a step is to bring about, by the worker that is going to do it."""

    request_key: str
    task: str
    step: str
    run: str
    claim: int
    desired: Desired


class Checkpointed(Record, frozen=True, kw_only=True, tag="checkpointed"):
    """A fact on the way of a step, as its worker saw it."""

    request_key: str
    run: str
    claim: int
    name: str
    fact: str


class LeaseClosing(Record, frozen=True, kw_only=True, tag="lease_closing"):
    """Admission has stopped. A closing lease does not expire; a seal must be committed by `seal_by_ms`."""

    lease: str
    reason: str
    seal: bool
    seal_by_ms: int
    run_revision: int | None = None


class Evidence(Record, frozen=True, kw_only=True, tag="evidence"):
    """The last bounded look at a page that is being retired (contract 13)."""

    lease: str
    url: str
    title: str
    text_sha256: str


class SealCommitted(Record, frozen=True, kw_only=True, tag="seal_committed"):
    """A new immutable generation; the last one of these that is not `unhealthy` is the current state.

    `lease` None: it was made while nobody held the profile, on top of `base`, as `source` says.
    """

    lease: str | None
    generation: int
    base: int
    object: str
    sha256: str
    size: int
    key_id: str
    origins: tuple[str, ...] = ()
    """What it was authenticated with; empty in old records: the profile's origins of that time."""
    source: Literal["lease", "login", "import", "rollback", "check"] = "lease"
    unhealthy: bool = False
    """The health check failed: stored aside, where only a rollback finds it."""


class Rewrapped(Record, frozen=True, kw_only=True, tag="rewrapped"):
    """The state of a generation lies encrypted anew, under another key, in another object."""

    generation: int
    object: str
    sha256: str
    size: int
    key_id: str


class LeaseClosed(Record, frozen=True, kw_only=True, tag="lease_closed"):
    """`gone_ms`: when browser and egress were confirmed gone on the owner's clock; None if nobody could confirm."""

    lease: str
    reason: str
    receipt: Literal["sealed", "discarded", "seal_failed"]
    generation: int | None = None
    gone_ms: int | None = None


AnyRecord = (
    Activated
    | ProfileChanged
    | LeaseGranted
    | Attached
    | LeaseRenewed
    | Intent
    | Dispatched
    | Outcome
    | Skipped
    | Read
    | ArtifactKept
    | ArtifactsDropped
    | DialogDecided
    | Reconciled
    | StepDeclared
    | Checkpointed
    | LeaseClosing
    | Evidence
    | SealCommitted
    | Rewrapped
    | LeaseClosed
)


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """One journal message."""

    v: int = 1
    epoch: int
    nonce: str
    boot: str
    at_ms: int
    records: tuple[AnyRecord, ...]
    unix_ms: int | None = None
    """The wall clock, for people only."""
    prev: str | None = None
    """sha256 of the entry before it as it is stored, "" for the first; None before entries were chained."""


class Own(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Who owns the profile. Written on every activation, release, revoke and quarantine; its sequence is the epoch."""

    v: int = 1
    host: str
    incarnation: str
    nonce: str
    boot: str
    at_ms: int
    state: Literal["active", "released", "revoked", "quarantined", "deleted"]
    """`revoked` stays from owner to owner: whoever activates the profile ends what a revoke left open (contract 26)."""
    principal: Name | None = None
    """Whose profile it is, so that a list needs no replay; the journal's `ProfileChanged` decides."""
    until_unix_ms: int | None = None
    """End of a quarantine."""


class HostSession(msgspec.Struct, frozen=True, kw_only=True):
    """A live host; TTL in the broker, beaten by compare-and-set."""

    v: int = 1
    host: str
    incarnation: str
    nonce: str
    boot: str
    state: Literal["serving", "draining"]
