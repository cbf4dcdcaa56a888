"""What each record means: fold a profile's journal into the state the rules decide on. Pure.

The owner's actor folds every entry it has had acknowledged; nothing else is remembered over a
restart. Entries of a superseded epoch never appear: the chain refused them.
"""

from dataclasses import dataclass, field
from typing import Literal, assert_never

from lessor.messages.record import (
    Activated,
    AnyRecord,
    ArtifactKept,
    ArtifactsDropped,
    Attached,
    Checkpointed,
    DialogDecided,
    Dispatched,
    Entry,
    Evidence,
    Intent,
    LeaseClosed,
    LeaseClosing,
    LeaseGranted,
    LeaseRenewed,
    Outcome,
    ProfileChanged,
    Read,
    Reconciled,
    Rewrapped,
    Scope,
    SealCommitted,
    Skipped,
    StepDeclared,
)
from lessor.messages.reply import ActOutcome

LEASES_KEPT = 1000
GENERATIONS_KEPT = 10


@dataclass(slots=True)
class ActState:
    """One number of a lease: an intent with its outcome, or a skip."""

    intent: Intent | None
    outcome: ActOutcome | None = None
    dispatched_ms: int | None = None
    why: str | None = None

    @property
    def open(self) -> bool:
        return self.outcome is None


@dataclass(slots=True)
class Commit:
    """One try of a step. It outlives its lease's place in the ledger: what is open is never forgotten."""

    lease: str
    sequence: int
    act: ActState
    gone_ms: int | None = None
    gone_boot: str | None = None
    closed: bool = False


@dataclass(slots=True)
class LeaseState:
    """A lease as the journal tells it. Times are ms on the boot clock of `boot`."""

    id: str
    scope: Scope
    claim: int
    worker: str
    boot: str
    granted_ms: int
    expires_ms: int
    cap_ms: int
    deadline_unix_ms: int
    base: int
    instance: str
    target: str
    host: str = ""
    """Where its browser runs."""
    phase: Literal["live", "closing", "closed"] = "live"
    reason: str | None = None
    seal: bool = False
    seal_by_ms: int = 0
    generation: int | None = None
    aside: int | None = None
    """The generation its state was stored as when the health check failed."""
    receipt: Literal["sealed", "discarded", "seal_failed"] | None = None
    gone_ms: int | None = None
    gone_boot: str | None = None
    acts: dict[int, ActState] = field(default_factory=dict[int, ActState])
    commits: list[Commit] = field(default_factory=list[Commit])

    @property
    def next_sequence(self) -> int:
        return len(self.acts) + 1

    @property
    def open_act(self) -> int | None:
        """The one sequence whose intent has no outcome yet; acts are strictly one at a time."""
        intended = (number for number in reversed(self.acts) if self.acts[number].intent is not None)
        last = next(intended, None)
        return last if last is not None and self.acts[last].open else None

    def live_at(self, now_ms: int) -> bool:
        return self.phase == "live" and now_ms < self.expires_ms


@dataclass(slots=True)
class StepHistory:
    """Everything under one request key, in journal order."""

    commits: list[Commit] = field(default_factory=list[Commit])
    verdicts: list[tuple[int, Reconciled]] = field(default_factory=list[tuple[int, Reconciled]])
    """Each with the number of commits it came after."""
    declared: StepDeclared | None = None
    checkpoints: list[tuple[int, Checkpointed]] = field(default_factory=list[tuple[int, Checkpointed]])
    """Each with the time of its entry."""

    @property
    def name(self) -> str:
        """Its step's name, for people."""
        if self.declared is not None:
            return self.declared.step
        intent = self.commits[-1].act.intent if self.commits else None
        return (intent.step if intent is not None else None) or "?"


@dataclass(slots=True)
class Generation:
    """One sealed state. `epoch` and `at_ms` are those of its record."""

    number: int
    object: str
    sha256: str
    size: int
    key_id: str
    epoch: int
    origins: tuple[str, ...]
    """What the object was authenticated with, whatever the profile may visit by now."""
    base: int
    source: str
    unhealthy: bool
    boot: str
    at_ms: int


