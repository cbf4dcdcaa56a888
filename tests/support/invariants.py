"""What must always be true of a history (the P of the design), one scan each: plain functions, no state.

Each yields what it found wrong, a sentence per finding. All are safety properties: a violation once
in a history stays in every longer one, so checking the whole is checking every prefix.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from lessor.errors import Class, Code
from lessor.lease.verdict import Aim, Dispatch, Visit
from lessor.limits import HORIZON_S_MAX, LIFE_S_MAX, Limits, ms
from lessor.messages.ids import Caller
from lessor.messages.record import (
    Activated,
    AnyRecord,
    Attached,
    Entry,
    Intent,
    LeaseClosed,
    LeaseClosing,
    LeaseGranted,
    LeaseRenewed,
    Outcome,
    ProfileChanged,
    Reconciled,
    Rewrapped,
    SealCommitted,
    Skipped,
)
from lessor.messages.reply import Acted, ActOutcome, Closed, Granted, OutcomeTold, Refused, Renewed
from lessor.messages.request import Acquire, Act, AskOutcome, Cancel, Close, LeaseRequest, ProfileRequest
from lessor.messages.run import RunRecord
from tests.support.history import Came, History, Hit, Ordered, RunWritten, Told, Wrote

Findings = Iterator[str]
Number = tuple[str, int]
"""A lease and a sequence."""


def records(history: History) -> Iterator[tuple[int, Entry, AnyRecord]]:
    """Every record with its place in the history."""
    for place, moment in enumerate(history):
        if isinstance(moment, Wrote):
            for record in moment.entry.records:
                yield place, moment.entry, record


def p2_epochs(history: History) -> Findings:
    """Epochs never fall, sequences strictly rise, no nonce is used twice."""
    epoch, last, nonces = 0, 0, set[str]()
    for moment in history:
        if isinstance(moment, Wrote):
            entry = moment.entry
            if entry.epoch < epoch or moment.sequence <= last or entry.nonce in nonces:
                yield f"P2: {moment} after epoch {epoch}, sequence {last}"
            epoch, last = entry.epoch, moment.sequence
            nonces.add(entry.nonce)


def p3_intent_first(history: History) -> Findings:
    """Every effect has an Intent of its lease and sequence before it, in the same epoch."""
    intents = dict[Number, int]()
    for moment in history:
        if isinstance(moment, Wrote):
            for record in moment.entry.records:
                if isinstance(record, Intent):
                    intents[record.lease, record.sequence] = moment.entry.epoch
        elif isinstance(moment, Hit) and intents.get((moment.lease, moment.sequence)) != moment.epoch:
            yield f"P3: {moment} without an intent of its epoch"


def p4_at_most_once(history: History) -> Findings:
    """One effect per number; per request key one, unless every earlier commit is settled as without effect."""
    seen, keys = set[Number](), dict[str, list[Number]]()
    for place, moment in enumerate(history):
        if not isinstance(moment, Hit):
            continue
        number = (moment.lease, moment.sequence)
        if number in seen:
            yield f"P4: {moment} happened twice"
        seen.add(number)
        if moment.request_key is not None:
            earlier = keys.setdefault(moment.request_key, [])
            yield from (
                f"P4: {moment} after {before} with the same key, which nobody had settled as without effect"
                for before in earlier
                if not _cleared(history[:place], moment.request_key, before)
            )
            earlier.append(number)


def _cleared(history: History, key: str, commit: Number) -> bool:
    """Whether that commit is NOT_SENT, or a counting verdict after it says that nothing happened."""
    commits = list[Number]()
    for _, _, record in records(history):
        if isinstance(record, Intent) and record.request_key == key:
            commits.append((record.lease, record.sequence))
        elif isinstance(record, Outcome) and (record.lease, record.sequence) == commit:
            if record.outcome is ActOutcome.NOT_SENT:
                return True
        elif isinstance(record, Reconciled) and record.request_key == key and commits[-1:] == [commit]:
            cleared = record.counted and record.verdict == "not_sent"
            if cleared:
                return True
    return False


def p5_one_outcome(history: History) -> Findings:
    """One Outcome per Intent, after it; a Skipped number has no Intent."""
    intents, settled = set[Number](), set[Number]()
    for _, entry, record in records(history):
        match record:
            case Intent():
                if (record.lease, record.sequence) in settled:
                    yield f"P5: {record} of a number that was skipped"
                intents.add((record.lease, record.sequence))
            case Outcome():
                number = (record.lease, record.sequence)
                if number not in intents or number in settled:
                    yield f"P5: {record} without its intent, or again"
                settled.add(number)
            case Activated():
                outcomes = [other for other in entry.records if isinstance(other, Outcome)]
                left = intents - settled - {(outcome.lease, outcome.sequence) for outcome in outcomes}
                if left:
                    yield f"P5: {record} leaves {left} open"
            case Skipped():
                number = (record.lease, record.sequence)
                if number in intents or number in settled:
                    yield f"P5: {record} of a number in use"
                settled.add(number)
            case _:
                pass


def p6_truth(history: History) -> Findings:
    """Applied: the effect came before. NOT_SENT, skipped, or so reconciled: no effect, ever."""
    hits, void = set[Number](), dict[Number, AnyRecord]()
    commits = dict[str, Number]()
    outcomes = dict[Number, ActOutcome]()
    for moment in history:
        if isinstance(moment, Hit):
            number = (moment.lease, moment.sequence)
            hits.add(number)
            if number in void:
                yield f"P6: {moment} after {void[number]}"
        elif isinstance(moment, Wrote):
            for record in moment.entry.records:
                match record:
                    case Intent(request_key=str() as key):
                        commits[key] = (record.lease, record.sequence)
                    case Outcome():
                        number = (record.lease, record.sequence)
                        outcomes[number] = record.outcome
                        if record.outcome is ActOutcome.APPLIED and number not in hits:
                            yield f"P6: {record} before any effect"
                        if record.outcome is ActOutcome.NOT_SENT:
                            void[number] = record
                    case Skipped():
                        void[record.lease, record.sequence] = record
                    case Reconciled(counted=True, verdict="not_sent"):
                        void[commits[record.request_key]] = record
                    case _:
                        pass
                if isinstance(record, Outcome | Skipped | Reconciled):
                    yield from (f"P6: {fact} though it happened" for number, fact in void.items() if number in hits)


@dataclass
class _Told:
    """What the journal said at some point: enough to judge an answer."""

    outcomes: dict[Number, ActOutcome] = field(default_factory=dict[Number, ActOutcome])
    intents: dict[Number, int] = field(default_factory=dict[Number, int])
    """With the claim that made it."""
    keys: dict[str, set[Number]] = field(default_factory=dict[str, set[Number]])
    succeeded: set[str] = field(default_factory=set[str])
    granted: dict[str, int] = field(default_factory=dict[str, int])
    """Lease -> recorded expiry."""
    closed: dict[str, LeaseClosed] = field(default_factory=dict[str, LeaseClosed])
    sealed: dict[str, int | None] = field(default_factory=dict[str, int | None])
    """Lease -> its committed generation: the receipt, also before its browser is gone."""

    def learn(self, record: AnyRecord) -> None:
        match record:
            case Intent():
                self.intents[record.lease, record.sequence] = record.claim
                if record.request_key is not None:
                    self.keys.setdefault(record.request_key, set()).add((record.lease, record.sequence))
            case Outcome():
                self.outcomes[record.lease, record.sequence] = record.outcome
            case Skipped():
                self.outcomes[record.lease, record.sequence] = ActOutcome.NOT_SENT
            case Reconciled(counted=True, verdict="succeeded"):
                self.succeeded.add(record.request_key)
            case LeaseGranted():
                self.granted[record.lease] = record.expires_ms
            case LeaseRenewed():
                self.granted[record.lease] = record.expires_ms
            case LeaseClosed():
                self.closed[record.lease] = record
            case SealCommitted(lease=str(lease), unhealthy=unhealthy):
                self.sealed[lease] = None if unhealthy else record.generation
            case _:
                pass


def p8_output_gate(history: History) -> Findings:
    """No answer before what it says is on record; all answers for one action agree with it."""
    told, asked = _Told(), dict[int, ProfileRequest]()
    for moment in history:
        match moment:
            case Came():
                asked[moment.slot] = moment.request
            case Wrote():
                for record in moment.entry.records:
                    told.learn(record)
            case Told():
                wrong = _disagrees(told, asked[moment.slot], moment)
                if wrong:
                    yield f"P8: {wrong}: {moment} to {asked[moment.slot]}"
            case _:
                pass


def _disagrees(told: _Told, request: ProfileRequest, answer: Told) -> str | None:
    reply = answer.reply
    match request, reply:
        case Act(), Acted():
            number = (request.lease, reply.sequence)
            if told.outcomes.get(number) is ActOutcome.APPLIED and request.claim >= told.intents[number]:
                return None
            return None if _by_key(told, request) else "applied without an outcome on record"
        case Act(), Refused() if reply.error.code in (Code.NOT_SENT, Code.OUTCOME_UNKNOWN):
            wanted = ActOutcome.NOT_SENT if reply.error.code is Code.NOT_SENT else ActOutcome.UNKNOWN
            recorded = told.outcomes.get((request.lease, request.sequence))
            return None if recorded is wanted else f"the record says {recorded}"
        case AskOutcome(), OutcomeTold():
            number = (reply.by_lease, reply.sequence)
            recorded = told.outcomes.get(number)
            if recorded is reply.outcome:
                return None
            never = number not in told.intents and reply.by_lease in told.closed
            return None if never and reply.outcome is ActOutcome.NOT_SENT else f"the record says {recorded}"
        case Acquire(), Granted():
            return None if reply.lease and reply.lease.lease in told.granted else "no grant on record"
        case _, Renewed():
            assert reply.lease is not None
            until_ms = reply.lease.clock_ms + ms(reply.lease.expires_in_s)
            return None if until_ms <= told.granted[reply.lease.lease] else "longer than recorded"
        case Close(), Closed():
            if reply.receipt.kind == "sealed":
                known = told.sealed.get(request.lease) == reply.receipt.generation
                return None if known else "no such generation on record"
            closed = told.closed.get(request.lease)
            same = closed and (closed.receipt, closed.generation) == (reply.receipt.kind, reply.receipt.generation)
            return None if same else "no such receipt on record"
        case _:
            return None


def _by_key(told: _Told, act: Act) -> bool:
    key = act.step.request_key if act.step else None
    if key is None:
        return False
    applied = any(told.outcomes.get(number) is ActOutcome.APPLIED for number in told.keys.get(key, ()))
    return applied or key in told.succeeded


def joined(history: History) -> Findings:
    """An admitted act is joined: no number is skipped while an act for it waits, but by its own cancel (11)."""
    waiting, cancelled = dict[int, Act](), set[str]()
    for moment in history:
        match moment:
            case Came(request=Act() as act):
                waiting[moment.slot] = act
            case Came(request=Cancel() as cancel):
                cancelled.add(cancel.request)
            case Told():
                waiting.pop(moment.slot, None)
            case Wrote(entry=entry):
                if isinstance(entry.records[0], Activated):
                    waiting.clear()
                skipped = {(record.lease, record.sequence) for record in entry.records if isinstance(record, Skipped)}
                skipped -= {(act.lease, act.sequence) for act in waiting.values() if act.id in cancelled}
                for act in waiting.values():
                    if (act.lease, act.sequence) in skipped:
                        yield f"contract 11: {moment} while {act} waits"
            case _:
                pass


def p9_sequence(history: History) -> Findings:
    """Intents and skips of a lease are numbered 1, 2, 3 ...; a grant answers the largest + 1."""
    last = dict[str, int]()
    for moment in history:
        if isinstance(moment, Wrote):
            for record in moment.entry.records:
                if isinstance(record, Intent | Skipped):
                    if record.sequence != last.get(record.lease, 0) + 1:
                        yield f"P9: {record} after {last.get(record.lease, 0)}"
                    last[record.lease] = record.sequence
        elif isinstance(moment, Told) and isinstance(moment.reply, Granted) and moment.reply.lease:
            view = moment.reply.lease
            if view.next_sequence != last.get(view.lease, 0) + 1:
                yield f"P9: {moment.reply} after {last.get(view.lease, 0)}"


def p10_one_holder(history: History) -> Findings:
    """Between a grant and its end no other grant; every intent's lease is the granted one, with its scope."""
    held: LeaseGranted | None = None
    for _, _, record in records(history):
        match record:
            case LeaseGranted():
                if held is not None:
                    yield f"P10: {record} while {held.lease} is held"
                held = record
            case LeaseClosed():
                held = None
            case Intent():
                scope = (held.lease, held.scope.run, held.scope.attempt) if held else None
                if scope != (record.lease, record.run, record.attempt):
                    yield f"P10: {record} under {scope}"
            case _:
                pass


