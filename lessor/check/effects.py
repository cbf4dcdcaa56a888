"""What really happened outside must agree with the journal, and what was told with both."""

from dataclasses import dataclass, field

from lessor.check.history import (
    AnyMoment,
    Came,
    Concluded,
    Dropped,
    Hit,
    Ordered,
    Owned,
    Page,
    Passed,
    Rest,
    Sent,
    Told,
    Wrote,
)
from lessor.check.view import Finding, Findings, Number, View
from lessor.errors import Class, Code, Effect
from lessor.limits import ms
from lessor.messages.record import (
    AnyRecord,
    Attached,
    Intent,
    LeaseClosed,
    LeaseGranted,
    LeaseRenewed,
    Outcome,
    ProfileChanged,
    Reconciled,
    SealCommitted,
    Skipped,
)
from lessor.messages.reply import Acted, ActOutcome, Closed, Granted, Navigated, Observed, OutcomeTold, Refused, Renewed
from lessor.messages.request import Acquire, Act, AskOutcome, Close, LeaseRequest, ProfileRequest


def p3_intent_first(view: View) -> Findings:
    """Every input and every effect has an Intent of its number, acknowledged before it, in the same epoch."""
    intents = dict[Number, int]()
    for moment, learnt in view.known():
        for wrote in learnt:
            for record in wrote.entry.records:
                if isinstance(record, Intent):
                    intents[record.lease, record.sequence] = wrote.entry.epoch
        if isinstance(moment, Hit | Sent) and intents.get((moment.lease, moment.sequence)) != moment.epoch:
            epoch = intents.get((moment.lease, moment.sequence))
            yield Finding("P3", f"without an acknowledged intent of its epoch ({epoch})", (moment,))


def p4_at_most_once(view: View) -> Findings:
    """One effect per number; per request key one, unless every earlier commit is settled as without effect."""
    seen, keys = dict[Number, Hit](), dict[str, list[Hit]]()
    cleared, commits = set[Number](), dict[str, list[Number]]()
    for moment in view.moments:
        match moment:
            case Wrote(entry=entry):
                for record in entry.records:
                    _clear(record, cleared, commits)
            case Hit():
                number = (moment.lease, moment.sequence)
                if number in seen:
                    yield Finding("P4", "an effect happened twice", (seen[number], moment))
                seen[number] = moment
                if moment.request_key is not None:
                    earlier = keys.setdefault(moment.request_key, [])
                    for before in earlier:
                        if (before.lease, before.sequence) not in cleared:
                            yield Finding("P4", "a step's effect happened twice", (before, moment))
                    earlier.append(moment)
            case _:
                pass


def _clear(record: AnyRecord, cleared: set[Number], commits: dict[str, list[Number]]) -> None:
    match record:
        case Intent(request_key=str() as key):
            commits.setdefault(key, []).append((record.lease, record.sequence))
        case Outcome(outcome=ActOutcome.NOT_SENT):
            cleared.add((record.lease, record.sequence))
        case Reconciled(counted=True, verdict="not_sent"):
            cleared.update(commits.get(record.request_key, ())[-1:])
        case _:
            pass


def p6_truth(view: View) -> Findings:
    """Applied: the input came before. SUCCEEDED: the effect did. NOT_SENT, skipped, refused, or so
    reconciled: no effect, ever; NOT_SENT and skipped: no input either. A page on record as gone is gone."""
    truth = _Truth(view.has_sent)
    for moment in view.moments:
        match moment:
            case Sent():
                yield from truth.sent(moment)
            case Hit():
                yield from truth.hit(moment)
            case Concluded(effect=Effect.NONE, act=str() as act) if act:
                yield from truth.concluded(moment)
            case Page():
                truth.pages[moment.instance] = moment
            case Wrote(entry=entry):
                for record in entry.records:
                    yield from truth.wrote(moment, record)
            case _:
                pass


