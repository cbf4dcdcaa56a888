"""A world around one owner that does what worlds do: several runs and workers, faults, lies of time, late effects.

Every method is one move; its numbers choose among what there is at the moment, so any numbers are
a legal move. The truth about effects is kept here: an input on its way may land until its page has
been gone for `settle_s`, and look-ups read the site as it was when they were sent.
"""

from dataclasses import dataclass, field

import msgspec

from lessor.errors import Code, problem
from lessor.findings import Away, NotSent, Sent
from lessor.lease.verdict import (
    Aim,
    Aimed,
    BrowserGone,
    Dispatch,
    DispatchDone,
    Effect,
    KillBrowser,
    Killed,
    Look,
    Looked,
    ReadDone,
    ReadRuns,
    RunsRead,
    SealFailed,
    SealState,
    StartBrowser,
    StartFailed,
    Visit,
)
from lessor.messages.ids import Caller, request_key
from lessor.messages.record import Activated
from lessor.messages.request import AskStatus, ProfileRequest, Reconcile, RevokeProfile
from lessor.messages.run import RunReading, RunStatus
from tests.support.history import Came, Wrote
from tests.support.invariants import violations
from tests.support.rules import ME, MINUTE_MS, PAGE, UNIX_MS, Finding, Owner, Worker

RUNS = ("r1", "r2", "r3")
STEPS = (None, None, "pay", "mail")
STATUSES = (*RunStatus, *[RunStatus.RUNNING] * 6)
TIMEOUTS_S = (20, 20, 5, 30, 60, 0.5, 10, 0)
PASSING_MS = (1, 20, 100, 300, 900, 2_000, 5_000, 5_000, 10_000, 30_000, 60_000, 60_000, 180_000, 900_000)
STRANGER = Caller("acme", "mallory")
AWAY = problem(Code.BROKER_UNAVAILABLE, "The broker is away.")
REFUSED = problem(Code.PAGE_CHANGED, "Look again.")


@dataclass
class Flying:
    """An input that was sent, by an owner of that epoch, and may still reach the site."""

    sent: Dispatch
    epoch: int