@dataclass
class _Runs:
    """Run records over time, by revision."""

    written: dict[int, RunWritten] = field(default_factory=dict[int, RunWritten])
    replaced: dict[int, tuple[int, int]] = field(default_factory=dict[int, tuple[int, int]])
    """Revision -> place in the history, and time, of the next one."""
    current: dict[str, int] = field(default_factory=dict[str, int])

    def learn(self, place: int, moment: RunWritten) -> None:
        if moment.run in self.current:
            self.replaced[self.current[moment.run]] = (place, moment.at_ms)
        self.current[moment.run] = moment.revision
        self.written[moment.revision] = moment

    def record(self, revision: int) -> RunRecord | None:
        """Revision 0 is a record that did not exist."""
        return self.written[revision].record if revision else None

    def fresh(self, revision: int, at_ms: int, called: int) -> bool:
        """Whether it was current at most 5 s before, and when the lease last admitted a call (contract 17)."""
        place, until_ms = self.replaced.get(revision, (called, at_ms))
        return until_ms >= at_ms - 5000 and place >= called


def p11_reattach(history: History) -> Findings:
    """One scope, one lease; claims never fall; nothing is granted or torn down without a reason on record."""
    runs, held, claim, expires_ms = _Runs(), None, 0, 0
    closes, revoked, closing, called = set[tuple[str, int]](), False, False, -1
    for place, moment in enumerate(history):
        match moment:
            case RunWritten():
                runs.learn(place, moment)
            case Ordered(effect=Aim() | Visit()) | Told(reply=Renewed() | Granted()):
                called = place
            case Came(request=Close() as close):
                closes.add((close.lease, close.claim))
            case Wrote(entry=entry):
                for record in entry.records:
                    match record:
                        case ProfileChanged():
                            revoked = record.state == "revoked"
                        case LeaseGranted():
                            held, claim, expires_ms, closing = record, record.claim, record.expires_ms, False
                            run = runs.record(record.run_revision)
                            wanted = (record.claim, record.scope.attempt, True)
                            if revoked or not run or (run.claim, run.attempt, run.status.ended is False) != wanted:
                                yield f"P11: {record} on {run}"
                        case Attached():
                            if record.claim <= claim:
                                yield f"P11: {record} below claim {claim}"
                            claim = record.claim
                        case LeaseRenewed():
                            expires_ms = record.expires_ms
                        case LeaseClosed():
                            if not closing and not isinstance(entry.records[0], Activated):
                                yield f"P11: {record} of a lease that nobody was closing"
                        case LeaseClosing():
                            assert held is not None
                            closing = True
                            asked = (record.lease, claim) in closes
                            why = _Why(runs, held, expires_ms, called, asked=asked, revoked=revoked)
                            if not why.allows(record, entry.at_ms):
                                yield f"P11: {record} at {entry.at_ms} of {held}"
                        case _:
                            pass
            case _:
                pass
        if isinstance(moment, Told) and isinstance(moment.reply, Granted) and moment.reply.lease:
            view = moment.reply.lease
            if held is None or (view.lease, view.claim) != (held.lease, claim):
                yield f"P11: {moment} while {held} is held by claim {claim}"


