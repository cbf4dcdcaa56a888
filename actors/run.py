"""The worker's side of one run: takes it, holds its leases, keeps their sequence, settles what is left open.

One page operation per lease is under way; renewals, closes and reports do not wait for it.
Conversations run on the loop and come back as results; only this actor changes what it holds.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol

from lessor.actors.bridge import Io
from lessor.actors.process import ChildFailed, Process
from lessor.actors.talk import Hold, Result, Talk, as_problem
from lessor.errors import Code, Problem, problem
from lessor.messages.action import AnyAction, Commit, Match
from lessor.messages.reply import AnyReply, ArtifactTold, DialogAnswered, RunTold, TabsTold
from lessor.messages.request import Acquire, Act, AnswerDialog, Navigate, Observe, ReportRun, TakeRun, TendRequest
from lessor.messages.run import Constraint, RunStatus
from lessor.trust import Heard

Answered = AnyReply | Problem
Reply = Callable[[Answered], None]
CLOSE_TRIES_MAX = 3


@dataclass(frozen=True, slots=True)
class Take:
    """Become the run's worker; safe to repeat."""

    deadline: datetime | None
    answer: Reply
    parent: str | None = None


@dataclass(frozen=True, slots=True)
class Want:
    """Acquire a profile: closes that could not be delivered are settled first (contract 14)."""

    profile: str
    horizon_s: float
    patience_s: float
    answer: Reply


@dataclass(frozen=True, slots=True)
class Go:
    profile: str
    url: str
    tab: str
    timeout_s: float
    answer: Reply


@dataclass(frozen=True, slots=True)
class See:
    profile: str
    tab: str
    timeout_s: float
    answer: Reply


@dataclass(frozen=True, slots=True)
class Do:
    profile: str
    action: AnyAction
    revision: str
    tab: str
    match: Match
    step: Commit | None
    timeout_s: float
    answer: Reply
    constraint: Constraint | None = None


@dataclass(frozen=True, slots=True)
class Decide:
    """Answer a dialog: never behind the act that it holds."""

    profile: str
    dialog: str
    accept: bool
    text: str
    timeout_s: float
    answer: Reply


@dataclass(frozen=True, slots=True)
class Aside:
    """Something beside the page operations: never behind one."""

    profile: str
    kind: type[TendRequest]
    fields: dict[str, object]
    timeout_s: float
    answer: Reply


@dataclass(frozen=True, slots=True)
class End:
    """Close the profile's lease; seals unless `discard`."""

    profile: str
    discard: bool
    timeout_s: float
    answer: Reply


@dataclass(frozen=True, slots=True)
class Report:
    """Write the run's status; leases end first when it does not need the page any more (contract 21)."""

    status: RunStatus
    answer: Reply
    question: str | None = None


@dataclass(frozen=True, slots=True)
class RunOver:
    """The run has ended elsewhere in this process: its leases are closed at once (contract, numbers)."""

    run: str


@dataclass(frozen=True, slots=True)
class LeaseGone:
    """The owner said on a tick that this lease cannot be renewed any more."""

    lease: str
    error: Problem


PageCall = Go | See | Do
Asking = Take | Want | End | Report | Decide | Aside | PageCall


class Held(Protocol):
    """Told which leases this run holds, so that the worker's tick renews them."""

    def __call__(self, lease: str, host: str | None) -> None: ...


@dataclass(slots=True)
class Desk:
    """One profile of the run: what it holds, and the calls that wait for the page."""

    hold: Hold | None = None
    busy: bool = False
    lane: deque[PageCall] = field(default_factory=deque[PageCall])
    last: Hold | None = None
    """The lease that was closed last: asked again, the owner gives its receipt again (contract 21)."""
    debts: list[Hold] = field(default_factory=list[Hold])
    """Closes that could not be delivered."""