@dataclass(slots=True)
class Ledger:
    """The folded journal of one profile."""

    epoch: int = 0
    last: int = 0
    boot: str = ""
    boot_ms: int = 0
    """When this boot's clock began to stamp the chain: what an earlier boot recorded lies before it."""
    host: str = ""
    """Who activated last."""
    tail: str = ""
    """sha256 of the last entry as it is stored: what the next one names. Kept by whoever reads or appends."""
    profile: ProfileChanged | None = None
    lease: LeaseState | None = None
    """The latest lease, in whatever phase."""
    leases: dict[str, LeaseState] = field(default_factory=dict[str, LeaseState])
    """The latest `LEASES_KEPT`, the current one included."""
    steps: dict[str, StepHistory] = field(default_factory=dict[str, StepHistory])
    generations: list[Generation] = field(default_factory=list[Generation])
    artifacts: dict[str, ArtifactKept] = field(default_factory=dict[str, ArtifactKept])

    @property
    def current(self) -> Generation | None:
        """What a browser starts from: the last generation that is not unhealthy."""
        return next((sealed for sealed in reversed(self.generations) if not sealed.unhealthy), None)

    @property
    def generation(self) -> int:
        """The number of the current one; 0: nothing was sealed yet."""
        current = self.current
        return current.number if current is not None else 0

    @property
    def next_generation(self) -> int:
        return self.generations[-1].number + 1 if self.generations else 1

    @property
    def kept(self) -> tuple[Generation, ...]:
        """The generations whose objects stay: the latest ones, and the current one however old (contract 25)."""
        current, latest = self.current, self.generations[-GENERATIONS_KEPT:]
        older = current is not None and all(sealed.number != current.number for sealed in latest)
        return (current, *latest) if current is not None and older else tuple(latest)

    def act_of(self, lease: str, sequence: int) -> ActState | None:
        held = self.leases.get(lease)
        return held.acts.get(sequence) if held else None


def fold(ledger: Ledger, sequence: int, entry: Entry) -> None:
    """Apply one acknowledged entry, in place: the ledger belongs to whoever folds."""
    assert sequence > ledger.last, (sequence, ledger.last)
    assert entry.epoch >= ledger.epoch, (entry.epoch, ledger.epoch)
    ledger.epoch, ledger.last = entry.epoch, sequence
    if entry.boot != ledger.boot:
        ledger.boot, ledger.boot_ms = entry.boot, entry.at_ms
    for record in entry.records:
        _apply(ledger, entry, record)


def _apply(ledger: Ledger, entry: Entry, record: AnyRecord) -> None:  # noqa: PLR0915 -- a case per record
    match record:
        case ProfileChanged():
            ledger.profile = record
        case LeaseGranted():
            _grant(ledger, entry, record)
        case Attached(lease=lease, claim=claim, worker=worker):
            held = _lease(ledger, lease)
            held.claim, held.worker = claim, worker
        case LeaseRenewed(lease=lease, expires_ms=expires_ms):
            _lease(ledger, lease).expires_ms = expires_ms
        case Intent():
            _intend(ledger, record)
        case Skipped(lease=lease, sequence=number):
            _number(_lease(ledger, lease), number, ActState(None, ActOutcome.NOT_SENT, why="skipped"))
        case Dispatched(lease=lease, sequence=number, dispatched_ms=dispatched_ms):
            _lease(ledger, lease).acts[number].dispatched_ms = dispatched_ms
        case Outcome():
            act = _lease(ledger, record.lease).acts[record.sequence]
            assert act.open, record
            act.outcome, act.why = record.outcome, record.why
            act.dispatched_ms = record.dispatched_ms or act.dispatched_ms
        case Reconciled(request_key=key):
            history = ledger.steps.setdefault(key, StepHistory())
            history.verdicts.append((len(history.commits), record))
        case StepDeclared(request_key=key):
            ledger.steps.setdefault(key, StepHistory()).declared = record
        case Checkpointed(request_key=key):
            ledger.steps.setdefault(key, StepHistory()).checkpoints.append((entry.at_ms, record))
        case LeaseClosing():
            held = _lease(ledger, record.lease)
            held.phase, held.reason = "closing", record.reason
            held.seal, held.seal_by_ms = record.seal, record.seal_by_ms
        case SealCommitted():
            _seal(ledger, entry, record)
        case LeaseClosed():
            _close(ledger, entry, record)
        case Rewrapped():
            _rewrap(ledger, record)
        case Activated(host=host):
            ledger.host = host
        case ArtifactKept(artifact=artifact):
            ledger.artifacts[artifact.id] = record
        case ArtifactsDropped(artifacts=dropped):
            for name in dropped:
                ledger.artifacts.pop(name, None)
        case Read() | DialogDecided() | Evidence():
            pass
        case _:
            assert_never(record)