@dataclass
class _Why:
    """What could justify the end of a lease."""

    runs: _Runs
    held: LeaseGranted
    expires_ms: int
    called: int
    """Where in the history the lease last admitted a call."""
    asked: bool
    revoked: bool

    def allows(self, closing: LeaseClosing, at_ms: int) -> bool:
        match closing.reason:
            case "expired":
                return at_ms >= self.expires_ms
            case "cap":
                return at_ms >= self.held.cap_ms - 15_000
            case "retired":
                return True  # P15 judges the unknown outcome; a cancelled act retires as well.
            case "revoked":
                return self.revoked
            case "lost":
                return True
            case "ended" if closing.run_revision is None:
                return self.asked
            case "ended" | "fenced":
                revision = closing.run_revision
                if revision is None or not self.runs.fresh(revision, at_ms, self.called):
                    return False
                run = self.runs.record(revision)
                newer = run is not None and run.attempt > self.held.scope.attempt
                return newer if closing.reason == "fenced" else run is None or newer or not run.needs_page
            case _:
                return False


def p12_renewal(history: History, unix_ms: int) -> Findings:
    """Each expiry <= renewal + 15 min, <= grant + 60 min, <= the run's deadline; never after expiry or closing.

    `unix_ms` is the wall clock at boot-clock zero.
    """
    held: LeaseGranted | None = None
    expires_ms, live = 0, False
    for _, entry, record in records(history):
        match record:
            case LeaseGranted():
                held, expires_ms, live = record, record.expires_ms, True
                latest = min(entry.at_ms + ms(LIFE_S_MAX), record.deadline_unix_ms - unix_ms)
                if not record.expires_ms <= record.cap_ms <= latest:
                    yield f"P12: {record} at {entry.at_ms}"
                if record.expires_ms > entry.at_ms + ms(HORIZON_S_MAX):
                    yield f"P12: {record} at {entry.at_ms}"
            case LeaseRenewed():
                assert held is not None
                grows = expires_ms < record.expires_ms <= min(entry.at_ms + ms(HORIZON_S_MAX), held.cap_ms)
                if not live or entry.at_ms >= expires_ms or not grows:
                    yield f"P12: {record} at {entry.at_ms}, expiry {expires_ms}, cap {held.cap_ms}, live {live}"
                expires_ms = record.expires_ms
            case LeaseClosing() | LeaseClosed():
                live = False
            case _:
                pass


