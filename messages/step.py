"""Steps as they are declared and as they are known: what is wanted and what was seen, apart (contract, Steps)."""

from enum import StrEnum
from typing import Annotated, Literal

import msgspec

from lessor.messages.ids import Name, RequestKey, StepId

CHECKPOINTS_MAX = 64
"""Of one step."""

Described = Annotated[str, msgspec.Meta(max_length=1024)]
Digest = Annotated[str, msgspec.Meta(pattern=r"^(?:[0-9a-f]{64})?\Z")]
Way = Literal["expectation", "look-up", "person"]
"""How a step says that its effect will be found."""


class StepState(StrEnum):
    """What is known about a step (contract, Steps)."""

    INTENDED = "INTENDED"
    DISPATCHED = "DISPATCHED"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    NOT_SENT = "NOT_SENT"
    UNKNOWN = "UNKNOWN"


class Expectation(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """What the settled page shows when the effect has happened; everything that is given must be there, and
    nothing given is never met.

    It must not be there before: name the request key, an invoice's number, or the address of a confirmation.
    """

    url: Annotated[str, msgspec.Meta(max_length=1024)] = ""
    """The page's address begins with it, queries aside."""
    text: Annotated[str, msgspec.Meta(max_length=512)] = ""
    """Stands in the page's readable text."""


class Desired(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """What a step is to bring about. Values stay with the worker: the payload is known by its hash."""

    target: Described = ""
    """What it acts on, in words or as an address; queries are cut off."""
    payload_hash: Digest = ""
    """sha256, in hex, of what the step submits. The same step never commits another payload."""
    kind: Name = "step"
    """Finds the reconciler that is registered for it."""
    evidence: Annotated[tuple[Way, ...], msgspec.Meta(max_length=3)] = ()
    """Empty: it stays DISPATCHED once committed, is listed as done but unverified, and is not run again."""
    expect: Expectation | None = None
    effects: bool = True
    """False: it may be repeated freely, and its acts carry no request key."""
    idempotent: bool = False
    """The target itself refuses a second use of the request key: lifts the waits on a look-up's `not_sent`."""
    depends: Annotated[tuple[RequestKey, ...], msgspec.Meta(max_length=64)] = ()
    """Request keys of steps that must be done before this one commits."""


class CheckpointView(msgspec.Struct, frozen=True, kw_only=True):
    """A fact on the way."""

    name: str
    fact: str
    at_ms: int


class StepRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A step: what is wanted, and what is known of it."""

    request_key: RequestKey
    task: StepId
    step: StepId
    run: str = ""
    desired: Desired = Desired()
    state: StepState | None = None
    """None: its commit was never tried."""
    verified: bool = False
    """Whether the state rests on evidence, not only on an act's outcome."""
    evidence: str | None = None
    by: str | None = None
    lease: str | None = None
    sequence: int | None = None
    commits: int = 0
    looks: int = 0
    """Verdicts on the last commit, those that did not count included."""
    checkpoints: tuple[CheckpointView, ...] = ()
    """The latest ones, oldest first."""
    blocked_by: tuple[RequestKey, ...] = ()
    """Steps that it depends on and that are not done."""
    lease_live: bool = False
    page_gone_ms: int | None = None

    @property
    def open(self) -> bool:
        """Whether somebody has to look before anything rests on it: UNKNOWN, or DISPATCHED with evidence declared."""
        if self.state is StepState.DISPATCHED:
            return bool(self.desired.evidence)
        return self.state is StepState.UNKNOWN

    @property
    def unverified(self) -> bool:
        return self.state is StepState.DISPATCHED