def _grant(ledger: Ledger, entry: Entry, record: LeaseGranted) -> None:
    assert ledger.lease is None or ledger.lease.phase == "closed", ledger.lease
    ledger.lease = LeaseState(
        id=record.lease,
        scope=record.scope,
        claim=record.claim,
        worker=record.worker,
        boot=entry.boot,
        granted_ms=record.granted_ms,
        expires_ms=record.expires_ms,
        cap_ms=record.cap_ms,
        deadline_unix_ms=record.deadline_unix_ms,
        base=record.base,
        instance=record.instance,
        target=record.target,
        host=ledger.host,
    )
    ledger.leases[record.lease] = ledger.lease
    while len(ledger.leases) > LEASES_KEPT:
        del ledger.leases[next(iter(ledger.leases))]


def _lease(ledger: Ledger, lease: str) -> LeaseState:
    held = ledger.lease
    assert held is not None, lease
    assert held.id == lease, (held.id, lease)
    return held


def _number(held: LeaseState, number: int, act: ActState) -> None:
    assert number == held.next_sequence, (number, held.next_sequence)
    held.acts[number] = act


def _intend(ledger: Ledger, record: Intent) -> None:
    held = _lease(ledger, record.lease)
    assert held.open_act is None, "one act at a time"
    _number(held, record.sequence, ActState(record))
    if record.request_key is not None:
        history = ledger.steps.setdefault(record.request_key, StepHistory())
        commit = Commit(record.lease, record.sequence, held.acts[record.sequence])
        history.commits.append(commit)
        held.commits.append(commit)


def _close(ledger: Ledger, entry: Entry, record: LeaseClosed) -> None:
    held = _lease(ledger, record.lease)
    held.phase, held.reason, held.receipt = "closed", record.reason, record.receipt
    held.gone_ms, held.gone_boot = record.gone_ms, entry.boot
    for commit in held.commits:
        commit.gone_ms, commit.gone_boot, commit.closed = record.gone_ms, entry.boot, True


def _seal(ledger: Ledger, entry: Entry, record: SealCommitted) -> None:
    assert record.generation == ledger.next_generation, record
    origins = record.origins or (ledger.profile.origins if ledger.profile is not None else ())
    ledger.generations.append(
        Generation(
            number=record.generation,
            object=record.object,
            sha256=record.sha256,
            size=record.size,
            key_id=record.key_id,
            epoch=entry.epoch,
            origins=origins,
            base=record.base,
            source=record.source,
            unhealthy=record.unhealthy,
            boot=entry.boot,
            at_ms=entry.at_ms,
        )
    )
    if record.lease is not None:
        held = _lease(ledger, record.lease)
        if record.unhealthy:
            held.aside = record.generation
        else:
            held.generation = record.generation


def _rewrap(ledger: Ledger, record: Rewrapped) -> None:
    sealed = next(sealed for sealed in ledger.generations if sealed.number == record.generation)
    sealed.object, sealed.sha256, sealed.size = record.object, record.sha256, record.size
    sealed.key_id = record.key_id
