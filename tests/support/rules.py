"""A synchronous owner on virtual time: `decide` with a journal, a browser and run records that tests control.

It performs a verdict exactly as the actor does: early answers, desk, one entry, answers, effects in
order, an `Again` at once and depth first. Other effects are answered at once as if all went well,
unless their kind is held back: then they wait in `pending` until a test answers them.
"""

from collections import deque
from dataclasses import dataclass, field
from typing import Literal, TypeVar

from lessor.errors import Code, Problem
from lessor.findings import Sent, Target
from lessor.journal import Ledger, fold
from lessor.lease import decide
from lessor.lease.alarm import alarm_ms
from lessor.lease.recover import Found, recover
from lessor.lease.verdict import (
    Again,
    Aim,
    Aimed,
    Alarm,
    ApprovalAsked,
    AskApproval,
    Asked,
    BrowserGone,
    CancelRead,
    ChoreOver,
    Desk,
    DialogClosed,
    Dispatch,
    DispatchDone,
    DropFiles,
    Effect,
    Event,
    GrantRead,
    KillBrowser,
    Killed,
    Look,
    Looked,
    Now,
    ReadDone,
    ReadFile,
    ReadGrant,
    ReadRuns,
    Release,
    RemoveObjects,
    Reseal,
    Resume,
    RunSeen,
    RunsRead,
    Say,
    Sealed,
    SealState,
    StartBrowser,
    Started,
    SweepObjects,
    TellDialog,
    Tend,
    Tended,
    TryState,
    Verdict,
    Visit,
)
from lessor.limits import Limits
from lessor.messages.action import Click, Commit, Observation, PageView
from lessor.messages.ids import Caller, request_key
from lessor.messages.record import AnyRecord, Entry
from lessor.messages.reply import LeaseView, Refused, Reply, TabsTold
from lessor.messages.request import (
    Acquire,
    Act,
    AskOutcome,
    Cancel,
    Close,
    CreateProfile,
    Navigate,
    Observe,
    ProfileRequest,
    Reconcile,
    Renew,
    RevokeProfile,
    RunRequest,
)
from lessor.messages.run import Approval, RunReading, RunRecord, RunStatus
from lessor.runs import ask_approval, decide_run, pending
from tests.support.history import Came, History, Hit, Moment, Ordered, RunWritten, Swept, Told, Wrote

E = TypeVar("E", bound=Effect)
R = TypeVar("R", bound=AnyRecord)
Finding = Literal["succeeded", "not_sent", "still_unknown"]

MINUTE_MS = 60_000
UNIX_MS = 1_700_000_000_000
"""Wall clock minus boot clock, for all of virtual time."""
ME = Caller("acme", "alice")
RINGS_MAX = 200
PAGE = Observation(url="https://shop.test/pay?token=s", title="Pay", revision="v1", text="12 EUR")
VIEW = PageView(url="https://shop.test/", title="Shop", revision="v1", status=200)
TARGET = Target("button Pay", "f" * 16, changed=False, token=None, url="https://shop.test/pay?token=s")