@dataclass
class World:
    owner: Owner = field(default_factory=Owner)
    workers: list[Worker] = field(default_factory=list[Worker])
    latest: dict[str, Worker] = field(default_factory=dict[str, Worker])
    flying: list[Flying] = field(default_factory=list[Flying])
    landed: set[tuple[str, int]] = field(default_factory=set[tuple[str, int]])
    asked: list[ProfileRequest] = field(default_factory=list[ProfileRequest])
    slots: dict[int, Worker] = field(default_factory=dict[int, Worker])
    look_ups: list[tuple[str, Finding, int]] = field(default_factory=list[tuple[str, Finding, int]])
    delayed: list[RunsRead] = field(default_factory=list[RunsRead])
    readings: list[RunReading] = field(default_factory=list[RunReading])
    tick_ms: int = 0

    def __post_init__(self) -> None:
        owner = self.owner
        owner.hold(ReadRuns, StartBrowser, Aim, Dispatch, Visit, Look, SealState, KillBrowser)
        for run in RUNS:
            owner.set_run(run)
            self._join(Worker(owner, run))
        self.tick_ms = owner.now_ms + MINUTE_MS

    def _join(self, worker: Worker) -> None:
        self.workers.append(worker)
        self.latest[worker.run] = worker

    # Workers.

    def worker(self, number: int) -> Worker:
        """Mostly one that its run's record names, sometimes one that was replaced."""
        self._learn()
        if number % 8 == 7:
            return self.workers[-1 - number // 8 % min(len(self.workers), 8)]
        return self.latest[RUNS[number % len(RUNS)]]

    def _learn(self) -> None:
        """Workers read the answers that have come; a lease view is all they keep."""
        for slot in [slot for slot in self.slots if slot in self.owner.answers]:
            lease = self.owner.answers[slot].lease
            if lease is not None:
                self.slots[slot].seen = lease
            del self.slots[slot]

    def send(self, request: ProfileRequest, worker: Worker | None, caller: Caller = ME) -> None:
        self._awake()
        slot = self.owner.ask(request, caller)
        if worker is not None:
            self.slots[slot] = worker
        self.asked = [*self.asked[-20:], request]

    def _awake(self) -> None:
        """A profile that was given back is activated anew."""
        if self.owner.released:
            self.owner.released = False
            self.owner.crash(page=False)

    def acquire(self, who: int, wait: int, horizon: int) -> None:
        worker = self.worker(who)
        horizon_s = (600, 60, 900, 7200, 120, 300, 30, 0)[horizon % 8]
        asked = worker.acquiring(horizon_s=horizon_s, wait_s=(5, 0)[wait % 2])
        self.send(asked, worker)

    def act(self, who: int, off: int, step: int, timeout: int) -> None:
        worker = self.worker(who)
        if not self._holds(worker):
            self.acquire(who, off, step)
        if worker.seen is not None:
            sequence = max(1, worker.next + (0, 0, 0, 0, -1, 1)[off % 6])
            timeout_s = TIMEOUTS_S[timeout % len(TIMEOUTS_S)]
            ref = f"e{off // 6 % 2}"
            self.send(worker.acting(ref=ref, sequence=sequence, step=STEPS[step % 4], timeout_s=timeout_s), worker)

    def _holds(self, worker: Worker) -> bool:
        held = self.owner.ledger.lease
        return worker.seen is not None and held is not None and held.phase == "live" and held.id == worker.lease

    def read(self, who: int, navigate: int, timeout: int) -> None:
        worker = self.worker(who)
        if worker.seen is not None:
            timeout_s = TIMEOUTS_S[timeout % len(TIMEOUTS_S)]
            both = (worker.navigating(timeout_s=timeout_s), worker.observing(timeout_s))
            self.send(both[navigate % 2], worker)

    def close(self, who: int, discard: int) -> None:
        worker = self.worker(who)
        if worker.seen is not None:
            self.send(worker.closing(discard=discard % 4 == 3), worker)

    def renew(self, who: int, horizon: int) -> None:
        worker = self.worker(who)
        if worker.seen is not None:
            self.send(worker.renewal((900, 60, 7200)[horizon % 3]), worker)

    def ask_outcome(self, who: int, off: int) -> None:
        worker = self.worker(who)
        if worker.seen is not None:
            self.send(worker.asking(max(1, worker.next + (0, -1, 1)[off % 3])), worker)

    def cancel(self, who: int) -> None:
        worker = self.worker(who)
        current = self.owner.desk.operation
        if worker.seen is not None and current is not None:
            worker.cancel(current.op.id)

    def repeat(self, which: int) -> None:
        """The network delivers an earlier request once more, as it was."""
        current = self.owner.desk.operation
        if current is not None and which % 4 == 3:
            self.send(current.op, None)
        elif self.asked:
            self.send(self.asked[which % len(self.asked)], None)

    def stranger(self, which: int) -> None:
        request = self.asked[which % len(self.asked)] if self.asked else AskStatus(id="s1")
        self.send(request, None, STRANGER)

    def revoke(self) -> None:
        self.send(RevokeProfile(id=self.owner.id()), None)

    # Runs.

    def take_run(self, run: int, attempt: int) -> None:
        name = RUNS[run % len(RUNS)]
        record = self.owner.runs[name][1]
        risen = int(attempt % 4 == 3)
        changed = msgspec.structs.replace(
            record,
            status=RunStatus.RUNNING,
            claim=record.claim + 1,
            attempt=record.attempt + risen,
            deadline_unix_ms=UNIX_MS + self.owner.now_ms + (20, 150)[attempt % 2] * MINUTE_MS,
        )
        self.owner.write_run(name, changed)
        self._join(Worker(self.owner, name, record.claim + 1, record.attempt + risen))

    def set_status(self, run: int, status: int) -> None:
        name = RUNS[run % len(RUNS)]
        record = self.owner.runs[name][1]
        changed = msgspec.structs.replace(record, status=STATUSES[status % len(STATUSES)])
        self.owner.write_run(name, changed)

    def read_for_a_sweep(self, run: int) -> None:
        self.readings = [*self.readings[-5:], self.owner.reading(RUNS[run % len(RUNS)])]

    def read_runs(self, which: int) -> None:
        """The records of an acquire are read now, and reach the owner later."""
        reads = [effect for effect in self.owner.pending if isinstance(effect, ReadRuns)]
        if reads:
            order = reads[which % len(reads)]
            self.owner.pending.remove(order)
            self.delayed.append(self.owner.read_runs(order))

    def deliver_runs(self, which: int) -> None:
        if self.delayed:
            self.owner.tell(self.delayed.pop(which % len(self.delayed)))

    def deliver_reading(self, which: int) -> None:
        if self.readings and not self.owner.released:
            reading = self.readings[which % len(self.readings)]
            self.owner.sweep(reading.run, reading)

    # Steps.

    def look_up(self, step: int) -> None:
        key = request_key("t1", ("pay", "mail")[step % 2])
        seen = any(hit.request_key == key for hit in self.owner.hits)
        self.look_ups = [*self.look_ups[-5:], (key, "succeeded" if seen else "not_sent", self.owner.now_ms)]

    def reconcile(self, which: int) -> None:
        if self.look_ups:
            key, verdict, at_ms = self.look_ups[which % len(self.look_ups)]
            found = Reconcile(
                id=self.owner.id(), request_key=key, verdict=verdict, evidence="site", by="look-up", looked_up_ms=at_ms
            )
            self.send(found, None)

    # The browser and the site.

    def land(self, which: int) -> None:
        """An input on its way reaches the site, if that can still be."""
        pending = [effect for effect in self.owner.pending if isinstance(effect, Dispatch)]
        ways = [*self.flying, *(Flying(sent, self.owner.desk.epoch) for sent in pending)]
        if ways:
            self._land(ways[which % len(ways)])

    def _land(self, way: Flying) -> None:
        number = (way.sent.act.lease, way.sent.act.sequence)
        held = self.owner.ledger.leases[number[0]]
        gone_ms = held.gone_ms if held.phase == "closed" else None
        if number in self.landed or (gone_ms is not None and self.owner.now_ms >= gone_ms + 30_000):
            return
        self.landed.add(number)
        self.owner.hit(way.sent, way.epoch)

    def complete(self, which: int, how: int) -> None:
        """One effect under way comes back, one way or another."""
        pending = self.owner.pending
        if not pending:
            return
        effect = pending.pop(which % len(pending))
        if how % 8 < 6 and not isinstance(effect, Dispatch):
            self.owner.go_well(effect)
        else:
            self._come_back(effect, how)

    def flow(self, count: int) -> None:
        """The next few effects come back well."""
        for _ in range(1 + count % 6):
            if self.owner.pending:
                effect = self.owner.pending.pop(0)
                if isinstance(effect, Dispatch):
                    self._dispatched(effect, 0)
                else:
                    self.owner.go_well(effect)

    def _come_back(self, effect: Effect, how: int) -> None:
        owner = self.owner
        away = list(Away)[how % 3]
        match effect:
            case ReadRuns(asked=asked):
                read = owner.read_runs(effect)
                owner.tell(RunsRead(asked, AWAY, read.holder) if how % 2 else RunsRead(asked, read.mine, AWAY))
            case StartBrowser(instance=instance):
                owner.tell(StartFailed(instance, AWAY))
            case Aim(slot=slot):
                owner.tell(Aimed(slot, REFUSED if how % 2 else away))
            case Dispatch():
                self._dispatched(effect, how)
            case Visit(slot=slot):
                owner.tell(ReadDone(slot, REFUSED if how % 2 else away))
            case Look():
                owner.tell(Looked(None))
            case SealState():
                owner.tell(SealFailed(AWAY))
            case KillBrowser(instance=instance):
                owner.tell(Killed(None, instance))
            case _:
                raise AssertionError(effect)

    def _dispatched(self, sent: Dispatch, how: int) -> None:
        """Sent; or proved unsent; or nobody knows, and it may land later."""
        owner = self.owner
        way = Flying(sent, owner.desk.epoch)
        number = (sent.act.lease, sent.act.sequence)
        if how % 8 < 4 and owner.ledger.leases[number[0]].phase != "closed":
            self._land(way)
            owner.tell(DispatchDone(sent.slot, Sent(owner.now_ms, PAGE if how % 2 else None)))
        elif how % 8 == 4 and number not in self.landed:
            owner.tell(DispatchDone(sent.slot, NotSent("covered")))
        else:
            self.flying.append(way)
            owner.tell(DispatchDone(sent.slot, list(Away)[how % 3]))

    def browser_dies(self, which: int) -> None:
        held, start = self.owner.ledger.lease, self.owner.desk.start
        if self.owner.released:
            return
        instances = [each.instance for each in (held, start) if each is not None]
        if instances:
            self.owner.tell(BrowserGone(instances[which % len(instances)]))

    def crash(self, how: int) -> None:
        """The host dies; its successor finds the page, or its confirmed end, or neither."""
        epoch = self.owner.desk.epoch
        self.flying += [Flying(effect, epoch) for effect in self.owner.pending if isinstance(effect, Dispatch)]
        held = self.owner.ledger.lease
        self.delayed.clear()
        boot = f"boot-{self.owner.id()}" if how % 8 == 6 else None
        there = held is not None and held.phase != "closed" and self.owner.desk.browser == "live"
        self.owner.released = False
        self.owner.crash(page=there and how % 8 < 5, gone=how % 8 != 7, boot=boot)

    def store_slows(self, by: int) -> None:
        """From here on appends take this long; 20 s is an outage of the broker that everyone survives."""
        self.owner.append_ms = (0, 0, 0, 0, 1, 5, 200, 20_000)[by % 8]

    def time_passes(self, amount: int) -> None:
        """A little, a minute, or long; sweeps come on every tick."""
        until_ms = self.owner.now_ms + PASSING_MS[amount % len(PASSING_MS)]
        while self.tick_ms <= until_ms:
            self.owner.advance(self.tick_ms)
            for run in RUNS:
                if not self.owner.released:
                    self.owner.sweep(run)
            self.tick_ms += MINUTE_MS
        self.owner.advance(until_ms)

    # Judgement.

    def violations(self) -> list[str]:
        owner = self.owner
        # One tick more than promised: a reading is dropped when the lease is used in the same millisecond,
        # which costs a tick, and an outage of the store delays sweeps.
        found = violations(owner.history, now_ms=owner.now_ms, unix_ms=UNIX_MS, owner=ME, limits=owner.limits, ticks=3)
        return found + self._mind()

    def _mind(self) -> list[str]:
        """What the owner keeps in mind fits together."""
        desk, held = self.owner.desk, self.owner.ledger.lease
        live = held is not None and held.phase != "closed"
        waiting = [place for place in desk.queue if place.asked is not None]
        wrong = {
            "a start beside a lease": live and desk.start is not None,
            "an ending without a lease": desk.ending is not None and not live,
            "a closing lease without an end": held is not None and held.phase == "closing" and desk.ending is None,
            "a lane without an operation": bool(desk.lane) and desk.operation is None,
            "a question without an operation": bool(desk.questions) and desk.operation is None,
            "a poll of a free profile that nobody decides": bool(waiting)
            and not live
            and desk.start is None
            and desk.queue[0].asked is not None,
        }
        return [what for what, is_so in wrong.items() if is_so]

    def settle(self) -> None:
        """Everything heals: effects come back well, time passes; then nobody may be left without an answer."""
        self.owner.let(ReadRuns, StartBrowser, Aim, Visit, Look, SealState, KillBrowser)
        self.owner.append_ms = 0
        for _ in range(6):
            while self.owner.pending or self.delayed:
                self.deliver_runs(0)
                self.flow(0)
            self.time_passes(10)
        assert not self.owner.pending, self.owner.pending

    def silent(self) -> list[int]:
        """Requests that came after the last activation and have no answer."""
        slots = list[int]()
        for moment in self.owner.history:
            if isinstance(moment, Came):
                slots.append(moment.slot)
            elif isinstance(moment, Wrote) and isinstance(moment.entry.records[0], Activated):
                slots.clear()
        return [slot for slot in slots if slot not in self.owner.answers]
