"""What workers ask of a profile's owner and of a run. The subject says who asks and about what; the body is here.

Requests refuse unknown fields. A request that touches a page names its one deadline on the owner's
clock (`deadline_ms`, CLOCK_BOOTTIME, from the last reply's `clock_ms` + elapsed + timeout); the
idempotent ones carry only a budget.
"""

from datetime import datetime
from typing import Annotated, Generic, Literal, TypeVar

import msgspec

from lessor.messages.action import AnyAction, Commit, Match, Revision
from lessor.messages.health import HealthCheck
from lessor.messages.ids import (
    Attempt,
    BoottimeMs,
    Claim,
    Id,
    Name,
    Origin,
    RequestKey,
    Sequence,
    StepId,
    Url,
)
from lessor.messages.policy import GivenPolicy
from lessor.messages.reply import (
    Acted,
    ArtifactTold,
    Cancelled,
    CeremonyTold,
    Closed,
    DialogAnswered,
    GenerationsTold,
    Granted,
    Listed,
    Navigated,
    Observed,
    OutcomeTold,
    ProfileTold,
    Reconciled,
    Renewed,
    RenewedAll,
    Reply,
    RunsListed,
    RunTold,
    StatusTold,
    StepsTold,
    StepTold,
    TabsTold,
)
from lessor.messages.run import Constraint, Question, RunStatus
from lessor.messages.step import Described, Desired

R_co = TypeVar("R_co", bound=Reply, covariant=True)
Moment = Annotated[datetime, msgspec.Meta(tz=True)]


