"""The words of the decision: what can happen to a profile's owner, what it may order, what it keeps in mind.

`Desk` is what the owner knows beyond the journal. It is gone after a crash, and nothing that must
survive one may stand here.
"""

from dataclasses import dataclass
from typing import Literal

from lessor.errors import OpenDialog, Problem
from lessor.findings import Away, NotSent, Paused, Sent, Target
from lessor.journal import Generation
from lessor.limits import Limits
from lessor.messages.action import Artifact, Observation, PageView
from lessor.messages.health import HealthCheck
from lessor.messages.ids import Caller
from lessor.messages.record import AnyRecord, ArtifactKept
from lessor.messages.reply import Reply
from lessor.messages.request import Acquire, Act, Navigate, Observe, ProfileRequest
from lessor.messages.run import Approval, Constraint, RunReading, RunRecord

PageOp = Act | Navigate | Observe
Phase = Literal["aiming", "granting", "intending", "dispatching", "settling", "reading"]


@dataclass(frozen=True, slots=True)
class Asked:
    """A request in hand. `slot` finds its reply slot; `caller` is who the broker says asks."""

    slot: int
    caller: Caller
    request: ProfileRequest
    arrived_ms: int


@dataclass(frozen=True, slots=True)
class Operation:
    """The one page operation under way, and everyone who waits for its answer."""

    asked: Asked
    op: PageOp
    phase: Phase
    until_ms: int
    target: Target | None = None
    joined: tuple[int, ...] = ()
    cancelled: bool = False
    dispatched_ms: int | None = None
    answered: bool = False
    """The caller's deadline came first: it was told `pending`, the operation is still awaited (contract 10)."""
    dispatch_recorded: bool = False
    dialog: OpenDialog | None = None
    """What holds the page: the input is under way and waits for somebody's answer."""
    granted_until_ms: int | None = None
    """When the approval or the grant that it rests on ends."""
    approval: str | None = None

    @property
    def slots(self) -> tuple[int, ...]:
        return (self.asked.slot, *self.joined)

    def repeats(self, op: "PageOp") -> bool:
        """Whether `op` is this operation asked once more: the same id by the same claim."""
        ours = self.op
        return (ours.id, type(ours), ours.lease, ours.claim) == (op.id, type(op), op.lease, op.claim)


@dataclass(frozen=True, slots=True)
class Place:
    """A run that waits for the profile; `asked` is its poll in hand, if any."""

    run: str
    attempt: int
    worker: str
    asked: Asked | None
    answer_by_ms: int
    kept_until_ms: int


@dataclass(frozen=True, slots=True)
class Start:
    """A browser start under way or done, for one scope."""

    acquire: Acquire
    caller: Caller
    instance: str
    deadline_unix_ms: int
    waiters: tuple[Asked, ...]
    started: "Started | None" = None
    hold_until_ms: int = 0


@dataclass(frozen=True, slots=True)
class Remembered:
    """The answer to a finished operation, for who repeats it: same id, kind, lease and claim."""

    id: str
    kind: type[PageOp]
    lease: str
    claim: int
    reply: Reply

    def answers(self, op: PageOp) -> bool:
        return (self.id, self.kind, self.lease, self.claim) == (op.id, type(op), op.lease, op.claim)


@dataclass(frozen=True, slots=True)
class Chore:
    """Work on the sealed state under way; who asked for it."""

    asked: Asked
    until_ms: int


@dataclass(frozen=True, slots=True)
class CeremonyOpen:
    """A person is logging the profile in."""

    id: str
    until_ms: int


Ending = Literal["waiting", "looking", "sealing", "killing", "closing"]


@dataclass(frozen=True, slots=True)
class Desk:
    """An owner's mind between two messages."""

    host: str
    boot: str
    tenant: str
    profile: str
    limits: Limits
    epoch: int
    route: str = ""
    browser: Literal["none", "live", "gone"] = "none"
    keeper_until_ms: int = 0
    page_url: str = ""
    operation: Operation | None = None
    lane: tuple[Asked, ...] = ()
    questions: tuple[Asked, ...] = ()
    """Outcome questions that wait for an admitted act (contract 11)."""
    claim_seen: int = 0
    """The highest claim of the lease's run that a sweep read: lower ones are fenced (contract 17)."""
    start: Start | None = None
    chore: Chore | None = None
    ceremony: CeremonyOpen | None = None
    queue: tuple[Place, ...] = ()
    ending: Ending | None = None
    closers: tuple[Asked, ...] = ()
    seal_tries: int = 0
    retry_ms: int | None = None
    """When a failed seal or an unconfirmed kill is tried again."""
    remembered: tuple[Remembered, ...] = ()
    last_call_ms: int = 0
    """When the lease last admitted a call: a reading of its run older than that is stale (contract 17)."""
    grants_until_ms: tuple[tuple[Constraint, int], ...] = ()
    """Ends of the grants that acts of this lease rested on, put on this clock once."""
    idle_since_ms: int = 0
    draining: bool = False
    """The host is stopping: the lease is sealed and closed, nothing new is granted (contract 24)."""
    passive: bool = False
    """The ownership is being given back; the actor stops afterwards."""

    @property
    def title(self) -> str:
        return f"{self.tenant}/{self.profile}"