@dataclass
class _Truth:
    """What really happened so far, and what was said of it for good."""

    has_sent: bool
    inputs: dict[Number, AnyMoment] = field(default_factory=dict[Number, AnyMoment])
    hits: dict[Number, Hit] = field(default_factory=dict[Number, Hit])
    acts: dict[str, Sent | Hit] = field(default_factory=dict[str, Sent | Hit])
    commits: dict[str, Number] = field(default_factory=dict[str, Number])
    untouched: dict[Number, Wrote] = field(default_factory=dict[Number, Wrote])
    """Numbers that got no input."""
    void: dict[Number, Wrote] = field(default_factory=dict[Number, Wrote])
    """Numbers that had no effect."""
    pages: dict[str, Page] = field(default_factory=dict[str, Page])
    instances: dict[str, str] = field(default_factory=dict[str, str])
    """Lease -> browser."""
    told: dict[str, Concluded] = field(default_factory=dict[str, Concluded])
    """Acts whose programs were told so."""

    def sent(self, moment: Sent) -> Findings:
        number = (moment.lease, moment.sequence)
        self.inputs[number] = moment
        if number in self.untouched:
            yield Finding("P6", "an input that was not sent", (self.untouched[number], moment))
        yield from self._happened(moment)

    def hit(self, moment: Hit) -> Findings:
        number = (moment.lease, moment.sequence)
        self.hits[number] = moment
        if not self.has_sent:
            self.inputs[number] = moment
        if number in self.void:
            yield Finding("P6", "an effect of what had none", (self.void[number], moment))
        yield from self._happened(moment)

    def _happened(self, moment: Sent | Hit) -> Findings:
        if moment.act in self.told:
            what = "an act happened after its program was told that it had not"
            yield Finding("P6", what, (self.told[moment.act], moment))
        if moment.act:
            self.acts[moment.act] = moment

    def concluded(self, moment: Concluded) -> Findings:
        self.told[moment.act] = moment
        if moment.act in self.acts:
            what = "a program is told that its act did not happen"
            yield Finding("P6", what, (self.acts[moment.act], moment))

    def wrote(self, moment: Wrote, record: AnyRecord) -> Findings:
        match record:
            case LeaseGranted():
                self.instances[record.lease] = record.instance
            case LeaseClosed(gone_ms=int()):
                page = self.pages.get(self.instances.get(record.lease, ""))
                if page is not None and page.state != "gone":
                    yield Finding("P6", "a page that is there is recorded as gone", (page, moment))
            case Intent(request_key=str() as key):
                self.commits[key] = (record.lease, record.sequence)
            case Outcome(outcome=ActOutcome.APPLIED):
                if (record.lease, record.sequence) not in self.inputs:
                    yield Finding("P6", "applied before any input", (moment,))
            case Outcome(outcome=ActOutcome.NOT_SENT) | Skipped():
                number = (record.lease, record.sequence)
                self.void[number] = self.untouched[number] = moment
                if number in self.inputs:
                    yield Finding("P6", "not sent, though it was", (self.inputs[number], moment))
            case Reconciled(counted=True, verdict="succeeded"):
                if self.commits.get(record.request_key) not in self.hits:
                    yield Finding("P6", "succeeded before any effect", (moment,))
            case Reconciled(counted=True, verdict="not_sent"):
                number = self.commits.get(record.request_key, ("", 0))
                self.void[number] = moment
                if number in self.hits:
                    yield Finding("P6", "reconciled as not sent, though it happened", (self.hits[number], moment))
            case _:
                pass


def p7_late_effects(view: View) -> Findings:
    """An input of a superseded epoch is UNKNOWN on record; every input lies before its keeper's deadline."""
    epoch = 0
    outcomes = {
        (record.lease, record.sequence): (moment, record)
        for moment, record in view.records()
        if isinstance(record, Outcome)
    }
    for moment in view.moments:
        if isinstance(moment, Owned):
            epoch = moment.sequence
        elif isinstance(moment, Sent):
            if moment.boot_ms >= moment.until_ms:
                yield Finding("P7", "an input after the keeper's deadline", (moment,))
            wrote, outcome = outcomes.get((moment.lease, moment.sequence), (None, None))
            if moment.epoch < epoch and outcome is not None and outcome.outcome is not ActOutcome.UNKNOWN:
                proof = (moment, wrote) if wrote is not None else (moment,)
                yield Finding("P7", f"an input of epoch {moment.epoch} under {epoch} is {outcome.outcome}", proof)