def p13_expired_never_seals(history: History) -> Findings:
    """The LeaseClosing of a seal lies before its lease's expiry, its commit within 60 s after it."""
    expires_ms, closing_ms = dict[str, int](), dict[str, int]()
    for _, entry, record in records(history):
        match record:
            case LeaseGranted() | LeaseRenewed():
                expires_ms[record.lease] = record.expires_ms
            case LeaseClosing() if record.seal:
                closing_ms[record.lease] = entry.at_ms
                if entry.at_ms >= expires_ms[record.lease]:
                    yield f"P13: {record} at {entry.at_ms} of a lease that expired at {expires_ms[record.lease]}"
            case SealCommitted(lease=str() as lease):
                if lease not in closing_ms or entry.at_ms > closing_ms[lease] + 60_000:
                    yield f"P13: {record} at {entry.at_ms}, closing at {closing_ms.get(lease)}"
            case _:
                pass


def p14_seal_chain(history: History) -> Findings:
    """A lease starts from the current generation; each seal is a new one on top of its lease's own, or, without a
    lease, of a known one; nothing is overwritten."""
    last, current, base, objects = 0, 0, 0, set[str]()
    held: str | None = None
    for _, _, record in records(history):
        match record:
            case LeaseGranted():
                base, held = record.base, record.lease
                if base != current:
                    yield f"P14: {record} while generation {current} is current"
            case SealCommitted():
                on = base if record.lease is not None else record.base if record.base <= last else None
                if (record.generation, record.base) != (last + 1, on) or record.object in objects:
                    yield f"P14: {record} on top of {current}"
                if record.lease != held:
                    yield f"P14: {record} while {held} is held"
                last = record.generation
                current = current if record.unhealthy else last
                objects.add(record.object)
            case Rewrapped():
                if record.object in objects or record.generation > last or held is not None:
                    yield f"P14: {record} while {held} is held"
                objects.add(record.object)
            case LeaseClosed():
                held = None
                if (record.receipt == "sealed") != (record.generation is not None):
                    yield f"P14: {record}"
            case _:
                pass


