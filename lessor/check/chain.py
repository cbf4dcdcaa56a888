"""What the journal alone must say: fence, epochs, numbers, leases, renewals, seals."""

from lessor.check.history import Acknowledged, Owned, Page, Rest, RunWritten, Sent, Wrote
from lessor.check.view import Finding, Findings, Number, Runs, View
from lessor.limits import ms
from lessor.messages.record import (
    AnyRecord,
    Attached,
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
from lessor.messages.reply import ActOutcome, Granted
from lessor.messages.request import Close

CLOSING_MS = 15_000
SEAL_MS = 60_000


def p1_fence(view: View) -> Findings:
    """Every entry carries the epoch that was current at its place in the stream."""
    epoch, active = 0, False
    for moment in view.moments:
        if isinstance(moment, Owned):
            epoch, active = moment.sequence, moment.own.state in ("active", "revoked")
        elif isinstance(moment, Wrote) and (moment.entry.epoch != epoch or not active):
            yield Finding("P1", f"an entry of epoch {moment.entry.epoch} under {epoch}, active {active}", (moment,))


def p2_epochs(view: View) -> Findings:
    """Epochs strictly rise; no stream sequence and no nonce is issued twice."""
    last, nonces = 0, set[str]()
    for moment in view.moments:
        if isinstance(moment, Wrote | Owned):
            nonce = moment.entry.nonce if isinstance(moment, Wrote) else moment.own.nonce
            if moment.sequence <= last or nonce in nonces:
                yield Finding("P2", f"sequence {moment.sequence} after {last}, nonce {nonce}", (moment,))
            last = moment.sequence
            nonces.add(nonce)


def p5_one_outcome(view: View) -> Findings:
    """One Outcome per Intent, after it; a Skipped number has no Intent."""
    intents, settled = set[Number](), set[Number]()
    for moment, record in view.records():
        match record:
            case Intent():
                if (record.lease, record.sequence) in settled | intents:
                    yield Finding("P5", "an intent of a number in use", (moment,))
                intents.add((record.lease, record.sequence))
            case Outcome():
                number = (record.lease, record.sequence)
                if number not in intents or number in settled:
                    yield Finding("P5", "an outcome without its intent, or a second one", (moment,))
                settled.add(number)
            case Skipped():
                number = (record.lease, record.sequence)
                if number in intents or number in settled:
                    yield Finding("P5", "a number in use is skipped", (moment,))
                settled.add(number)
            case _:
                pass


def p9_sequence(view: View) -> Findings:
    """Intents and skips of a lease are numbered 1, 2, 3 ...; a grant answers the largest + 1."""
    last = dict[str, int]()
    known = dict[str, int]()
    for moment, learnt in view.known():
        for wrote in learnt:
            for record in wrote.entry.records:
                if isinstance(record, Intent | Skipped):
                    known[record.lease] = record.sequence
        match moment:
            case Wrote(entry=entry):
                for record in entry.records:
                    if isinstance(record, Intent | Skipped):
                        if record.sequence != last.get(record.lease, 0) + 1:
                            yield Finding(
                                "P9", f"number {record.sequence} after {last.get(record.lease, 0)}", (moment,)
                            )
                        last[record.lease] = record.sequence
            case _:
                reply = getattr(moment, "reply", None)
                if isinstance(reply, Granted) and reply.lease is not None:
                    largest = {known.get(reply.lease.lease, 0), last.get(reply.lease.lease, 0)}
                    if reply.lease.next_sequence - 1 not in largest:
                        yield Finding("P9", f"a grant names {reply.lease.next_sequence} after {largest}", (moment,))


def p10_one_holder(view: View) -> Findings:
    """Between a grant and its end no other grant, and every intent is of the granted lease and scope.

    No page that an earlier lease used is up when another is granted, but past its keeper's deadline; and no
    input reaches one afterwards.
    """
    held: LeaseGranted | None = None
    up, used = dict[str, Page](), dict[str, str]()
    for moment in view.moments:
        match moment:
            case Page(instance=instance, state="up"):
                up[instance] = moment
            case Page(instance=instance):
                up.pop(instance, None)
            case Sent(instance=instance, lease=lease) if held is not None and used.get(instance) not in (
                None,
                held.lease,
            ):
                yield Finding("P10", f"an input of {lease} while {held.lease} is held", (moment,))
            case Wrote(entry=entry):
                for record in entry.records:
                    match record:
                        case LeaseGranted():
                            if held is not None:
                                yield Finding("P10", f"a grant while {held.lease} is held", (moment,))
                            left = [page for name, page in up.items() if name in used and name != record.instance]
                            if left:
                                yield Finding("P10", "a grant while an earlier lease's page is up", (*left, moment))
                            held = record
                            used[record.instance] = record.lease
                        case LeaseClosed():
                            held = None
                        case Intent():
                            scope = (held.lease, held.scope.run, held.scope.attempt) if held else None
                            if scope != (record.lease, record.run, record.attempt):
                                yield Finding("P10", f"an intent under {scope}", (moment,))
                        case _:
                            pass
            case _:
                pass


def p11_reattach(view: View) -> Findings:
    """One scope, one lease; claims never fall; nothing is granted or torn down without a reason on record."""
    scan = _Leases()
    for moment in view.moments:
        match moment:
            case RunWritten():
                scan.runs.learn(moment)
            case Wrote(entry=entry):
                at_ms = view.decided_ms.get(entry.nonce, moment.at_ms)
                for record in entry.records:
                    wrong = scan.judge(record, entry.at_ms, at_ms)
                    if wrong:
                        yield Finding("P11", wrong, (*scan.proof(record), moment))
            case _:
                request = view.requests.get(getattr(moment, "slot", 0))
                if isinstance(request, Close):
                    scan.closes.add((request.lease, request.claim))
                reply = getattr(moment, "reply", None)
                seen = reply.lease if isinstance(reply, Granted) else None
                if seen is not None and (seen.lease, seen.claim) not in scan.attached:
                    yield Finding("P11", "a grant that is not on record", (moment,))


class _Leases:
    """What P11 remembers: the lease, its claim, its runs, and what was asked."""

    def __init__(self) -> None:
        self.runs = Runs()
        self.held: LeaseGranted | None = None
        self.claim = self.expires_ms = 0
        self.unknown = self.revoked = False
        self.closes, self.attached = set[tuple[str, int]](), set[tuple[str, int]]()

    def proof(self, record: AnyRecord) -> tuple[RunWritten, ...]:
        revision = getattr(record, "run_revision", None)
        return (self.runs.written[revision],) if revision in self.runs.written else ()

    def judge(self, record: AnyRecord, boot_ms: int, at_ms: int) -> str | None:
        match record:
            case ProfileChanged():
                self.revoked = record.state == "revoked"
            case LeaseGranted():
                self.held, self.claim, self.expires_ms, self.unknown = record, record.claim, record.expires_ms, False
                self.attached.add((record.lease, record.claim))
                run = self.runs.written.get(record.run_revision)
                if self.revoked or run is None or run.record.status.ended:
                    return f"a grant on {run}"
                if (run.record.claim, run.record.attempt) != (record.claim, record.scope.attempt):
                    return "a grant to another claim or attempt than the run's"
                if not self.runs.fresh(record.run_revision, at_ms):
                    return "a grant on an old reading of the run"
            case Attached():
                below = record.claim <= self.claim
                self.claim = max(record.claim, self.claim)
                self.attached.add((record.lease, record.claim))
                return "a claim falls" if below else None
            case LeaseRenewed():
                self.expires_ms = record.expires_ms
            case Outcome(outcome=ActOutcome.UNKNOWN):
                self.unknown = True
            case LeaseClosing():
                return None if self._allows(record, boot_ms, at_ms) else "a lease is torn down without a reason"
            case _:
                pass
        return None

    def _allows(self, closing: LeaseClosing, boot_ms: int, at_ms: int) -> bool:
        if self.held is None:
            return False
        match closing.reason:
            case "expired":
                return boot_ms >= self.expires_ms
            case "cap":
                return boot_ms >= self.held.cap_ms - CLOSING_MS
            case "revoked":
                return self.revoked
            case "retired" | "lost" | "drained":
                return True
            case "ended" if closing.run_revision is None:
                return (closing.lease, self.claim) in self.closes
            case "ended" | "fenced":
                return self._gave_way(closing, at_ms)
            case _:
                return False

    def _gave_way(self, closing: LeaseClosing, at_ms: int) -> bool:
        revision = closing.run_revision
        if self.held is None or revision is None or not self.runs.fresh(revision, at_ms):
            return False
        run = self.runs.written.get(revision)
        if run is None:
            return revision == 0
        newer = run.record.attempt > self.held.scope.attempt
        return newer if closing.reason == "fenced" else newer or not run.record.needs_page


def p12_renewal(view: View) -> Findings:
    """Each expiry <= renewal + horizon, <= grant + life, <= the run's deadline; none after expiry or closing, and
    no intent either."""
    horizon_ms, life_ms = ms(view.limits.horizon_s_max), ms(view.limits.life_s_max)
    held: LeaseGranted | None = None
    expires_ms, live = 0, False
    for moment, record in view.records():
        at_ms = moment.entry.at_ms
        match record:
            case LeaseGranted():
                held, expires_ms, live = record, record.expires_ms, True
                within = record.expires_ms <= record.cap_ms <= record.granted_ms + life_ms
                if not within or record.expires_ms > at_ms + horizon_ms or record.granted_ms > at_ms:
                    yield Finding("P12", f"a grant at {at_ms} beyond its bounds", (moment,))
            case LeaseRenewed() if held is not None:
                grows = expires_ms < record.expires_ms <= min(at_ms + horizon_ms, held.cap_ms)
                if not live or at_ms >= expires_ms or not grows:
                    what = f"a renewal at {at_ms}, expiry {expires_ms}, cap {held.cap_ms}, live {live}"
                    yield Finding("P12", what, (moment,))
                expires_ms = record.expires_ms
            case Intent() if held is not None and (not live or at_ms >= expires_ms):
                yield Finding("P12", f"an intent at {at_ms} of a lease that ended at {expires_ms}", (moment,))
            case LeaseClosing() | LeaseClosed():
                live = False
            case _:
                pass


def p13_expired_never_seals(view: View) -> Findings:
    """The closing of a seal lies before its lease's expiry, its commit within 60 s after it or its act."""
    expires_ms, closing_ms = dict[str, int](), dict[str, int]()
    for moment, record in view.records():
        at_ms = moment.entry.at_ms
        match record:
            case LeaseGranted() | LeaseRenewed():
                expires_ms[record.lease] = record.expires_ms
            case LeaseClosing() if record.seal:
                closing_ms[record.lease] = at_ms
                if at_ms >= expires_ms.get(record.lease, 0):
                    yield Finding("P13", f"a seal begun at {at_ms}, expiry {expires_ms.get(record.lease)}", (moment,))
            case Outcome() if record.lease in closing_ms:
                closing_ms[record.lease] = at_ms
            case SealCommitted(lease=str() as lease):
                if lease not in closing_ms or at_ms > closing_ms[lease] + SEAL_MS:
                    yield Finding("P13", f"a seal at {at_ms}, closing at {closing_ms.get(lease)}", (moment,))
            case _:
                pass


def p14_seal_chain(view: View) -> Findings:
    """A lease starts from the current generation; each seal is a new one on top of its lease's own, and none
    comes after its lease. What is sealed without a lease is sealed while there is none, on top of a known one."""
    last, current, base, objects = 0, 0, 0, set[str]()
    held: str | None = None
    for moment, record in view.records():
        match record:
            case LeaseGranted():
                base, held = record.base, record.lease
                if base != current:
                    yield Finding("P14", f"a lease from {base} while generation {current} is current", (moment,))
            case SealCommitted():
                on = base if record.lease is not None else record.base if record.base <= last else None
                wrong = (record.generation, record.base) != (last + 1, on) or record.object in objects
                if wrong or record.lease != held:
                    yield Finding("P14", f"a seal on top of {current} by {record.lease}, held {held}", (moment,))
                last = record.generation
                current = current if record.unhealthy else last
                objects.add(record.object)
            case Rewrapped():
                if record.object in objects or record.generation > last or held is not None:
                    yield Finding("P14", f"generation {record.generation} encrypted anew, held {held}", (moment,))
                objects.add(record.object)
            case LeaseClosed():
                held = None
                if (record.receipt == "sealed") != (record.generation is not None):
                    yield Finding("P14", "a receipt that does not fit its generation", (moment,))
            case _:
                pass


def p15_unknown_stays(view: View) -> Findings:
    """After UNKNOWN: no Intent with that key without a counting verdict, and none of that lease at all."""
    commits, blocked = dict[Number, str](), dict[str, Wrote]()
    retired = dict[str, Wrote]()
    for moment, record in view.records():
        match record:
            case Intent():
                if record.lease in retired:
                    yield Finding(
                        "P15", "an intent on a lease with an unknown outcome", (retired[record.lease], moment)
                    )
                if record.request_key is not None:
                    if record.request_key in blocked:
                        yield Finding("P15", "an intent of an unknown step", (blocked[record.request_key], moment))
                    commits[record.lease, record.sequence] = record.request_key
            case Outcome(outcome=ActOutcome.UNKNOWN):
                retired[record.lease] = moment
                key = commits.get((record.lease, record.sequence))
                if key is not None:
                    blocked[key] = moment
            case Reconciled(counted=True):
                blocked.pop(record.request_key, None)
            case _:
                pass


def p16_teardown(view: View) -> Findings:
    """Once nothing fails any more: a lease whose run stopped needing its page is closing within two ticks.

    An owner that was lost has to be noticed first: its session's TTL counts from the healing as well.
    """
    if view.healed_ms is None:
        return
    ticks_ms = 2 * ms(view.limits.tick_s) + ms(view.limits.close_s)
    earliest_ms = view.healed_ms + ms(view.limits.session_ttl_s)
    needs, held = dict[str, bool](), None
    due_ms: int | None = None
    for moment in view.moments:
        if due_ms is not None and moment.at_ms > due_ms:
            yield Finding("P16", f"{held} was not closed by {due_ms}", (moment,))
            due_ms = None
        match moment:
            case RunWritten(run=run, record=record):
                needs[run.split("/", 1)[1]] = record.needs_page
                if held is not None and run.split("/", 1)[1] == held.scope.run:
                    due_ms = None if record.needs_page else max(moment.at_ms, earliest_ms) + ticks_ms
            case Wrote(entry=entry):
                for written in entry.records:
                    if isinstance(written, LeaseGranted):
                        held = written
                        due_ms = (
                            None if needs.get(written.scope.run, True) else max(moment.at_ms, earliest_ms) + ticks_ms
                        )
                    elif isinstance(written, LeaseClosing | LeaseClosed):
                        held, due_ms = None, None
            case _:
                pass


def p18_liveness(view: View) -> Findings:
    """After the last fault all work was done."""
    for moment in view.moments:
        if isinstance(moment, Rest) and moment.unfinished:
            yield Finding("P18", f"not done: {', '.join(moment.unfinished)}", (moment,))


def p19_durability(view: View) -> Findings:
    """Every acknowledged record is in the final journal at its sequence."""
    stored = {moment.sequence for moment in view.moments if isinstance(moment, Wrote | Owned)}
    for moment in view.moments:
        if isinstance(moment, Acknowledged) and moment.sequence not in stored:
            yield Finding("P19", f"sequence {moment.sequence} was acknowledged and is gone", (moment,))