class Request(msgspec.Struct, Generic[R_co], frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A question that knows its answer's type. A repeated `id` gets the same answer."""

    id: Id
    budget_s: Annotated[float, msgspec.Meta(gt=0, le=120)] = 10.0
    """How long the caller waits; the receiver drops what it has not begun by then."""


class Acquire(Request[Granted], frozen=True, kw_only=True):
    """Lease the profile for one run attempt (contract 1-6). Safe to repeat: the same scope reattaches."""

    run: Name
    attempt: Attempt = 1
    claim: Claim = 1
    worker: Name
    provider: Name = "chromium"
    horizon_s: Annotated[float, msgspec.Meta(le=86_400)] = 600.0
    wait_s: Annotated[float, msgspec.Meta(ge=0, le=5)] = 0.0
    run_deadline: Moment | None = None
    """Required when the run has no record yet (contract 16)."""


class LeaseRequest(Request[R_co], frozen=True, kw_only=True):
    """Every call names lease and claim, and both are checked again right before dispatch (contract 7)."""

    lease: Id
    claim: Claim


class Renew(LeaseRequest[Renewed], frozen=True, kw_only=True):
    """Move the expiry to now + horizon, never shortening, within the maxima (contract 18, 19)."""

    horizon_s: Annotated[float, msgspec.Meta(le=86_400)] = 900.0


class PageRequest(LeaseRequest[R_co], frozen=True, kw_only=True):
    """A call that touches the page: one deadline on the owner's clock, checked by the receiver."""

    deadline_ms: BoottimeMs


class Close(PageRequest[Closed], frozen=True, kw_only=True):
    """End the lease; seals unless `discard`. Asking again gets the same receipt (contract 21-24)."""

    discard: bool = False


class Navigate(PageRequest[Navigated], frozen=True, kw_only=True):
    """Open a URL in the tab. `sequence` is the next sequence it was issued at (contract 8)."""

    sequence: Sequence
    tab: Name = "main"
    url: Url


class Observe(PageRequest[Observed], frozen=True, kw_only=True):
    """Read the tab."""

    tab: Name = "main"


class Act(PageRequest[Acted], frozen=True, kw_only=True):
    """One input with a side effect, done at most once per lease and sequence (contract 8-11)."""

    sequence: Sequence
    tab: Name = "main"
    revision: Revision
    action: AnyAction
    match: Match = "target"
    step: Commit | None = None
    constraint: Constraint | None = None
    """A grant of the run's record that covers this act instead of an approval (contract 20)."""


class AnswerDialog(PageRequest[DialogAnswered], frozen=True, kw_only=True):
    """Answer the dialog that a call was told of (`dialog_open`). Control lane: the act that opened it may be pending.

    A dialog is answered once; `text` is for prompts."""

    dialog: Id
    accept: bool
    text: Annotated[str, msgspec.Meta(max_length=4096)] = ""


class ShowTabs(PageRequest[TabsTold], frozen=True, kw_only=True):
    """The lease's tabs, after `close` was closed. Tabs are made by naming them in a call. Control lane."""

    close: Name | None = None


class AskOutcome(Request[OutcomeTold], frozen=True, kw_only=True):
    """What happened to an act: by lease and sequence, or by request key (contract 11). Not bound to a live lease."""

    lease: Id | None = None
    claim: Claim | None = None
    sequence: Sequence | None = None
    request_key: RequestKey | None = None


class Cancel(LeaseRequest[Cancelled], frozen=True, kw_only=True):
    """Stop waiting for a request in hand: reads end, an act settles and retires the lease."""

    request: Id


class Reconcile(Request[Reconciled], frozen=True, kw_only=True):
    """Record what a look-up, a confirmation page or a person found out about a step (contract, Steps)."""

    request_key: RequestKey
    verdict: Literal["succeeded", "not_sent", "still_unknown"]
    evidence: Annotated[str, msgspec.Meta(min_length=1, max_length=4096)]
    by: Annotated[str, msgspec.Meta(min_length=1, max_length=200)]
    how: Annotated[str, msgspec.Meta(max_length=40)] = ""
    """Which way it was found out: `http`, `page`, `call`, `person`."""
    looked_up_ms: BoottimeMs | None = None
    """When the look-up was sent, on the owner's clock; a `not_sent` counts only when late enough."""
    run: Name | None = None
    claim: Claim | None = None


class DeclareStep(Request[StepTold], frozen=True, kw_only=True):
    """Put on record what a step is to bring about, before its acts. Safe to repeat; needs no lease.

    Refused once the step was committed with another payload (`action_not_allowed`).
    """

    run: Name
    claim: Claim
    task: StepId
    step: StepId
    desired: Desired = Desired()


class Checkpoint(Request[StepTold], frozen=True, kw_only=True):
    """Put a fact on record that others can verify; at most 64 for a step."""

    run: Name
    claim: Claim
    request_key: RequestKey
    name: Annotated[str, msgspec.Meta(pattern=r"^[a-z0-9][a-z0-9_.-]{0,62}\Z")]
    fact: Described = ""


class ListSteps(Request[StepsTold], frozen=True, kw_only=True):
    """The profile's steps, newest last. `open` are those that somebody must look into, `unverified` those
    that were dispatched and rest on no evidence."""

    run: Name | None = None
    only: Literal["all", "open", "unknown", "unverified"] = "all"
    request_key: RequestKey | None = None
    skip: Annotated[int, msgspec.Meta(ge=0, le=2**53)] = 0
    limit: Annotated[int, msgspec.Meta(ge=1, le=50)] = 50


class AskStatus(Request[StatusTold], frozen=True, kw_only=True):
    """Who holds the profile, until when, and what runs."""


class CreateProfile(Request[ProfileTold], frozen=True, kw_only=True):
    """Make a profile known. Safe to repeat with the same settings."""

    origins: Annotated[tuple[Origin, ...], msgspec.Meta(min_length=1, max_length=64)]
    settle_s: Annotated[float, msgspec.Meta(ge=0, le=3600)] = 30.0
    idempotent_target: bool = False
    """The target refuses a second use of a request key itself: lifts the waits on a look-up's `not_sent`."""
    strict: bool = False
    policy: GivenPolicy = GivenPolicy()
    """Dialogs and whatever else a page asks of its visitor."""
    health: HealthCheck | None = None
    approve: Annotated[tuple[Name, ...], msgspec.Meta(max_length=16)] = ()
    """Kinds of act that need an approval: what `action.do` says, or `commit` for every commit of a step."""


class ShowProfile(Request[ProfileTold], frozen=True, kw_only=True):
    """The profile's settings and generations."""


class RevokeProfile(Request[ProfileTold], frozen=True, kw_only=True):
    """Fence the profile for good: no grant any more, the live lease ends unsealed (contract 26)."""


class DeleteProfile(Request[ProfileTold], frozen=True, kw_only=True):
    """Remove all sealed state of a revoked profile and retire its name (contract 26)."""


class AskGenerations(Request[GenerationsTold], frozen=True, kw_only=True):
    """The sealed generations that are kept."""


class RollBack(Request[ProfileTold], frozen=True, kw_only=True):
    """Make the state of an earlier, or an unhealthy, generation the current one: as a new generation (contract 25)."""

    generation: Annotated[int, msgspec.Meta(ge=1, le=2**53)]


class CheckProfile(Request[ProfileTold], frozen=True, kw_only=True):
    """Run the health check on the current state, in a browser of its own; what passes is sealed again."""


class ImportState(Request[ProfileTold], frozen=True, kw_only=True):
    """Make a sealed object that the caller put into the store the next generation (contract 25, 28).

    It must open as this profile's, for `generation`, with the profile's origins, and pass the health check.
    """

    generation: Annotated[int, msgspec.Meta(ge=1, le=2**53)]
    """The next one: an import that was overtaken is refused."""
    object: Annotated[str, msgspec.Meta(max_length=300)]
    sha256: RequestKey
    ceremony: Id | None = None
    """Of a login; used up when it succeeds."""


class Ceremony(Request[CeremonyTold], frozen=True, kw_only=True):
    """Begin a login ceremony, or end it (contract 28). While it is open the profile is not leased."""

    ceremony: Id
    end: bool = False


class Rewrap(Request[GenerationsTold], frozen=True, kw_only=True):
    """Encrypt every kept generation that is under another key anew, with `key`, the current one (contract 27)."""

    key: Annotated[str, msgspec.Meta(pattern=r"^[a-z0-9][a-z0-9_-]{0,31}\Z")]


class ListProfiles(Request[Listed], frozen=True, kw_only=True):
    """The caller's profiles."""


class TakeRun(Request[RunTold], frozen=True, kw_only=True):
    """Become the worker of a run: raises the claim unless the same `holder` asks again (contract 17)."""

    holder: Id
    worker: Name
    attempt: Attempt = 1
    deadline: Moment | None = None
    """Required when the run has no record yet."""
    parent: Name | None = None
    """The run that waits for this one."""


class ReportRun(Request[RunTold], frozen=True, kw_only=True):
    """Write the run's status under the caller's claim (contract 16, 17)."""

    claim: Claim
    status: RunStatus
    question: Question | None = None
    """What the owner is asked when the run parks."""


class AnswerRun(Request[RunTold], frozen=True, kw_only=True):
    """The owner's answer to an approval of the run; needs no claim (contract 20). Safe to repeat."""

    approval: Id | None = None
    """None: the only one that is pending."""
    by: Annotated[str, msgspec.Meta(min_length=1, max_length=200)] | None = None


class ApproveRun(AnswerRun, frozen=True, kw_only=True):
    """Yes: the run is queued to go on with the same page and reference."""


class RejectRun(AnswerRun, frozen=True, kw_only=True):
    """No: nothing was sent and nothing will be."""


class GrantRun(Request[RunTold], frozen=True, kw_only=True):
    """Allow acts in advance, or with `withdraw` no longer; needs no claim. Acts name the constraint they rest on."""

    constraint: Constraint
    withdraw: bool = False


class CancelRun(Request[RunTold], frozen=True, kw_only=True):
    """Cancel the run; needs no claim."""


class ShowRun(Request[RunTold], frozen=True, kw_only=True):
    """Read the run's record."""


class ListRuns(Request[RunsListed], frozen=True, kw_only=True):
    """The caller's runs: the latest `limit`, or only those that have not ended."""

    open_only: bool = False
    limit: Annotated[int, msgspec.Meta(ge=1, le=1000)] = 200


class RenewAll(Request[RenewedAll], frozen=True, kw_only=True):
    """The worker's tick: one message per host for all its leases there (contract 18)."""

    worker: Name
    except_: Annotated[tuple[Id, ...], msgspec.Meta(max_length=4096)] = msgspec.field(default=(), name="except")


class ShowArtifacts(PageRequest[ArtifactTold], frozen=True, kw_only=True):
    """The live lease's files, after `cancel` was stopped. Control lane."""

    cancel: Id | None = None


class ReadArtifact(Request[ArtifactTold], frozen=True, kw_only=True):
    """A piece of a kept file from `offset` on; without a name, all that are kept. Needs no live lease."""

    artifact: Id | None = None
    offset: Annotated[int, msgspec.Meta(ge=0, le=64 << 20)] = 0


TendRequest = ShowTabs | ShowArtifacts
"""Asked of a live browser beside its page operations."""

ProfileRequest = (
    Acquire
    | Renew
    | Close
    | Navigate
    | Observe
    | Act
    | AnswerDialog
    | ShowTabs
    | ShowArtifacts
    | ReadArtifact
    | AskOutcome
    | Cancel
    | Reconcile
    | DeclareStep
    | Checkpoint
    | ListSteps
    | AskStatus
    | CreateProfile
    | ShowProfile
    | RevokeProfile
    | DeleteProfile
    | AskGenerations
    | RollBack
    | CheckProfile
    | ImportState
    | Ceremony
    | Rewrap
)
RunRequest = TakeRun | ReportRun | ApproveRun | RejectRun | GrantRun | CancelRun | ShowRun

VERBS: dict[str, type[ProfileRequest]] = {
    "acquire": Acquire,
    "renew": Renew,
    "close": Close,
    "navigate": Navigate,
    "observe": Observe,
    "act": Act,
    "dialog": AnswerDialog,
    "tabs": ShowTabs,
    "artifacts": ShowArtifacts,
    "artifact": ReadArtifact,
    "outcome": AskOutcome,
    "cancel": Cancel,
    "reconcile": Reconcile,
    "declare": DeclareStep,
    "checkpoint": Checkpoint,
    "steps": ListSteps,
    "status": AskStatus,
    "create": CreateProfile,
    "show": ShowProfile,
    "revoke": RevokeProfile,
    "delete": DeleteProfile,
    "generations": AskGenerations,
    "rollback": RollBack,
    "check": CheckProfile,
    "import": ImportState,
    "login": Ceremony,
    "rewrap": Rewrap,
}
"""Last token of a profile subject -> body. Those with a lease go to the owner's route, the others to any host."""

RUN_VERBS: dict[str, type[RunRequest]] = {
    "take": TakeRun,
    "report": ReportRun,
    "approve": ApproveRun,
    "reject": RejectRun,
    "grant": GrantRun,
    "cancel": CancelRun,
    "show": ShowRun,
}

LIST_VERBS: dict[str, type[ListProfiles | ListRuns]] = {"list": ListProfiles, "runs": ListRuns}