@dataclass(slots=True)
class _Known:
    """What the journal said at some point, as far as the owner knew: enough to judge an answer."""

    outcomes: dict[Number, ActOutcome] = field(default_factory=dict[Number, ActOutcome])
    intents: set[Number] = field(default_factory=set[Number])
    keys: dict[str, set[Number]] = field(default_factory=dict[str, set[Number]])
    succeeded: set[str] = field(default_factory=set[str])
    expires_ms: dict[str, int] = field(default_factory=dict[str, int])
    sealed: dict[str, int | None] = field(default_factory=dict[str, int | None])
    closed: dict[str, LeaseClosed] = field(default_factory=dict[str, LeaseClosed])
    claims: dict[str, int] = field(default_factory=dict[str, int])
    principal: str | None = None

    def learn(self, record: AnyRecord) -> None:
        match record:
            case ProfileChanged():
                self.principal = record.principal
            case Intent():
                self.intents.add((record.lease, record.sequence))
                if record.request_key is not None:
                    self.keys.setdefault(record.request_key, set()).add((record.lease, record.sequence))
            case Outcome():
                self.outcomes[record.lease, record.sequence] = record.outcome
            case Skipped():
                self.outcomes[record.lease, record.sequence] = ActOutcome.NOT_SENT
            case Reconciled(counted=True, verdict="succeeded"):
                self.succeeded.add(record.request_key)
            case LeaseGranted():
                self.expires_ms[record.lease], self.claims[record.lease] = record.expires_ms, record.claim
            case LeaseRenewed():
                self.expires_ms[record.lease] = record.expires_ms
            case Attached():
                self.claims[record.lease] = record.claim
            case SealCommitted(lease=str() as lease):
                self.sealed[lease] = None if record.unhealthy else record.generation
            case LeaseClosed():
                self.closed[record.lease] = record
            case _:
                pass


def p8_output_gate(view: View) -> Findings:
    """No answer before what it says is on record; all answers for one action agree with it."""
    known = _Known()
    for moment, learnt in view.known():
        for wrote in learnt:
            for record in wrote.entry.records:
                known.learn(record)
        if isinstance(moment, Told):
            wrong = _disagrees(known, view.requests[moment.slot], moment)
            if wrong:
                yield Finding("P8", wrong, (view.came[moment.slot], moment))


def _disagrees(known: _Known, request: ProfileRequest, answer: Told) -> str | None:
    reply = answer.reply
    match request, reply:
        case Act(), Acted():
            if known.outcomes.get((request.lease, reply.sequence)) is ActOutcome.APPLIED:
                return None
            return None if _by_key(known, request) else "applied, with no outcome on record"
        case Act(), Refused() if reply.error.code in (Code.NOT_SENT, Code.OUTCOME_UNKNOWN):
            wanted = ActOutcome.NOT_SENT if reply.error.code is Code.NOT_SENT else ActOutcome.UNKNOWN
            recorded = known.outcomes.get((request.lease, request.sequence))
            return None if recorded is wanted else f"{reply.error.code}, but the record says {recorded}"
        case AskOutcome(), OutcomeTold():
            recorded = known.outcomes.get((reply.by_lease, reply.sequence))
            if recorded is reply.outcome:
                return None
            never = (reply.by_lease, reply.sequence) not in known.intents and reply.by_lease in known.closed
            right = never and reply.outcome is ActOutcome.NOT_SENT
            return None if right else f"{reply.outcome}, but the record says {recorded}"
        case Acquire(), Granted():
            return None if reply.lease and reply.lease.lease in known.expires_ms else "no grant on record"
        case _, Renewed() if reply.lease is not None:
            until_ms = reply.lease.clock_ms + ms(reply.lease.expires_in_s)
            return None if until_ms <= known.expires_ms.get(reply.lease.lease, 0) else "a longer renewal than on record"
        case Close(), Closed():
            closed, receipt = known.closed.get(request.lease), reply.receipt
            sealed = known.sealed.get(request.lease)
            right = receipt.generation == sealed and (receipt.kind == "sealed") == (sealed is not None)
            if closed is not None:
                right = (closed.receipt, closed.generation) == (receipt.kind, receipt.generation)
            known_end = closed is not None or request.lease in known.sealed
            return None if right and known_end else "no such receipt on record"
        case _:
            return None


