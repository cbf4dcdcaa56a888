"""The public Python face for workers: connect, run, acquire, navigate, observe, act, close.

Every call is bounded by its own timeout in seconds, and raises `LessorError` (or one of its kinds)
with the whole error record; `OutcomeUnknown` means that nobody may repeat the act before somebody
looked. Thin over the actors: a client holds no state of a lease.
"""

import asyncio
import hashlib
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import TracebackType
from typing import Literal, Self, TypeVar

import msgspec

from lessor.actors.bridge import LoopIo, Slot
from lessor.actors.clock import BootClock
from lessor.actors.process import ChildFailed, Stop
from lessor.actors.ref import Ref, is_ref, tell
from lessor.actors.run import Aside, Decide, Do, End, Go, Report, RunOver, See, Take, Want
from lessor.actors.talk import Talk, as_problem
from lessor.actors.worker import Begin, Forget, WorkerSupervisor
from lessor.broker.connection import Connection, Settings, open_connection
from lessor.broker.credentials import caller_of
from lessor.broker.embedded import credentials_of, endpoint_of
from lessor.broker.line import BrokerLine
from lessor.broker.service import hosts_answering
from lessor.broker.subjects import Addresses
from lessor.broker.users import inbox_prefix
from lessor.config import Config, name_of
from lessor.errors import Code, LessorError, Problem, error_of, problem
from lessor.ids import fresh_id
from lessor.limits import Limits
from lessor.messages.action import AnyAction, Artifact, Commit, Match, Observation, PageView, TabView
from lessor.messages.health import HealthCheck
from lessor.messages.ids import Caller
from lessor.messages.policy import DEFAULT, GivenPolicy, PagePolicy
from lessor.messages.reply import (
    Acted,
    ArtifactTold,
    Closed,
    DialogAnswered,
    GenerationsTold,
    Granted,
    LeaseView,
    Listed,
    Navigated,
    Observed,
    OutcomeTold,
    ProfileTold,
    Receipt,
    Reconciled,
    Reply,
    RunsListed,
    RunTold,
    StatusTold,
    StepsTold,
    TabsTold,
)
from lessor.messages.request import (
    ApproveRun,
    AskGenerations,
    AskOutcome,
    AskStatus,
    CancelRun,
    CheckProfile,
    CreateProfile,
    DeleteProfile,
    GrantRun,
    ListProfiles,
    ListRuns,
    ListSteps,
    ReadArtifact,
    Reconcile,
    RejectRun,
    Request,
    RevokeProfile,
    RollBack,
    ShowArtifacts,
    ShowProfile,
    ShowRun,
    ShowTabs,
    TendRequest,
)
from lessor.messages.run import Approval, ApprovalState, Constraint, RunRecord, RunStatus
from lessor.messages.step import Desired, Expectation, StepRecord, Way
from lessor.ports import Pacer
from lessor.reconcilers import Reconciler
from lessor.stepping import Declared, Lookup, Step, payload_digest, reconcile, settle

T = TypeVar("T")
R = TypeVar("R", bound=Reply)
"""The kind of reply a call expects."""

__all__ = ["Client", "Lease", "Lookup", "Run", "Step", "connect", "reconcile"]

ANSWER_S = 2.0
"""How much longer than its timeout a call waits for its own actor: an answer is never lost to a tie."""
CLOSING_S = 0.2


def connect(
    url: str | None = None,
    *,
    token: str | None = None,
    credentials: Path | None = None,
    data_dir: Path | None = None,
    tenant: str | None = None,
    principal: str | None = None,
    worker: str | None = None,
    limits: Limits | None = None,
) -> "Client":
    """A client, to be entered with `async with`.

    Without a URL: LESSOR_URL, else the embedded broker of `data_dir` (LESSOR_DATA_DIR) on this machine.
    Who it is, the credentials file says, else LESSOR_TENANT and LESSOR_PRINCIPAL, else `local` and `me`.
    Entering raises LessorError (`broker_unavailable`, `forbidden`, `setup_failed`) within 6 s.
    """
    config = Config.of(os.environ, data_dir)
    name = worker or name_of(f"w-{os.getpid()}-{fresh_id()[:6]}", "worker")
    where = _Where(url or config.nats_url, token or config.nats_token, credentials or config.nats_credentials)
    said = caller_of(where.credentials, config.tenant, config.principal)
    caller = Caller(tenant or said.tenant, principal or said.principal)
    return Client(config, where, caller, name, limits or Limits())