def p15_unknown_stays(history: History) -> Findings:
    """After UNKNOWN: no Intent with that key without a counting verdict, and none of that lease at all."""
    commits, blocked = dict[Number, str](), dict[str, Outcome]()
    retired = set[str]()
    for _, _, record in records(history):
        match record:
            case Intent():
                if record.lease in retired:
                    yield f"P15: {record} on a lease with an unknown outcome"
                if record.request_key is not None:
                    if record.request_key in blocked:
                        yield f"P15: {record} after {blocked[record.request_key]}"
                    commits[record.lease, record.sequence] = record.request_key
            case Outcome(outcome=ActOutcome.UNKNOWN):
                retired.add(record.lease)
                key = commits.get((record.lease, record.sequence))
                if key is not None:
                    blocked[key] = record
            case Reconciled(counted=True):
                blocked.pop(record.request_key, None)
            case _:
                pass


def p16_teardown(history: History, now_ms: int, ticks_ms: int) -> Findings:
    """A run that stopped needing its page at t: its lease is closing by t + 2 ticks, when sweeps ran on time."""
    held: LeaseGranted | None = None
    due_ms: int | None = None
    needs = dict[str, bool]()
    for moment in history:
        if due_ms is not None and moment.at_ms > due_ms:
            yield f"P16: {held} was not closed by {due_ms}"
            due_ms = None
        if isinstance(moment, RunWritten):
            needs[moment.run] = moment.record is not None and moment.record.needs_page
            if held is not None and moment.run == held.scope.run:
                due_ms = None if needs[moment.run] else due_ms or moment.at_ms + ticks_ms
        elif isinstance(moment, Wrote):
            for record in moment.entry.records:
                if isinstance(record, LeaseGranted):
                    held = record
                    due_ms = None if needs.get(record.scope.run, True) else moment.at_ms + ticks_ms
                elif isinstance(record, LeaseClosing | LeaseClosed):
                    held, due_ms = None, None
    if due_ms is not None and now_ms > due_ms:
        yield f"P16: {held} was not closed by {due_ms}"


