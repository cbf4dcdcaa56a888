"""The run record: what a run is doing, and which worker may say so (contract 16, 17)."""

from enum import StrEnum

import msgspec

from lessor.messages.ids import Attempt, Claim, Id, Name


class RunStatus(StrEnum):
    """Where a run stands. Only the first three need the page (contract 16)."""

    RUNNING = "running"
    QUEUED = "queued"
    PARKED = "parked"
    """On an approval of its own."""
    WAITING_USER = "waiting_user"
    WAITING_CHILD = "waiting_child"
    FINISHED = "finished"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def needs_page(self) -> bool:
        return self in (RunStatus.RUNNING, RunStatus.QUEUED, RunStatus.PARKED)

    @property
    def ended(self) -> bool:
        return self in (RunStatus.FINISHED, RunStatus.FAILED, RunStatus.CANCELLED)


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


class RunReading(msgspec.Struct, frozen=True, kw_only=True):
    """A run record as read: `revision` is its stream sequence, `record` None means it does not exist."""

    run: Name
    revision: int
    record: RunRecord | None
    read_ms: int
    """When it was read, on the reader's boot clock."""