@dataclass(frozen=True, slots=True)
class _Where:
    url: str | None
    token: str | None
    credentials: Path | None


class Client:
    """A worker's connection: profiles, runs, and one supervisor that renews all its leases."""

    def __init__(self, config: Config, where: _Where, caller: Caller, worker: str, limits: Limits) -> None:
        self._config, self._where, self.caller, self.worker, self._limits = config, where, caller, worker, limits
        self._connection: Connection | None = None
        self._supervisor: Ref | None = None
        self.reconcilers: dict[str, Reconciler] = {}
        """By kind of step: how its outcome is found out when nobody knows it. Filled before the first acquire."""
        self.clock: Pacer = BootClock()

    def __repr__(self) -> str:
        return f"<Client {self.caller.tenant}/{self.caller.principal} worker {self.worker}>"

    async def __aenter__(self) -> Self:
        settings = _value(self._settings())
        self._connection = _value(await open_connection(settings))
        self._loop = asyncio.get_running_loop()
        self._io = LoopIo(self._loop)
        self._talk = Talk(
            line=BrokerLine(self._connection),
            to=Addresses(self.caller),
            clock=self.clock,
            caller=self.caller,
            fresh=fresh_id,
        )
        self._supervisor = WorkerSupervisor.start(self._io, self._talk, self.worker, self._limits, self._failed)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        tell(self._supervisor, Stop())
        await self._io.close()
        assert self._connection is not None
        await self._connection.close()

    def _settings(self) -> Settings | Problem:
        where, servers = self._where, self._where.url
        if servers is None:
            found = self._found()
            if isinstance(found, Problem):
                return found
            where, servers = found, found.url
        assert servers is not None
        return Settings(
            servers=tuple(servers.split(",")),
            name=f"worker {self.worker}",
            token=where.token,
            credentials=where.credentials,
            inbox_prefix=inbox_prefix(self.caller),
        )

    def _found(self) -> _Where | Problem:
        """The embedded broker of the data directory, entered with the caller's own credentials."""
        directory = self._config.data_dir / "broker"
        endpoint = endpoint_of(directory)
        if isinstance(endpoint, Problem):
            return endpoint
        credentials = self._where.credentials or credentials_of(directory, self.caller)
        return credentials if isinstance(credentials, Problem) else _Where(endpoint.url, None, credentials)

    def _failed(self, failed: ChildFailed) -> None:
        """A run actor broke: its waiting calls time out as `moved`; its leases lapse (contract 18)."""

    @property
    def talk(self) -> Talk:
        """For programs that keep a lease's state themselves, such as the command line, which ends after each call."""
        assert self._connection is not None, "enter the client first: async with lessor.connect(...)"
        return self._talk

    async def hosts(self, within_s: float = 0.3) -> tuple[str, ...] | Problem:
        """The hosts that answer within that time; `forbidden` where the broker keeps `$SRV` from this user."""
        assert self._connection is not None, "enter the client first: async with lessor.connect(...)"
        return await hosts_answering(self._connection, within_s)

    async def ask(self, subject: str, request: Request[R], kind: type[R], timeout_s: float) -> R:
        """One question to any host; the answer's kind, or its problem raised. What waits for a lease to close (a
        receipt is given a little before its browser is gone) is asked again, within the same time."""
        until = self._loop.time() + timeout_s
        while True:
            left_s = max(0.1, until - self._loop.time())
            heard = await self._talk.line.ask(subject, request, left_s)
            if isinstance(heard, kind):
                return heard
            told = as_problem(heard)
            if told.code is not Code.CLOSING or left_s < CLOSING_S:
                raise error_of(told)
            await asyncio.sleep(told.retry_after_s or CLOSING_S)

    # -- profiles

    async def create_profile(
        self,
        profile: str,
        *,
        origins: Sequence[str],
        settle_s: float = 30.0,
        idempotent_target: bool = False,
        strict: bool = False,
        policy: PagePolicy = DEFAULT,
        health: HealthCheck | None = None,
        approve: Sequence[str] = (),
        timeout_s: float = 10.0,
    ) -> ProfileTold:
        """Make a profile known, or change its settings while it is free. Safe to repeat.

        `approve` names kinds of act that need an approval: `click`, `type` …, or `commit` for every step's commit.
        """
        request = CreateProfile(
            id=fresh_id(),
            origins=tuple(origins),
            settle_s=settle_s,
            idempotent_target=idempotent_target,
            strict=strict,
            policy=msgspec.convert(msgspec.to_builtins(policy), GivenPolicy),
            health=health,
            approve=tuple(approve),
        )
        return await self.ask(self._talk.to.profile(profile, "create"), request, ProfileTold, timeout_s)

    async def show_profile(self, profile: str, timeout_s: float = 10.0) -> ProfileTold:
        subject = self._talk.to.profile(profile, "show")
        return await self.ask(subject, ShowProfile(id=fresh_id()), ProfileTold, timeout_s)

    async def revoke_profile(self, profile: str, timeout_s: float = 10.0) -> ProfileTold:
        """Fence the profile for good; a live lease ends unsealed (contract 26)."""
        subject = self._talk.to.profile(profile, "revoke")
        return await self.ask(subject, RevokeProfile(id=fresh_id()), ProfileTold, timeout_s)

    async def delete_profile(self, profile: str, timeout_s: float = 30.0) -> ProfileTold:
        """Remove the sealed state of a revoked profile; its name is not given again (contract 26)."""
        request = DeleteProfile(id=fresh_id(), budget_s=timeout_s)
        return await self.ask(self._talk.to.profile(profile, "delete"), request, ProfileTold, timeout_s)

    async def check_profile(self, profile: str, timeout_s: float = 30.0) -> ProfileTold:
        """Run the health check on the current state, in a browser of its own; `state` and `why` say what it found."""
        request = CheckProfile(id=fresh_id(), budget_s=timeout_s)
        return await self.ask(self._talk.to.profile(profile, "check"), request, ProfileTold, timeout_s)

    async def generations(self, profile: str, timeout_s: float = 10.0) -> GenerationsTold:
        """The sealed generations that are kept, newest first (contract 25)."""
        request = AskGenerations(id=fresh_id())
        return await self.ask(self._talk.to.profile(profile, "generations"), request, GenerationsTold, timeout_s)

    async def roll_back(self, profile: str, generation: int, timeout_s: float = 30.0) -> ProfileTold:
        """Make the state of an earlier, or an unhealthy, generation current, as a new one; refused while leased."""
        request = RollBack(id=fresh_id(), budget_s=timeout_s, generation=generation)
        return await self.ask(self._talk.to.profile(profile, "rollback"), request, ProfileTold, timeout_s)

    async def profiles(self, timeout_s: float = 10.0) -> tuple[str, ...]:
        told = await self.ask(self._talk.to.listing(), ListProfiles(id=fresh_id()), Listed, timeout_s)
        return told.profiles

    async def active_profiles(self, timeout_s: float = 10.0) -> tuple[str, ...]:
        """Those of your profiles that a host owns just now: only they can be leased."""
        told = await self.ask(self._talk.to.listing(), ListProfiles(id=fresh_id()), Listed, timeout_s)
        return told.active

    async def status(self, profile: str, timeout_s: float = 10.0) -> StatusTold:
        """Who holds the profile, until when, what runs, who waits."""
        subject = self._talk.to.profile(profile, "status")
        return await self.ask(subject, AskStatus(id=fresh_id()), StatusTold, timeout_s)

    async def outcome(
        self,
        profile: str,
        *,
        key: str | None = None,
        lease: str | None = None,
        sequence: int | None = None,
        timeout_s: float = 10.0,
    ) -> OutcomeTold | None:
        """What is on record of an act, also long after its lease is gone; None: no record, which says nothing."""
        request = AskOutcome(id=fresh_id(), budget_s=timeout_s, request_key=key, lease=lease, sequence=sequence)
        heard = await self._talk.line.ask(self._talk.to.profile(profile, "outcome"), request, timeout_s + 0.5)
        if isinstance(heard, OutcomeTold):
            return heard
        told = as_problem(heard)
        if told.code is Code.NO_RECORD:
            return None
        raise error_of(told)

    async def reconcile(
        self,
        profile: str,
        key: str,
        verdict: Literal["succeeded", "not_sent", "still_unknown"],
        *,
        evidence: str,
        by: str,
        looked_up_ms: int | None = None,
        how: str = "",
        run: str | None = None,
        timeout_s: float = 10.0,
    ) -> Reconciled:
        """Put a verdict on record. A `not_sent` counts only under the rules (contract, Steps)."""
        request = Reconcile(
            id=fresh_id(),
            request_key=key,
            verdict=verdict,
            evidence=evidence,
            by=by,
            looked_up_ms=looked_up_ms,
            how=how,
            run=run,
        )
        return await self.patiently(profile, "reconcile", request, Reconciled, timeout_s)

    async def steps(
        self,
        profile: str,
        *,
        run: str | None = None,
        only: Literal["all", "open", "unknown", "unverified"] = "all",
        timeout_s: float = 10.0,
    ) -> tuple[StepRecord, ...]:
        """The profile's steps as they are on record, also long after their leases are gone."""
        found: list[StepRecord] = []
        while True:
            request = ListSteps(id=fresh_id(), run=run, only=only, skip=len(found))
            told = await self.patiently(profile, "steps", request, StepsTold, timeout_s)
            found.extend(told.steps)
            if not told.steps or len(found) >= told.total:
                return tuple(found)

    async def patiently(self, profile: str, verb: str, request: Request[R], kind: type[R], timeout_s: float) -> R:
        """Something about a profile that is safe to repeat, asked of any host until somebody answers."""
        until_ms = self.clock.now_ms() + round(timeout_s * 1000)
        while True:
            left_s = max(0.2, (until_ms - self.clock.now_ms()) / 1000)
            heard = await self._talk.patiently(self._talk.to.profile(profile, verb), request, left_s)
            if isinstance(heard, kind):
                return heard
            told = as_problem(heard)
            wait_s = told.retry_after_s or 0.2
            if not told.retryable or self.clock.now_ms() + wait_s * 1000 > until_ms:
                raise error_of(told)
            await self.clock.wait(wait_s)

    # -- files

    async def artifacts(self, profile: str, timeout_s: float = 10.0) -> tuple[Artifact, ...]:
        """Files that leases of the profile left, kept until 24 h after their run's deadline."""
        subject = self._talk.to.profile(profile, "artifact")
        return (await self.ask(subject, ReadArtifact(id=fresh_id()), ArtifactTold, timeout_s)).artifacts

    async def artifact(self, profile: str, artifact: str, *, timeout_s: float = 60.0) -> tuple[Artifact, bytes]:
        """One file, fetched in pieces and checked. Raises `not_found`, `output_invalid`, `broker_unavailable`."""
        clock, body = BootClock(), bytearray()
        until_ms = clock.now_ms() + round(timeout_s * 1000)
        subject = self._talk.to.profile(profile, "artifact")
        while True:
            request = ReadArtifact(id=fresh_id(), artifact=artifact, offset=len(body))
            left_s = max(0.1, (until_ms - clock.now_ms()) / 1000)
            told = await self.ask(subject, request, ArtifactTold, min(10.0, left_s))
            [one] = told.artifacts
            body += told.data
            if len(body) >= one.size:
                break
            if not told.data or clock.now_ms() > until_ms:
                raise error_of(problem(Code.BROKER_UNAVAILABLE, "The file did not come in time: fetch it again."))
        if hashlib.sha256(body).hexdigest() != one.sha256:
            raise error_of(problem(Code.OUTPUT_INVALID, "The file is not what was kept: fetch it again."))
        return one, bytes(body)

    # -- runs

    def run(self, run: str, *, attempt: int = 1, deadline_s: float = 3600.0, parent: str | None = None) -> "Run":
        """A run of this worker, to be entered with `async with`: entering takes it (raises its claim).

        `parent` is the run that waits for it (`Run.wait_for_child`).
        """
        return Run(self, run, attempt, deadline_s, parent)

    async def show_run(self, run: str, timeout_s: float = 10.0) -> RunTold:
        return await self.ask(self._talk.to.run(run, "show"), ShowRun(id=fresh_id()), RunTold, timeout_s)

    async def cancel_run(self, run: str, timeout_s: float = 10.0) -> RunTold:
        """Cancel the run, whoever works on it. Leases that it holds in this process are sealed and closed at once."""
        told = await self.ask(self._talk.to.run(run, "cancel"), CancelRun(id=fresh_id()), RunTold, timeout_s)
        tell(self._supervisor, RunOver(run))
        return told

    async def runs(self, *, open_only: bool = False, limit: int = 200, timeout_s: float = 10.0) -> tuple[RunTold, ...]:
        """Your runs, the newest change first, with their open questions."""
        asked = ListRuns(id=fresh_id(), open_only=open_only, limit=limit)
        return (await self.ask(self._talk.to.runs(), asked, RunsListed, timeout_s)).runs

    async def approvals(self, run: str, timeout_s: float = 10.0) -> tuple[Approval, ...]:
        """What the run has asked its owner, answered or not (contract 20)."""
        return (await self.show_run(run, timeout_s)).record.approvals

    async def approve(
        self, run: str, approval: str | None = None, *, by: str | None = None, timeout_s: float = 10.0
    ) -> RunTold:
        """Say yes to an approval (None: the only pending one): the run is queued to go on. Safe to repeat.

        Raises `deadline_passed` 60 min after the question, `invalid_request` when it was answered otherwise.
        """
        asked = ApproveRun(id=fresh_id(), approval=approval, by=by)
        return await self.ask(self._talk.to.run(run, "approve"), asked, RunTold, timeout_s)

    async def reject(
        self, run: str, approval: str | None = None, *, by: str | None = None, timeout_s: float = 10.0
    ) -> RunTold:
        """Say no: nothing was sent, and nothing will be."""
        asked = RejectRun(id=fresh_id(), approval=approval, by=by)
        return await self.ask(self._talk.to.run(run, "reject"), asked, RunTold, timeout_s)

    async def grant(
        self,
        run: str,
        *,
        origins: Sequence[str],
        kinds: Sequence[str],
        expires_s: float = 900.0,
        timeout_s: float = 10.0,
    ) -> Constraint:
        """Allow the run acts in advance; `Lease.act` names the constraint that comes back (contract 20)."""
        expires_unix_ms = BootClock().unix_ms() + round(expires_s * 1000)
        constraint = Constraint(origins=tuple(origins), kinds=tuple(kinds), expires_unix_ms=expires_unix_ms)
        request = GrantRun(id=fresh_id(), constraint=constraint)
        await self.ask(self._talk.to.run(run, "grant"), request, RunTold, timeout_s)
        return constraint

    async def withdraw(self, run: str, constraint: Constraint, timeout_s: float = 10.0) -> RunTold:
        """End a grant at once: it is looked up at each dispatch."""
        request = GrantRun(id=fresh_id(), constraint=constraint, withdraw=True)
        return await self.ask(self._talk.to.run(run, "grant"), request, RunTold, timeout_s)

    async def begin(self, run: str, attempt: int) -> Ref:
        """Start the run's actor. For `Run`."""
        assert self._supervisor is not None, "enter the client first: async with lessor.connect(...)"
        slot = Slot(self._loop)
        if not tell(self._supervisor, Begin(run, attempt, slot.set)):
            raise error_of(_broken())
        ref = await slot.get(5.0)
        assert is_ref(ref), "the worker's supervisor did not start the run's actor"
        return ref

    def forget(self, ref: Ref) -> None:
        tell(self._supervisor, Forget(ref))

    async def tell(
        self,
        ref: Ref,
        make: Callable[[Callable[[object], None]], object],
        timeout_s: float,
        *,
        silence: Problem | None = None,
    ) -> object:
        """Tell an actor something that it answers; `silence` is raised when it does not. For `Run` and `Lease`."""
        slot = Slot(self._loop)
        if not tell(ref, make(slot.set)):
            raise error_of(_broken())
        answer = await slot.get(timeout_s)
        if answer is None:
            raise error_of(silence or _broken())
        if isinstance(answer, Problem):
            raise error_of(answer)
        return answer


