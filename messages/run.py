"""The run record: what a run is doing, and which worker may say so (contract 16, 17)."""

from enum import StrEnum
from typing import Annotated

import msgspec

from lessor.messages.ids import Attempt, Claim, Id, Name, Origin

UnixMs = Annotated[int, msgspec.Meta(ge=0, le=2**53)]
Question = Annotated[str, msgspec.Meta(min_length=1, max_length=500)]
APPROVALS_MAX = 32
"""Kept in a run record; the oldest answered ones give way."""
GRANTS_MAX = 32


class RunStatus(StrEnum):
    """Where a run stands. Only the first three need the page (contract 16)."""

    RUNNING = "running"
    QUEUED = "queued"
    PARKED = "parked"
    """Waits for an answer to an approval."""
    WAITING_USER = "waiting_user"
    WAITING_CHILD = "waiting_child"
    FINISHED = "finished"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def needs_page(self) -> bool:
        """Whether it can need the page; of `parked` the run's approvals say whether it does."""
        return self in (RunStatus.RUNNING, RunStatus.QUEUED, RunStatus.PARKED)

    @property
    def ended(self) -> bool:
        return self in (RunStatus.FINISHED, RunStatus.FAILED, RunStatus.CANCELLED)


class ApprovalState(StrEnum):
    PENDING = "pending"
    APPROVED = "approved"
    REJECTED = "rejected"


class Approval(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A question to the run's owner (contract 20). One about an act pins payload, target, lease and sequence.

    `until_ms` is on the clock of the profile's owner (`boot`), which alone judges an act by it; the wall clock's
    `until_unix_ms` decides until when an answer is taken.
    """

    id: Id
    question: Question
    state: ApprovalState = ApprovalState.PENDING
    asked_unix_ms: UnixMs
    until_unix_ms: UnixMs
    profile: Name | None = None
    lease: Id | None = None
    sequence: int | None = None
    payload_hash: str | None = None
    target_fingerprint: str | None = None
    boot: str | None = None
    until_ms: int | None = None
    answered_by: str | None = None


class Constraint(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Acts granted in advance: of these kinds, on pages of these origins, until `expires_unix_ms` (contract 20)."""

    origins: Annotated[tuple[Origin, ...], msgspec.Meta(min_length=1, max_length=64)]
    kinds: Annotated[tuple[Name, ...], msgspec.Meta(min_length=1, max_length=16)]
    expires_unix_ms: UnixMs


class RunRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One run, changed only by compare-and-set. `deadline_unix_ms` is wall clock; the owner converts it once."""

    v: int = 1
    principal: Name
    status: RunStatus
    attempt: Attempt
    deadline_unix_ms: int
    claim: Claim
    holder: Id | None = None
    worker: Name | None = None
    parent: Name | None = None
    """The run that waits for this one, where there is one."""
    approvals: tuple[Approval, ...] = ()
    grants: tuple[Constraint, ...] = ()

    @property
    def needs_page(self) -> bool:
        """Running, queued to resume, or parked on an approval of its own (contract 16)."""
        if self.status is RunStatus.PARKED:
            return any(approval.state is ApprovalState.PENDING for approval in self.approvals)
        return self.status.needs_page


class RunReading(msgspec.Struct, frozen=True, kw_only=True):
    """A run record as read: `revision` is its stream sequence, `record` None means it does not exist."""

    run: Name
    revision: int
    record: RunRecord | None
    read_ms: int
    """When it was read, on the reader's boot clock."""