def _by_key(known: _Known, act: Act) -> bool:
    key = act.step.request_key if act.step else None
    if key is None:
        return False
    applied = any(known.outcomes.get(number) is ActOutcome.APPLIED for number in known.keys.get(key, ()))
    return applied or key in known.succeeded


def fenced_claims(view: View) -> Findings:
    """A worker that was replaced can neither read, nor renew, nor act, nor close, and learns nothing (7)."""
    known, replaced, told = _Known(), dict[int, int](), set[tuple[str, int]]()
    for moment, learnt in view.known():
        for wrote in learnt:
            for record in wrote.entry.records:
                known.learn(record)
        request = view.requests.get(getattr(moment, "slot", 0))
        if isinstance(moment, Came) and isinstance(request, LeaseRequest):
            if request.claim < known.claims.get(request.lease, 0):
                replaced[moment.slot] = known.claims[request.lease]
        elif isinstance(moment, Told):
            reply = moment.reply
            served = isinstance(reply, Acted | Navigated | Observed | Renewed | Closed)
            again = isinstance(request, LeaseRequest) and (request.id, request.claim) in told
            if isinstance(request, LeaseRequest):
                told.add((request.id, request.claim))
            # What is on record anybody of the principal may ask; only new work is fenced.
            on_record = isinstance(reply, Acted) and reply.recorded
            if served and moment.slot in replaced and not again and not on_record:
                what = f"a call of a claim below {replaced[moment.slot]} was served"
                yield Finding("contract 7", what, (view.came[moment.slot], moment))
            silent = isinstance(reply, Refused) and reply.error.code.class_ is Class.LEASE_INVALID
            asks = isinstance(request, Acquire | LeaseRequest | AskOutcome)
            claim = request.claim if isinstance(request, Acquire | LeaseRequest | AskOutcome) else None
            if reply.lease is not None and (silent or (asks and claim != reply.lease.claim)):
                yield Finding("contract 7", f"claim {claim} was shown another's lease", (moment,))


def p17_tenants(view: View) -> Findings:
    """Nobody but the profile's principal gets anything but `not_found` (or, creating it, `forbidden`)."""
    known = _Known()
    for moment, learnt in view.known():
        for wrote in learnt:
            for record in wrote.entry.records:
                known.learn(record)
        if isinstance(moment, Told) and known.principal is not None:
            caller = view.came[moment.slot].caller
            if f"{caller.tenant}/{caller.principal}" == f"{view.profile.split('/', 1)[0]}/{known.principal}":
                continue
            code = moment.reply.error.code if isinstance(moment.reply, Refused) else None
            silent = code in (Code.NOT_FOUND, Code.FORBIDDEN, Code.MOVED, Code.BROKER_UNAVAILABLE)
            if not silent or moment.reply.lease is not None:
                yield Finding("P17", f"{caller.principal} was answered", (view.came[moment.slot], moment))


def p20_hygiene(view: View) -> Findings:
    """Every request gets exactly one answer, or dies with its host; at rest nothing is left over."""
    waiting, over = dict[int, Came](), dict[int, object]()
    for moment in view.moments:
        match moment:
            case Came():
                waiting[moment.slot] = moment
            case Told() | Passed():
                if moment.slot in over and not isinstance(over[moment.slot], Dropped):
                    yield Finding("P20", "a second answer", (moment,))
                waiting.pop(moment.slot, None)
                over[moment.slot] = moment
            case Dropped():
                for slot in moment.slots:
                    waiting.pop(slot, None)
                    over[slot] = moment
            case Rest():
                for came in waiting.values():
                    yield Finding("P20", "a request without an answer", (came,))
                if moment.owners or moment.browsers or moment.broken:
                    yield Finding("P20", "something is left at rest, or broke", (moment,))
            case _:
                pass


def p21_deadlines(view: View) -> Findings:
    """No act is given to a browser after its deadline."""
    for moment in view.moments:
        if isinstance(moment, Ordered) and moment.boot_ms >= moment.deadline_ms:
            yield Finding("P21", f"an act {moment.boot_ms - moment.deadline_ms} ms after its deadline", (moment,))