class RunActor(Process):
    """One per run in this worker."""

    def __init__(
        self,
        io: Io,
        talk: Talk,
        run: str,
        attempt: int,
        worker: str,
        held: Held,
        parent: Callable[[ChildFailed], None],
    ) -> None:
        super().__init__(io, f"run {run}", parent)
        self._talk, self._run_name, self._attempt, self._worker = talk, run, attempt, worker
        self._held = held
        self._holder = talk.fresh()
        self._claim: int | None = None
        self._deadline: datetime | None = None
        self._desks: dict[str, Desk] = {}
        self._open: list[Asking] = []
        """Calls without an answer yet, in the order in which they came."""

    def __repr__(self) -> str:
        leases = ", ".join(
            f"{name}: lease {desk.hold.view.lease} claim {desk.hold.view.claim} next {desk.hold.view.next_sequence}"
            for name, desk in self._desks.items()
            if desk.hold is not None
        )
        return f"<RunActor {self._run_name} claim {self._claim}: {leases or 'no lease'}>"

    def receive(self, message: object) -> None:
        if isinstance(message, Asking):
            self._open.append(message)
        match message:
            case Take():
                self._take(message)
            case Want():
                self._want(message)
            case Go() | See() | Do():
                desk = self._desk(message.profile)
                desk.lane.append(message)
                self._next(desk)
            case Decide():
                self._decide(message)
            case Aside():
                self._aside(message)
            case End():
                self._end(message)
            case Report():
                self._report(message)
            case LeaseGone(lease=lease):
                self._lease_gone(lease)
            case RunOver(run=run):
                if run == self._run_name:
                    self._run_over()
            case _:
                raise AssertionError(message)

    def _answer(self, call: Asking, answer: Answered) -> None:
        if call in self._open:
            self._open.remove(call)
            call.answer(answer)

    def ended(self) -> None:
        """Nobody waits for nothing: an act that had begun may have happened, and is looked up (contract 13)."""
        for call in tuple(self._open):
            begun = isinstance(call, Do) and call not in self._desk(call.profile).lane
            self._answer(call, _unsettled() if begun else _stopped())

    def unheard(self, message: object) -> None:
        if isinstance(message, Asking):
            message.answer(_stopped())

    def _desk(self, profile: str) -> Desk:
        return self._desks.setdefault(profile, Desk())

    # -- the run record

    def _take(self, take: Take) -> None:
        self._deadline = take.deadline
        request = TakeRun(
            id=self._talk.fresh(),
            holder=self._holder,
            worker=self._worker,
            attempt=self._attempt,
            deadline=take.deadline,
            parent=take.parent,
        )

        def taken(heard: Heard) -> None:
            if isinstance(heard, RunTold):
                self._claim = heard.record.claim
            self._answer(take, heard if isinstance(heard, RunTold) else as_problem(heard))

        subject = self._talk.to.run(self._run_name, "take")
        self.perform(lambda: self._talk.patiently(subject, request, 10.0), taken)

    def _report(self, report: Report) -> None:
        held = [desk.hold for desk in self._desks.values() if desk.hold is not None]
        if not report.status.needs_page:
            for desk in self._desks.values():
                self._let_go(desk, report.status)
        claim = self._claim

        async def write() -> Heard:
            if not report.status.needs_page:
                for hold in held:
                    await self._talk.close(hold, discard=False, timeout_s=20.0)
            if claim is None:
                return problem(Code.INVALID_REQUEST, "Take the run before you report on it.")
            request = ReportRun(id=self._talk.fresh(), claim=claim, status=report.status, question=report.question)
            return await self._talk.patiently(self._talk.to.run(self._run_name, "report"), request, 10.0)

        self.perform(
            write, lambda heard: self._answer(report, heard if isinstance(heard, RunTold) else as_problem(heard))
        )

    # -- leases

    def _want(self, want: Want) -> None:
        desk = self._desk(want.profile)
        if self._claim is None:
            self._answer(want, problem(Code.INVALID_REQUEST, "Take the run before you acquire for it."))
            return
        request = Acquire(
            id=self._talk.fresh(),
            run=self._run_name,
            attempt=self._attempt,
            claim=self._claim,
            worker=self._worker,
            horizon_s=want.horizon_s,
            wait_s=2.0,
            run_deadline=self._deadline,
        )
        debts, desk.debts = desk.debts, []

        async def acquire() -> tuple[Result, list[Hold]]:
            left = [debt for debt in debts if not await self._settled(debt)]
            return await self._talk.acquire(request, want.profile, want.patience_s), left

        def acquired(outcome: tuple[Result, list[Hold]]) -> None:
            result, left = outcome
            desk.debts.extend(left)
            self._keep(desk, result)
            self._answer(want, result.answer)

        self.perform(acquire, acquired)

    async def _settled(self, debt: Hold) -> bool:
        return not isinstance(await self._talk.close(debt, discard=False, timeout_s=10.0), Problem)

    def _keep(self, desk: Desk, result: Result) -> None:
        before = desk.hold
        desk.hold = result.hold
        if before is not None and (result.hold is None or result.hold.view.lease != before.view.lease):
            self._held(before.view.lease, None)
        if result.hold is not None:
            self._held(result.hold.view.lease, result.hold.view.host)
        if result.close is not None:
            self._close_later(desk, result.close)

    def _close_later(self, desk: Desk, hold: Hold) -> None:
        """Give up a lease that is not trusted any more; what cannot be delivered is settled before the next acquire."""

        def closed(answer: Answered) -> None:
            if isinstance(answer, Problem):
                desk.debts.append(hold)

        self.perform(lambda: self._talk.close(hold, discard=False, timeout_s=5.0), closed)

    def _let_go(self, desk: Desk, status: RunStatus) -> None:
        if desk.hold is not None:
            self._held(desk.hold.view.lease, None)
        desk.hold = None
        while desk.lane:
            self._answer(desk.lane.popleft(), problem(Code.RUN_ENDED, f"The run was reported {status}."))

    def _run_over(self) -> None:
        for desk in self._desks.values():
            if desk.hold is not None:
                self._close_later(desk, desk.hold)
            self._let_go(desk, RunStatus.CANCELLED)

    def _lease_gone(self, lease: str) -> None:
        for desk in self._desks.values():
            if desk.hold is not None and desk.hold.view.lease == lease:
                desk.hold = None
                self._held(lease, None)

    def _end(self, end: End) -> None:
        desk = self._desk(end.profile)
        hold = desk.hold or desk.last
        if hold is None:
            self._answer(end, _no_lease(end.profile))
            return
        if desk.hold is not None:
            desk.hold = None
            self._held(hold.view.lease, None)
        desk.last = hold

        def ended(answer: Answered) -> None:
            if isinstance(answer, Problem) and answer.retryable:
                desk.debts.append(hold)
            self._answer(end, answer)

        self.perform(lambda: self._talk.close(hold, end.discard, end.timeout_s), ended)

    # -- the page

    def _aside(self, call: Aside) -> None:
        hold = self._desk(call.profile).hold
        if hold is None:
            self._answer(call, _no_lease(call.profile))
            return

        def told(heard: Heard) -> None:
            self._answer(call, heard if isinstance(heard, TabsTold | ArtifactTold) else as_problem(heard))

        self.perform(lambda: self._talk.aside(hold, call.kind, call.fields, call.timeout_s), told)

    def _decide(self, call: Decide) -> None:
        desk = self._desk(call.profile)
        hold = desk.hold
        if hold is None:
            self._answer(call, _no_lease(call.profile))
            return
        request = AnswerDialog(
            id=self._talk.fresh(),
            lease=hold.view.lease,
            claim=hold.view.claim,
            deadline_ms=hold.deadline_ms(self._talk.clock.now_ms(), call.timeout_s),
            dialog=call.dialog,
            accept=call.accept,
            text=call.text,
        )

        def told(heard: Heard) -> None:
            self._answer(call, heard if isinstance(heard, DialogAnswered) else as_problem(heard))

        self.perform(lambda: self._talk.decide(hold, request, call.timeout_s), told)

    def _next(self, desk: Desk) -> None:
        while desk.lane and not desk.busy:
            call = desk.lane.popleft()
            if desk.hold is None:
                self._answer(call, _no_lease(call.profile))
                continue
            desk.busy = True
            self._begin(desk, call, desk.hold)

    def _begin(self, desk: Desk, call: PageCall, hold: Hold) -> None:
        request = self._request(call, hold)

        async def converse() -> Result:
            if isinstance(request, Act):
                return await self._talk.act(hold, request, call.timeout_s)
            return await self._talk.read(hold, request, call.timeout_s)

        def over(result: Result) -> None:
            desk.busy = False
            if desk.hold is not None and desk.hold.view.lease == hold.view.lease:
                self._keep(desk, result)
            elif result.close is not None:
                self._close_later(desk, result.close)
            self._answer(call, result.answer)
            self._next(desk)

        self.perform(converse, over)

    def _request(self, call: PageCall, hold: Hold) -> Navigate | Observe | Act:
        view, fresh = hold.view, self._talk.fresh()
        deadline_ms = hold.deadline_ms(self._talk.clock.now_ms(), call.timeout_s)
        match call:
            case Go():
                return Navigate(
                    id=fresh,
                    lease=view.lease,
                    claim=view.claim,
                    deadline_ms=deadline_ms,
                    sequence=view.next_sequence,
                    tab=call.tab,
                    url=call.url,
                )
            case See():
                return Observe(id=fresh, lease=view.lease, claim=view.claim, deadline_ms=deadline_ms, tab=call.tab)
            case Do():
                return Act(
                    id=fresh,
                    lease=view.lease,
                    claim=view.claim,
                    deadline_ms=deadline_ms,
                    sequence=view.next_sequence,
                    tab=call.tab,
                    revision=call.revision,
                    action=call.action,
                    match=call.match,
                    step=call.step,
                    constraint=call.constraint,
                )


def _no_lease(profile: str) -> Problem:
    return problem(Code.LEASE_CLOSED, f"This run holds no lease of {profile!r}: acquire it.")


def _stopped() -> Problem:
    return problem(Code.MOVED, "The run's actor stopped before it did this: take the run again.")


def _unsettled() -> Problem:
    return problem(
        Code.OUTCOME_UNKNOWN,
        "The run's actor stopped while the act was under way: ask for its outcome, or look it up by its request key.",
    )