def _broken() -> Problem:
    return problem(Code.MOVED, "The run's actor does not answer: take the run again, and ask for open outcomes.")


def _silent_act() -> Problem:
    unknown = (
        "Nothing was heard of the act: ask for its outcome, or look it up by its request key, before it is repeated."
    )
    return problem(Code.OUTCOME_UNKNOWN, unknown)


def _value(value: T | Problem) -> T:
    if isinstance(value, Problem):
        raise error_of(value)
    return value


class Run:
    """One run in this worker. Leaving the block normally reports it finished; on an exception, it stays open.

    A run left open by a crash is taken by the next worker with the same call: same page, next sequence.
    """

    def __init__(self, client: Client, run: str, attempt: int, deadline_s: float, parent: str | None = None) -> None:
        self.client, self.run, self.attempt, self.parent = client, run, attempt, parent
        self._deadline = datetime.now(UTC) + timedelta(seconds=deadline_s)
        self._ref: Ref | None = None
        self._reported = False
        self.claim = 0
        self.lease: Lease | None = None
        """The one acquired last: where `step` works unless told otherwise."""

    def __repr__(self) -> str:
        return f"<Run {self.run} attempt {self.attempt} claim {self.claim}>"

    async def __aenter__(self) -> Self:
        self._ref = await self.client.begin(self.run, self.attempt)
        await self._take()
        return self

    async def _take(self) -> RunTold:
        told = await self.tell(lambda answer: Take(self._deadline, answer, self.parent), 10.0 + ANSWER_S)
        assert isinstance(told, RunTold)
        self.claim = told.record.claim
        self._reported = False
        return told

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is None and not self._reported:
                await self.finish()
        finally:
            assert self._ref is not None
            self.client.forget(self._ref)

    async def tell(
        self,
        make: Callable[[Callable[[object], None]], object],
        timeout_s: float,
        *,
        silence: Problem | None = None,
    ) -> object:
        assert self._ref is not None, "enter the run first: async with client.run(...)"
        return await self.client.tell(self._ref, make, timeout_s, silence=silence)

    async def acquire(
        self, profile: str, *, horizon_s: float = 600.0, wait_s: float = 30.0, recover_s: float = 120.0
    ) -> "Lease":
        """Lease the profile: the same page when this run holds it already, else a browser from the last seal.

        Polls for `wait_s`; raises LeaseInvalid (`profile_busy` with holder and position, `run_fenced` ...). What the
        run left open is settled first, by the client's reconcilers, each step for at most `recover_s`: after
        that, `lease.open_steps` are those that nobody could settle (contract, Steps: recovery).
        """
        told = await self.tell(lambda answer: Want(profile, horizon_s, wait_s, answer), wait_s + 60.0 + ANSWER_S)
        assert isinstance(told, Granted)
        assert told.lease is not None
        lease = Lease(self, profile, told.lease, told.reattached, told.generation)
        self.lease = lease
        await lease.recover(recover_s)
        return lease

    async def report(self, status: RunStatus, *, question: str | None = None) -> RunTold:
        """Write the run's status. Leases are sealed and closed first when it needs no page any more."""
        told = await self.tell(lambda answer: Report(status, answer, question), 60.0 + ANSWER_S)
        assert isinstance(told, RunTold)
        self._reported = status is not RunStatus.RUNNING
        return told

    async def park(self, question: str) -> Approval:
        """Ask the run's owner something and keep the page until the answer: `wait_for_answer`."""
        told = await self.report(RunStatus.PARKED, question=question)
        return next(one for one in reversed(told.record.approvals) if one.state is ApprovalState.PENDING)

    async def queue(self) -> RunTold:
        """Somebody goes on with the run later, here or elsewhere: it keeps its page, renewed by the host."""
        return await self.report(RunStatus.QUEUED)

    async def wait_for_user(self) -> RunTold:
        """The run waits for a person and needs no page: its leases are sealed and closed. `resume` to go on."""
        return await self.report(RunStatus.WAITING_USER)

    async def wait_for_child(self, child: str, *, timeout_s: float = 3600.0, poll_s: float = 1.0) -> RunTold:
        """Seal and close, wait until the child run has ended, resume. The child may hold the same profile meanwhile.

        Raises `pending` when the time is over; the run waits for its child still.
        """
        await self.report(RunStatus.WAITING_CHILD)
        child_told = await self._until(child, lambda record: record.status.ended, timeout_s, poll_s)
        await self.resume()
        return child_told

    async def wait_for_answer(
        self, approval: str | None = None, *, timeout_s: float = 3600.0, poll_s: float = 1.0
    ) -> Approval:
        """Wait for the owner's answer and resume; the approval says what it was, `pending`: its time is over.

        Raises `pending` when the caller's time is over before; the run stays parked and keeps its page.
        """

        def answered(record: RunRecord) -> bool:
            one = _approval(record, approval)
            late = one is not None and BootClock().unix_ms() >= one.until_unix_ms
            return one is None or one.state is not ApprovalState.PENDING or late or record.status.ended

        told = await self._until(self.run, answered, timeout_s, poll_s)
        one = _approval(told.record, approval)
        if one is None or told.record.status.ended:
            gone = f"The run {self.run!r} waits for no such answer ({told.record.status})."
            raise error_of(problem(Code.RUN_ENDED if told.record.status.ended else Code.NO_RECORD, gone))
        await self.resume()
        return one

    async def resume(self) -> RunTold:
        """Go on: the run is running here. Raises `run_fenced` when another worker has taken it, `run_ended`."""
        return await self._take()

    async def _until(self, run: str, holds: Callable[[RunRecord], bool], timeout_s: float, poll_s: float) -> RunTold:
        clock = BootClock()
        until_ms = clock.now_ms() + round(timeout_s * 1000)
        while True:
            try:
                told = await self.client.show_run(run)
            except LessorError as error:
                if not error.problem.retryable and error.code is not Code.NOT_FOUND:
                    raise
                told = None
            if told is not None and holds(told.record):
                return told
            if clock.now_ms() >= until_ms:
                raise error_of(problem(Code.PENDING, f"Run {run!r} has not got there: wait again.", retry_after_s=1.0))
            await clock.wait(poll_s)

    async def finish(self) -> RunTold:
        return await self.report(RunStatus.FINISHED)

    async def fail(self) -> RunTold:
        return await self.report(RunStatus.FAILED)

    def step(
        self,
        *at: "Lease | str",
        task: str | None = None,
        target: str = "",
        payload: object = None,
        kind: str = "step",
        evidence: Sequence[Way] = (),
        expect: Expectation | None = None,
        effects: bool = True,
        idempotent: bool | None = None,
        depends: "Sequence[str | Step]" = (),
    ) -> "Step":
        """A step of this run's task (default: the run's own name): `step(name)`, or `step(lease, name)`.

        Its request key is stable over attempts. Entered with `async with`, it is declared first: what it acts on, the
        hash of what it submits (`payload`, anything that JSON can hold, without secrets), how its effect will be
        found, and the steps (by name in this task) that must be done before. `idempotent` defaults to what the
        reconciler of its `kind` says of its target.
        """
        lease = at[0] if len(at) == 2 and isinstance(at[0], Lease) else self.lease
        name = at[-1] if at else None
        assert isinstance(name, str), "step(name) or step(lease, name)"
        assert lease is not None, "acquire a profile first"
        task = task or self.run
        reconciler = self.client.reconcilers.get(kind)
        ways = dict.fromkeys((*(("expectation",) if expect is not None else ()), *evidence))
        desired = Desired(
            target=target,
            payload_hash=payload_digest(payload),
            kind=kind,
            evidence=tuple(ways),
            expect=expect,
            effects=effects,
            idempotent=idempotent if idempotent is not None else reconciler is not None and reconciler.idempotent,
            depends=Declared.keys(task, depends),
        )
        return Step(lease, Declared(self.run, self.claim, task, name, desired))