@dataclass
class Owner:
    """One profile's owner. `now_ms` is the boot clock; `T` in the scenarios is `Owner.began_ms`."""

    limits: Limits = field(default_factory=Limits)
    now_ms: int = 1_000_000
    boot: str = "boot-1"
    host: str = "host-1"
    create: bool = True
    keeper_ms: int = 24 * 60 * MINUTE_MS
    unix_ms: int = UNIX_MS
    """The wall clock's distance, for tests that put it on or back."""
    append_ms: int = 0
    """How long an append takes to be acknowledged; nothing is decided meanwhile."""
    ledger: Ledger = field(default_factory=Ledger)
    entries: list[tuple[int, Entry]] = field(default_factory=list[tuple[int, Entry]])
    history: History = field(default_factory=list[Moment])
    pending: list[Effect] = field(default_factory=list[Effect])
    answers: dict[int, Reply] = field(default_factory=dict[int, Reply])
    runs: dict[str, tuple[int, RunRecord]] = field(default_factory=dict[str, tuple[int, RunRecord]])
    held_back: set[type[Effect]] = field(default_factory=set[type[Effect]])
    released: bool = False
    key: str = "1"
    """The key that new seals use."""
    slots: int = 0
    ids: int = 0
    revisions: int = 0

    def __post_init__(self) -> None:
        self.began_ms = self.now_ms
        self.last = 1
        self.desk = self._new_desk()
        self.perform(recover(self.ledger, self.desk, "incarnation-1", Found(None, None), self.now()))
        if self.create:
            made = self.call(CreateProfile(id=self.id(), origins=("https://shop.test",)))
            assert not isinstance(made, Refused), made

    def _new_desk(self) -> Desk:
        return Desk(
            host=self.host,
            boot=self.boot,
            tenant=ME.tenant,
            profile="shop",
            limits=self.limits,
            epoch=self.last,
            route=f"route.{self.last}",
        )

    # Time.

    def now(self) -> Now:
        return Now(self.now_ms, self.unix_ms + self.now_ms, self.id("fresh"))

    def advance(self, to_ms: int) -> None:
        """Let time pass, ringing at every moment that the rules asked for."""
        rings = 0
        while (due := alarm_ms(self.ledger, self.desk)) is not None and due <= to_ms and not self.released:
            rings = rings + 1 if due <= self.now_ms else 0
            assert rings < RINGS_MAX, "the alarm rings without end"
            self.now_ms = max(self.now_ms, due)
            self.tell(Alarm())
        self.now_ms = max(self.now_ms, to_ms)

    def wait(self, seconds: float) -> None:
        self.advance(self.now_ms + round(seconds * 1000))

    def at(self, minutes: float, seconds: float = 0) -> None:
        """Advance to that many minutes after the beginning."""
        self.advance(self.began_ms + round(minutes * MINUTE_MS + seconds * 1000))

    # Asking.

    def id(self, kind: str = "id") -> str:
        self.ids += 1
        return f"{kind}-{self.ids}"

    def ask(self, request: ProfileRequest, caller: Caller = ME) -> int:
        """Hand a request in; its answer, once there is one, is `reply(slot)`."""
        self.slots += 1
        self.history.append(Came(self.now_ms, self.slots, caller, request))
        slot = self.slots
        self.tell(Asked(slot, caller, request, self.now_ms))
        return slot

    def reply(self, slot: int) -> Reply | None:
        return self.answers.get(slot)

    def call(self, request: ProfileRequest, caller: Caller = ME) -> Reply:
        """Ask something that must be answered at once."""
        slot = self.ask(request, caller)
        assert slot in self.answers, f"{request} is not answered yet"
        return self.answers[slot]

    # Performing.

    def tell(self, event: Event) -> None:
        self.perform(decide(self.ledger, self.desk, event, self.now()))

    def perform(self, verdict: Verdict) -> None:
        todo: deque[Event] = deque()
        self._perform(verdict, todo)
        while todo:
            self._perform(decide(self.ledger, self.desk, todo.popleft(), self.now()), todo)
        self._answer_pending()

    def _perform(self, verdict: Verdict, todo: deque[Event]) -> None:
        self._say(verdict.early)
        self.desk = verdict.desk
        if verdict.records:
            self._append(verdict.records)
        self._say(verdict.replies)
        todo.extendleft(effect.event for effect in reversed(verdict.effects) if isinstance(effect, Again))
        for effect in verdict.effects:
            if not isinstance(effect, Again):
                self.history.append(Ordered(self.now_ms, self.desk.epoch, effect))
                self.pending.append(effect)

    def _append(self, records: tuple[AnyRecord, ...]) -> None:
        self.last += 1
        entry = Entry(epoch=self.desk.epoch, nonce=self.id("nonce"), boot=self.boot, at_ms=self.now_ms, records=records)
        self.now_ms += self.append_ms
        fold(self.ledger, self.last, entry)
        self.entries.append((self.last, entry))
        self.history.append(Wrote(self.now_ms, self.last, entry))

    def _say(self, said: tuple[Say, ...]) -> None:
        for answer in said:
            assert answer.slot not in self.answers, f"slot {answer.slot} is answered twice"
            self.answers[answer.slot] = answer.reply
            self.history.append(Told(self.now_ms, answer.slot, answer.reply))

    # Effects.

    def hold(self, *kinds: type[Effect]) -> None:
        """From here on, effects of these kinds wait for the test."""
        self.held_back |= set(kinds)

    def let(self, *kinds: type[Effect]) -> None:
        """Answer these kinds by themselves again, those that wait included."""
        self.held_back -= set(kinds)
        self._answer_pending()

    def take(self, kind: type[E]) -> E:
        """The first pending effect of that kind; the test answers it with `tell`."""
        found = next(effect for effect in self.pending if isinstance(effect, kind))
        self.pending.remove(found)
        return found

    def _answer_pending(self) -> None:
        ready = next((effect for effect in self.pending if type(effect) not in self.held_back), None)
        if ready is not None:
            self.pending.remove(ready)
            self.go_well(ready)
            self._answer_pending()

    def go_well(self, effect: Effect) -> None:
        """Answer an effect as a healthy world does."""
        match effect:
            case ReadRuns():
                self.tell(self.read_runs(effect))
            case StartBrowser(instance=instance):
                until_ms = self.now_ms + self.keeper_ms
                self.tell(Started(instance, f"target-{instance}", self.ledger.generation, until_ms))
            case Aim(slot=slot):
                self.tell(Aimed(slot, TARGET))
            case ReadGrant(slot=slot, run=run):
                self.tell(GrantRead(slot, self.reading(run)))
            case AskApproval():
                self.tell(ApprovalAsked(effect.slot, self.ask_approval(effect)))
            case Dispatch():
                self.hit(effect)
                self.tell(DispatchDone(effect.slot, Sent(self.now_ms, PAGE)))
            case Visit(slot=slot, op=op):
                self.tell(ReadDone(slot, VIEW if isinstance(op, Navigate) else PAGE))
            case Look():
                self.tell(Looked(PAGE))
            case SealState(generation=generation):
                self.tell(Sealed(f"object-{generation}", "0" * 64, 100, self.key))
            case KillBrowser(instance=instance):
                self.tell(Killed(self.now_ms, instance))
            case TellDialog(asked=asked):
                gone = Problem(code=Code.ACTION_NOT_ALLOWED, message="No such dialog.")
                self.tell(DialogClosed(asked, gone))
            case Tend(asked=asked):
                self.tell(Tended(asked, TabsTold(tabs=())))
            case Resume() | ReadFile() | DropFiles():
                raise AssertionError(effect)
            case Reseal(slot=slot) | TryState(slot=slot):
                self.tell(ChoreOver(slot, Sealed(self.id("object"), "0" * 64, 100, self.key)))
            case RemoveObjects(slot=slot):
                self.tell(ChoreOver(slot, None))
            case SweepObjects():
                pass
            case CancelRead():
                self._cancel_read()
            case Release():
                self.released = True
            case Again():
                raise AssertionError(effect)

    def _cancel_read(self) -> None:
        for visit in [effect for effect in self.pending if isinstance(effect, Visit)]:
            self.pending.remove(visit)
            self.tell(ReadDone(visit.slot, Problem(code=Code.NAVIGATION_CANCELLED, message="Cancelled.")))

    def hit(self, sent: Dispatch, epoch: int | None = None) -> None:
        """The site sees the act."""
        act = sent.act
        key = act.step.request_key if act.step else None
        self.history.append(Hit(self.now_ms, epoch or self.desk.epoch, act.lease, act.sequence, key))

    @property
    def hits(self) -> list[Hit]:
        return [moment for moment in self.history if isinstance(moment, Hit)]

    def browser_gone(self) -> None:
        assert self.ledger.lease is not None
        self.tell(BrowserGone(self.ledger.lease.instance))

    def ordered(self, kind: type[E]) -> list[E]:
        orders = [moment.effect for moment in self.history if isinstance(moment, Ordered)]
        return [effect for effect in orders if isinstance(effect, kind)]

    def written(self, kind: type[R]) -> list[R]:
        records = [record for _, entry in self.entries for record in entry.records]
        return [record for record in records if isinstance(record, kind)]

    # Runs.

    def read_runs(self, order: ReadRuns) -> RunsRead:
        if order.create is not None and order.run not in self.runs:
            self.write_run(order.run, order.create)
        holder = self.reading(order.holder) if order.holder is not None else None
        return RunsRead(order.asked, self.reading(order.run), holder)

    def reading(self, run: str) -> RunReading:
        revision, record = self.runs.get(run, (0, None))
        return RunReading(run=run, revision=revision, record=record, read_ms=self.now_ms)

    def write_run(self, run: str, record: RunRecord) -> None:
        self.revisions += 1
        self.runs[run] = (self.revisions, record)
        self.history.append(RunWritten(self.now_ms, run, self.revisions, record))

    def ask_approval(self, order: AskApproval) -> Approval | Problem:
        after = ask_approval(order.run, order.claim, order.question)(self.runs[order.run][1])
        if isinstance(after, Problem):
            return after
        self.write_run(order.run, after)
        return pending(after, order.question)

    def decide_run(self, run: str, request: RunRequest) -> RunRecord | Problem:
        """A run verb, as any host serves it."""
        after = decide_run(run, ME.principal, self.runs[run][1], request, self.now().unix_ms)
        if not isinstance(after, Problem):
            self.write_run(run, after)
        return after

    def drop_run(self, run: str) -> None:
        del self.runs[run]
        self.revisions += 1
        self.history.append(RunWritten(self.now_ms, run, self.revisions, None))

    def set_run(
        self,
        run: str,
        status: RunStatus = RunStatus.RUNNING,
        *,
        claim: int = 1,
        attempt: int = 1,
        deadline_s: float = 6 * 3600,
    ) -> None:
        deadline_unix_ms = UNIX_MS + self.began_ms + round(deadline_s * 1000)
        own = Approval(id=self.id(), question="?", asked_unix_ms=0, until_unix_ms=deadline_unix_ms)
        record = RunRecord(
            principal=ME.principal,
            status=status,
            attempt=attempt,
            deadline_unix_ms=deadline_unix_ms,
            claim=claim,
            approvals=(own,) if status is RunStatus.PARKED else (),
        )
        self.write_run(run, record)

    def sweep(self, run: str, reading: RunReading | None = None) -> None:
        """Show the owner a run's record, as its host's sweep does each tick."""
        seen = reading or self.reading(run)
        self.history.append(Swept(self.now_ms, run, seen.revision))
        self.tell(RunSeen(seen))

    # Crashes.

    def crash(self, *, page: bool = True, gone: bool = True, boot: str | None = None, host: str | None = None) -> None:
        """Forget everything but the journal and activate anew; `page`: the browser was found and re-adopted."""
        self.boot, self.host = boot or self.boot, host or self.host
        self.pending.clear()
        self.last += 1
        self.ledger = Ledger()
        for sequence, entry in self.entries:
            fold(self.ledger, sequence, entry)
        self.desk = self._new_desk()
        found = Found(
            self.now_ms + self.keeper_ms if page else None,
            self.now_ms if gone and not page else None,
            None if page or gone or boot or host else self.now_ms + self.keeper_ms,
        )
        self.perform(recover(self.ledger, self.desk, self.id("incarnation"), found, self.now()))