# What happened. Requests are `Asked`; the rest are completions of effects, and the clock.


@dataclass(frozen=True, slots=True)
class Alarm:
    """The moment `alarm_ms` asked for has come."""


@dataclass(frozen=True, slots=True)
class RunsRead:
    asked: Asked
    mine: RunReading | Problem
    holder: RunReading | Problem | None


@dataclass(frozen=True, slots=True)
class Started:
    """Answer to `StartBrowser`."""

    instance: str
    target: str
    generation: int
    keeper_until_ms: int


@dataclass(frozen=True, slots=True)
class StartFailed:
    instance: str
    problem: Problem


@dataclass(frozen=True, slots=True)
class GrantLanded:
    pass


@dataclass(frozen=True, slots=True)
class Aimed:
    slot: int
    result: Target | Problem | Away


@dataclass(frozen=True, slots=True)
class GrantRead:
    """Answer to `ReadGrant`."""

    slot: int
    reading: RunReading | Problem


@dataclass(frozen=True, slots=True)
class ApprovalAsked:
    """Answer to `AskApproval`."""

    slot: int
    result: Approval | Problem


@dataclass(frozen=True, slots=True)
class IntentLanded:
    slot: int


@dataclass(frozen=True, slots=True)
class DispatchDone:
    slot: int
    result: Sent | NotSent | Paused | Away


@dataclass(frozen=True, slots=True)
class FileStored:
    """A file of a browser lies in the store."""

    instance: str
    artifact: Artifact
    object: str
    object_sha256: str
    key_id: str


@dataclass(frozen=True, slots=True)
class Tended:
    """Answer to `Tend`."""

    asked: Asked
    result: Reply | Problem | Away


@dataclass(frozen=True, slots=True)
class DialogClosed:
    """Answer to `TellDialog`."""

    asked: Asked
    result: OpenDialog | Problem | Away


@dataclass(frozen=True, slots=True)
class ReadDone:
    """A navigate or observe came back."""

    slot: int
    result: PageView | Observation | Problem | Away


@dataclass(frozen=True, slots=True)
class Looked:
    page: Observation | None


@dataclass(frozen=True, slots=True)
class Sealed:
    object: str
    sha256: str
    size: int
    key_id: str
    unhealthy: str | None = None
    """What the health check found wrong with the state."""


@dataclass(frozen=True, slots=True)
class SealFailed:
    problem: Problem


@dataclass(frozen=True, slots=True)
class SealLanded:
    pass


@dataclass(frozen=True, slots=True)
class Killed:
    """Answer to `KillBrowser`; `gone_ms` None: not confirmed in time."""

    gone_ms: int | None
    instance: str | None = None
    """Which browser; None: the current lease's."""


@dataclass(frozen=True, slots=True)
class ClosingLanded:
    pass


@dataclass(frozen=True, slots=True)
class ClosedLanded:
    pass


@dataclass(frozen=True, slots=True)
class BrowserGone:
    instance: str


@dataclass(frozen=True, slots=True)
class Extended:
    until_ms: int | None


@dataclass(frozen=True, slots=True)
class RunSeen:
    """A run record as a sweep or a report saw it, for the teardown of its lease (contract 17, 21)."""

    reading: RunReading


@dataclass(frozen=True, slots=True)
class TickDue:
    """A worker's renewal tick for its leases here (contract 18)."""


@dataclass(frozen=True, slots=True)
class Drain:
    """The host is stopping."""


@dataclass(frozen=True, slots=True)
class ChoreOver:
    """Answer to `Reseal`, `TryState` and `RemoveObjects`; None: the objects are removed."""

    slot: int
    result: Sealed | Problem | None


@dataclass(frozen=True, slots=True)
class ChoreLanded:
    pass


Event = (
    Asked
    | ChoreOver
    | ChoreLanded
    | Alarm
    | RunsRead
    | Started
    | StartFailed
    | GrantLanded
    | Aimed
    | GrantRead
    | ApprovalAsked
    | IntentLanded
    | DispatchDone
    | DialogClosed
    | Tended
    | FileStored
    | ReadDone
    | Looked
    | Sealed
    | SealFailed
    | SealLanded
    | Killed
    | ClosingLanded
    | ClosedLanded
    | BrowserGone
    | Extended
    | RunSeen
    | TickDue
    | Drain
)