def _approval(record: RunRecord, name: str | None) -> Approval | None:
    """The named one; None: the latest."""
    found = [one for one in record.approvals if name is None or one.id == name]
    return found[-1] if found else None


class Lease:
    """A leased profile. `revision` is the last one seen; acts use it unless told otherwise."""

    def __init__(self, run: Run, profile: str, view: LeaseView, reattached: bool, generation: int) -> None:
        self.run, self.profile = run, profile
        self.id = view.lease
        self.next_sequence = view.next_sequence
        self.expires_in_s = view.expires_in_s
        self.reattached, self.generation = reattached, generation
        self.revision: str | None = None
        self.open_steps: tuple[StepRecord, ...] = ()
        """Steps of this run that nobody could settle when it was acquired: what depends on them is refused."""

    @property
    def client(self) -> Client:
        return self.run.client

    async def recover(self, timeout_s: float) -> None:
        """Settle what the run left open, in the order in which it was begun; deterministic, nothing is repeated."""
        client, left = self.client, list[StepRecord]()
        for step in await client.steps(self.profile, run=self.run.run, only="open"):
            reconciler = client.reconcilers.get(step.desired.kind)
            state = step.state
            if reconciler is not None:
                state = await settle(client, self.profile, step, reconciler, page=self, timeout_s=timeout_s)
            known = msgspec.structs.replace(step, state=state)
            if known.open:
                left.append(known)
        self.open_steps = tuple(left)

    def __repr__(self) -> str:
        return f"<Lease {self.profile} of {self.run.run}: {self.id} next {self.next_sequence}>"

    async def navigate(self, url: str, *, tab: str = "main", timeout_s: float = 20.0) -> PageView:
        """Open a URL of an allowed origin. Raises `url_disallowed`, `navigation_failed`, `op_timeout`."""
        told = await self._tell(lambda answer: Go(self.profile, url, tab, timeout_s, answer), timeout_s)
        assert isinstance(told, Navigated)
        self._heard(told, told.page.revision)
        return told.page

    async def observe(self, *, tab: str = "main", timeout_s: float = 10.0) -> Observation:
        """Read the page: at most 256 KiB of text and 256 elements, truthful about what is left out."""
        told = await self._tell(lambda answer: See(self.profile, tab, timeout_s, answer), timeout_s)
        assert isinstance(told, Observed)
        self._heard(told, told.page.revision)
        return told.page

    async def act(
        self,
        action: AnyAction,
        *,
        revision: str | None = None,
        tab: str = "main",
        match: Match = "target",
        step: Commit | None = None,
        constraint: Constraint | None = None,
        approval_s: float = 0.0,
        timeout_s: float = 30.0,
    ) -> Acted:
        """One input, at most once. Refusals that come before it keep the sequence; see OutcomeUnknown.

        Where the profile's policy asks for an approval the run parks (`approval_required`); with `approval_s` the
        answer is awaited for so long, then the same act goes on. `constraint` names a grant given in advance.
        """
        try:
            return await self._act(action, revision, tab, match, step, constraint, timeout_s)
        except LessorError as error:
            if error.code is not Code.APPROVAL_REQUIRED or approval_s <= 0:
                raise
            seen = revision or self.revision
            await self.run.wait_for_answer(error.problem.approval, timeout_s=approval_s)
        return await self._act(action, seen, tab, match, step, constraint, timeout_s)

    async def _act(
        self,
        action: AnyAction,
        revision: str | None,
        tab: str,
        match: Match,
        step: Commit | None,
        constraint: Constraint | None,
        timeout_s: float,
    ) -> Acted:
        seen = revision or self.revision
        if seen is None:
            raise error_of(problem(Code.PAGE_CHANGED, "Observe the page before you act on it."))
        told = await self._tell(
            lambda answer: Do(self.profile, action, seen, tab, match, step, timeout_s, answer, constraint),
            timeout_s + 10.0,
            silence=_silent_act(),
        )
        assert isinstance(told, Acted)
        self._heard(told, told.page.revision if told.page is not None else None)
        return told

    async def dialog(self, dialog: str, *, accept: bool, text: str = "", timeout_s: float = 10.0) -> DialogAnswered:
        """Answer the dialog that a `dialog_open` named (`error.problem.dialog.id`), once; then observe.

        Raises `action_not_allowed` when it is not open any more. It does not wait for the act that opened it."""
        told = await self._tell(lambda reply: Decide(self.profile, dialog, accept, text, timeout_s, reply), timeout_s)
        assert isinstance(told, DialogAnswered)
        self._heard(told, None)
        return told

    async def tabs(self, *, close: str | None = None, timeout_s: float = 10.0) -> tuple[TabView, ...]:
        """The lease's tabs, after `close` was closed. Naming a tab in a call makes it: 50 at most, else `tab_quota`."""
        told = await self._aside(ShowTabs, timeout_s, close=close)
        assert isinstance(told, TabsTold)
        return told.tabs

    async def artifacts(self, *, cancel: str | None = None, timeout_s: float = 10.0) -> tuple[Artifact, ...]:
        """Files of this lease, those under way included, after `cancel` was stopped."""
        told = await self._aside(ShowArtifacts, timeout_s, cancel=cancel)
        assert isinstance(told, ArtifactTold)
        return told.artifacts

    async def _aside(self, kind: type[TendRequest], timeout_s: float, **fields: object) -> Reply:
        """What waits behind no page operation."""
        told = await self._tell(lambda reply: Aside(self.profile, kind, fields, timeout_s, reply), timeout_s)
        assert isinstance(told, Reply)
        return told

    async def close(self, *, discard: bool = False, timeout_s: float = 20.0) -> Receipt:
        """Seal the profile's state and end the lease; safe to repeat: the same receipt."""
        told = await self._tell(lambda answer: End(self.profile, discard, timeout_s, answer), timeout_s)
        assert isinstance(told, Closed)
        return told.receipt

    async def _tell(
        self,
        make: Callable[[Callable[[object], None]], object],
        timeout_s: float,
        *,
        silence: Problem | None = None,
    ) -> object:
        # A read may be asked twice, of an owner that is found in between: all within one deadline and a margin.
        return await self.run.tell(make, timeout_s + 2 * ANSWER_S, silence=silence)

    def _heard(self, reply: Reply, revision: str | None) -> None:
        self.revision = revision or self.revision
        if reply.lease is not None:
            self.next_sequence = reply.lease.next_sequence
            self.expires_in_s = reply.lease.expires_in_s