def p17_strangers(history: History, owner: Caller) -> Findings:
    """Nobody but the profile's principal gets anything but `not_found` (or, creating it, `forbidden`)."""
    strangers = set[int]()
    for moment in history:
        if isinstance(moment, Came) and moment.caller != owner:
            strangers.add(moment.slot)
        elif isinstance(moment, Told) and moment.slot in strangers:
            refused = moment.reply.error.code if isinstance(moment.reply, Refused) else None
            if refused not in (Code.NOT_FOUND, Code.FORBIDDEN) or moment.reply.lease is not None:
                yield f"P17: {moment}"


def p20_one_answer(history: History) -> Findings:
    """Every request gets at most one answer."""
    told = set[int]()
    for moment in history:
        if isinstance(moment, Told):
            if moment.slot in told:
                yield f"P20: {moment} is a second answer"
            told.add(moment.slot)


def p21_deadlines(history: History) -> Findings:
    """No act is sent and no page is visited after the caller's deadline."""
    for moment in history:
        if isinstance(moment, Ordered):
            match moment.effect:
                case Dispatch(act=op) | Visit(op=op):
                    if moment.at_ms >= op.deadline_ms:
                        yield f"P21: {moment}"
                case _:
                    pass


def fenced_learn_nothing(history: History) -> Findings:
    """A lease view goes to its own claim only, and never with a refusal of class *lease invalid*."""
    claims = dict[int, int]()
    for moment in history:
        if isinstance(moment, Came) and isinstance(moment.request, Acquire | LeaseRequest | AskOutcome):
            claims[moment.slot] = moment.request.claim or 0
        elif isinstance(moment, Told) and moment.reply.lease is not None:
            silent = isinstance(moment.reply, Refused) and moment.reply.error.code.class_ is Class.LEASE_INVALID
            if silent or claims.get(moment.slot) != moment.reply.lease.claim:
                yield f"contract 7: {moment} to claim {claims.get(moment.slot)}"


SCANS: tuple[Callable[[History], Findings], ...] = (
    p2_epochs,
    p3_intent_first,
    p4_at_most_once,
    p5_one_outcome,
    p6_truth,
    p8_output_gate,
    p9_sequence,
    p10_one_holder,
    p11_reattach,
    p13_expired_never_seals,
    p14_seal_chain,
    p15_unknown_stays,
    p20_one_answer,
    p21_deadlines,
    fenced_learn_nothing,
    joined,
)
"""Those that need nothing but the history."""


def violations(
    history: History, *, now_ms: int, unix_ms: int, owner: Caller, limits: Limits, ticks: int = 2
) -> list[str]:
    """Everything wrong with a history, in the order of the predicates. `ticks`: those a teardown may take."""
    found = [finding for scan in SCANS for finding in scan(history)]
    found += p12_renewal(history, unix_ms)
    found += p16_teardown(history, now_ms, ticks * ms(limits.tick_s))
    found += p17_strangers(history, owner)
    return found