# What the owner orders.


@dataclass(frozen=True, slots=True)
class ReadRuns:
    """Read the asker's run record and, when another run holds the lease, the holder's. Answered by `RunsRead`."""

    asked: Asked
    run: str
    holder: str | None
    create: RunRecord | None = None
    """Write this first when the asker's run has no record (contract 16)."""


@dataclass(frozen=True, slots=True)
class StartBrowser:
    instance: str
    principal: str
    provider: str
    deadline_ms: int


@dataclass(frozen=True, slots=True)
class Aim:
    slot: int
    act: Act
    until_ms: int


@dataclass(frozen=True, slots=True)
class ReadGrant:
    """Read the run's record: what its owner has approved or granted."""

    slot: int
    run: str


@dataclass(frozen=True, slots=True)
class AskApproval:
    """Park the run on this question, if that claim still holds it."""

    slot: int
    run: str
    claim: int
    question: Approval


@dataclass(frozen=True, slots=True)
class Dispatch:
    slot: int
    act: Act
    target: Target
    until_ms: int


@dataclass(frozen=True, slots=True)
class Resume:
    """Wait for the rest of the dispatch that a dialog paused."""

    slot: int
    dialog: str


@dataclass(frozen=True, slots=True)
class ReadFile:
    """Answered by `Tended`."""

    asked: Asked
    kept: ArtifactKept
    instance: str


@dataclass(frozen=True, slots=True)
class DropFiles:
    objects: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Tend:
    """Something beside the page operations."""

    asked: Asked
    until_ms: int


@dataclass(frozen=True, slots=True)
class TellDialog:
    asked: Asked
    until_ms: int


@dataclass(frozen=True, slots=True)
class Visit:
    slot: int
    op: Navigate | Observe
    until_ms: int


@dataclass(frozen=True, slots=True)
class CancelRead:
    pass


@dataclass(frozen=True, slots=True)
class Look:
    until_ms: int


@dataclass(frozen=True, slots=True)
class SealState:
    generation: int
    until_ms: int
    health: HealthCheck | None = None


@dataclass(frozen=True, slots=True)
class KillBrowser:
    instance: str


@dataclass(frozen=True, slots=True)
class Reseal:
    """Open a sealed state, and encrypt it anew as that generation, with today's key."""

    slot: int
    sealed: Generation
    becomes: int


@dataclass(frozen=True, slots=True)
class TryState:
    """Start a browser from a sealed state, run the profile's health check, if any, and seal what it left."""

    slot: int
    instance: str
    generation: int
    """What the object was sealed as; 0: there is none, start fresh."""
    object: str | None
    sha256: str
    origins: tuple[str, ...]
    becomes: int
    until_ms: int


@dataclass(frozen=True, slots=True)
class RemoveObjects:
    """Every sealed object of the profile."""

    slot: int


@dataclass(frozen=True, slots=True)
class SweepObjects:
    """Remove what is not in `keep`, if an older epoch left it or if it is in `old`. Not answered."""

    keep: tuple[str, ...]
    old: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Release:
    """Give the ownership back and stop."""


@dataclass(frozen=True, slots=True)
class Again:
    """Decide this next, right after the append landed: a gate that is checked on the newest state."""

    event: Event


Effect = (
    ReadRuns
    | StartBrowser
    | Aim
    | Dispatch
    | Resume
    | TellDialog
    | Tend
    | ReadFile
    | DropFiles
    | ReadGrant
    | AskApproval
    | Dispatch
    | Visit
    | CancelRead
    | Look
    | SealState
    | KillBrowser
    | Reseal
    | TryState
    | RemoveObjects
    | SweepObjects
    | Release
    | Again
)


@dataclass(frozen=True, slots=True)
class Say:
    """An answer; it leaves only after the verdict's records are on disk (output gate, P8)."""

    slot: int
    reply: Reply


@dataclass(frozen=True, slots=True)
class Verdict:
    """What follows: say `early`, keep `desk`, append `records` as one entry, then answer and perform in order."""

    desk: Desk
    records: tuple[AnyRecord, ...] = ()
    replies: tuple[Say, ...] = ()
    effects: tuple[Effect, ...] = ()
    early: tuple[Say, ...] = ()
    """Answers that rest on nothing in `records`: reads, whose audit may follow them."""


@dataclass(frozen=True, slots=True)
class Now:
    """Time as an argument. `unix_ms` converts a run's deadline once and writes what people read."""

    ms: int
    unix_ms: int
    fresh: str = ""
    """An id nobody else has, for what this decision may create."""