@dataclass
class Worker:
    """A run's worker as the rules see it: it fills in lease, claim, sequence and deadlines."""

    owner: Owner
    run: str
    claim: int = 1
    attempt: int = 1
    name: str = "worker-a"
    seen: LeaseView | None = None

    def _learn(self, slot: int) -> Reply | None:
        reply = self.owner.reply(slot)
        if reply is not None and reply.lease is not None:
            self.seen = reply.lease
        return reply

    def _call(self, request: ProfileRequest) -> Reply:
        slot = self.owner.ask(request)
        reply = self._learn(slot)
        assert reply is not None, f"{request} is not answered yet"
        return reply

    @property
    def lease(self) -> str:
        assert self.seen is not None, "no lease yet"
        return self.seen.lease

    @property
    def next(self) -> int:
        assert self.seen is not None, "no lease yet"
        return self.seen.next_sequence

    @property
    def left_s(self) -> float:
        assert self.seen is not None, "no lease yet"
        return self.seen.expires_in_s

    def deadline_ms(self, timeout_s: float) -> int:
        return self.owner.now_ms + round(timeout_s * 1000)

    def acquiring(self, *, horizon_s: float = 600, wait_s: float = 0, budget_s: float = 10) -> Acquire:
        return Acquire(
            id=self.owner.id(),
            run=self.run,
            attempt=self.attempt,
            claim=self.claim,
            worker=self.name,
            horizon_s=horizon_s,
            wait_s=wait_s,
            budget_s=budget_s,
        )

    def acquire(self, *, horizon_s: float = 600, wait_s: float = 0) -> Reply:
        return self._call(self.acquiring(horizon_s=horizon_s, wait_s=wait_s))

    def poll(self, wait_s: float = 5, *, budget_s: float = 10) -> int:
        """An acquire that may have to wait: its slot."""
        return self.owner.ask(self.acquiring(wait_s=wait_s, budget_s=budget_s))

    def granted(self, *, horizon_s: float = 600) -> LeaseView:
        """Acquire something that must be free."""
        reply = self.acquire(horizon_s=horizon_s)
        assert reply.lease is not None, reply
        return reply.lease

    def renewal(self, horizon_s: float = 900) -> Renew:
        return Renew(id=self.owner.id(), lease=self.lease, claim=self.claim, horizon_s=horizon_s)

    def renew(self, horizon_s: float = 900) -> Reply:
        return self._call(self.renewal(horizon_s))

    def acting(
        self, *, ref: str = "e1", sequence: int | None = None, step: str | None = None, timeout_s: float = 20
    ) -> Act:
        commit = Commit(task="t1", step=step, request_key=request_key("t1", step)) if step else None
        return Act(
            id=self.owner.id(),
            lease=self.lease,
            claim=self.claim,
            deadline_ms=self.deadline_ms(timeout_s),
            sequence=sequence or self.next,
            revision="v1",
            action=Click(ref=ref),
            step=commit,
        )

    def act(
        self, *, ref: str = "e1", sequence: int | None = None, step: str | None = None, timeout_s: float = 20
    ) -> Reply:
        return self._call(self.acting(ref=ref, sequence=sequence, step=step, timeout_s=timeout_s))

    def navigating(self, *, sequence: int | None = None, timeout_s: float = 20) -> Navigate:
        return Navigate(
            id=self.owner.id(),
            lease=self.lease,
            claim=self.claim,
            deadline_ms=self.deadline_ms(timeout_s),
            sequence=sequence or self.next,
            url="https://shop.test/",
        )

    def navigate(self, *, sequence: int | None = None, timeout_s: float = 20) -> Reply:
        return self._call(self.navigating(sequence=sequence, timeout_s=timeout_s))

    def observing(self, timeout_s: float = 10) -> Observe:
        return Observe(id=self.owner.id(), lease=self.lease, claim=self.claim, deadline_ms=self.deadline_ms(timeout_s))

    def observe(self, timeout_s: float = 10) -> Reply:
        return self._call(self.observing(timeout_s))

    def closing(self, *, discard: bool = False, timeout_s: float = 10) -> Close:
        return Close(
            id=self.owner.id(),
            lease=self.lease,
            claim=self.claim,
            deadline_ms=self.deadline_ms(timeout_s),
            discard=discard,
        )

    def close(self, *, discard: bool = False) -> Reply:
        return self._call(self.closing(discard=discard))

    def cancel(self, request: str) -> Reply:
        return self._call(Cancel(id=self.owner.id(), lease=self.lease, claim=self.claim, request=request))

    def asking(self, sequence: int, *, claim: int | None = None) -> AskOutcome:
        return AskOutcome(id=self.owner.id(), lease=self.lease, claim=claim or self.claim, sequence=sequence)

    def outcome(self, sequence: int) -> Reply:
        return self._call(self.asking(sequence))

    def outcome_of(self, step: str) -> Reply:
        return self._call(AskOutcome(id=self.owner.id(), request_key=request_key("t1", step)))

    def reconcile(self, step: str, verdict: Finding, *, looked_up_ms: int | None = None) -> Reply:
        found = Reconcile(
            id=self.owner.id(),
            request_key=request_key("t1", step),
            verdict=verdict,
            evidence="looked it up",
            by="test",
            looked_up_ms=looked_up_ms,
        )
        return self._call(found)


def revoke(owner: Owner) -> Reply:
    return owner.call(RevokeProfile(id=owner.id()))


def code(reply: Reply | None) -> Code:
    """The code of a refusal; anything else fails."""
    assert isinstance(reply, Refused), reply
    return reply.error.code
