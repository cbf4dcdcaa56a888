"""The hands of an owner: every effect the rules order, started on the loop, completed as an event."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Protocol, TypeVar

from lessor import points
from lessor.actors.runs import write_run
from lessor.actors.shelf import Shelf
from lessor.actors.stored import Stored, check_by_ms
from lessor.actors.tend import tend
from lessor.actors.words import Ports
from lessor.errors import Code, Problem, problem
from lessor.findings import Away
from lessor.journal import Ledger
from lessor.lease.verdict import (
    Aim,
    Aimed,
    ApprovalAsked,
    AskApproval,
    BrowserGone,
    CancelRead,
    Desk,
    DialogClosed,
    Dispatch,
    DispatchDone,
    DropFiles,
    Effect,
    Event,
    Extended,
    FileStored,
    GrantRead,
    KillBrowser,
    Killed,
    Look,
    Looked,
    ReadDone,
    ReadFile,
    ReadGrant,
    ReadRuns,
    RemoveObjects,
    Reseal,
    Resume,
    RunSeen,
    RunsRead,
    Sealed,
    SealFailed,
    SealState,
    StartBrowser,
    Started,
    StartFailed,
    SweepObjects,
    TellDialog,
    Tend,
    Tended,
    TryState,
    Visit,
)
from lessor.messages.action import Observation
from lessor.messages.ids import ProfileKey, RunKey
from lessor.messages.request import AnswerDialog, Navigate
from lessor.messages.run import RunReading
from lessor.ports import BrokerAway, BrowserSpec, FileFound, Session
from lessor.runs import ask_approval, pending

T = TypeVar("T")


class Owner(Protocol):
    """The actor whose hands these are."""

    def post(self, message: object) -> None: ...
    def perform(self, work: Callable[[], Awaitable[T]], then: Callable[[T], None]) -> None: ...
    def take(self, event: Event) -> None: ...
    def superseded(self) -> None: ...
    def want_browser(self, instance: str) -> None: ...
    def start_failed(self, event: StartFailed) -> None: ...


class Hands:
    """Holds the session: the one live browser under this owner's epoch."""

    def __init__(self, actor: Owner, ports: Ports, key: ProfileKey) -> None:
        self._actor, self._ports, self._key = actor, ports, key
        self.session: Session | None = None
        self._shelf = Shelf(ports, key)
        self._starts: dict[str, Callable[[], None]] = {}
        """Starts that wait for the host's word, by instance."""
        self._over = False
        """The owner is gone: nobody takes a browser in any more."""

    def gone(self, instance: str) -> None:
        """Called on the loop when a browser has died."""
        self._actor.post(BrowserGone(instance))

    def do(self, effect: Effect, ledger: Ledger, desk: Desk, until_ms: int) -> None:
        match effect:
            case ReadRuns():
                self._actor.perform(lambda: self._read_runs(effect), self._actor.take)
            case StartBrowser():
                self._start(effect, ledger, desk, until_ms)
            case ReadGrant(slot=slot, run=run):
                self._actor.perform(lambda: self._read_grant(slot, run), self._actor.take)
            case AskApproval():
                self._actor.perform(lambda: self._ask_approval(effect), self._actor.take)
            case Aim() | Dispatch() | Resume() | TellDialog() | Tend() | Visit():
                self._page(effect)
            case ReadFile():
                self._actor.perform(lambda: self._shelf.read(effect), self._actor.take)
            case DropFiles(objects=objects):
                self._actor.perform(lambda: self._shelf.drop(objects), _nothing)
            case CancelRead():
                if self.session is not None:
                    self._actor.perform(self.session.cancel, _nothing)
            case Look(until_ms=look_until_ms):
                self._actor.perform(lambda: self._look(look_until_ms), self._actor.take)
            case SealState():
                stored = Stored(self._ports, self._key, desk.epoch)
                self._actor.perform(lambda: self._seal(effect, stored), self._actor.take)
            case Reseal() | TryState() | RemoveObjects() | SweepObjects():
                self._work(effect, ledger, desk, until_ms)
            case KillBrowser(instance=instance):
                self._actor.perform(lambda: self._kill(instance), self._actor.take)
            case _:
                raise AssertionError(effect)

    # -- runs

    async def _read_runs(self, order: ReadRuns) -> RunsRead:
        key = RunKey(self._key.tenant, order.run)
        if order.create is not None:
            written = await self._ports.runs.write(key, order.create, 0)
            if isinstance(written, Problem):
                return RunsRead(order.asked, written, None)
        mine = await self._ports.runs.read(key)
        if order.holder is None:
            return RunsRead(order.asked, mine, None)
        holder = await self._ports.runs.read(RunKey(self._key.tenant, order.holder))
        return RunsRead(order.asked, mine, holder)

    async def _read_grant(self, slot: int, run: str) -> GrantRead:
        return GrantRead(slot, await self._ports.runs.read(RunKey(self._key.tenant, run)))

    async def _ask_approval(self, order: AskApproval) -> ApprovalAsked:
        key = RunKey(self._key.tenant, order.run)
        told = await write_run(self._ports, key, ask_approval(order.run, order.claim, order.question))
        if isinstance(told, Problem):
            return ApprovalAsked(order.slot, told)
        assert told.record is not None
        return ApprovalAsked(order.slot, pending(told.record, order.question))

    def read_holder(self, run: str) -> None:
        """A sweep's look at the run that holds the lease. What cannot be read closes nothing (contract 16)."""

        def seen(reading: RunReading | Problem) -> None:
            if isinstance(reading, RunReading):
                self._actor.take(RunSeen(reading))

        self._actor.perform(lambda: self._ports.runs.read(RunKey(self._key.tenant, run)), seen)

    # -- the browser

    def _start(self, order: StartBrowser, ledger: Ledger, desk: Desk, until_ms: int) -> None:
        profile = ledger.profile
        assert profile is not None
        current = ledger.current
        origins, strict, policy, epoch = profile.origins, profile.strict, profile.policy, desk.epoch

        async def start() -> Session | Problem:
            sealed: bytes | None = None
            if current is not None:
                try:
                    sealed = await self._ports.vault.get(current.object, current.sha256)
                except BrokerAway:
                    return problem(Code.BROKER_UNAVAILABLE, "The sealed state cannot be read now: ask again.")
                if sealed is None:
                    return problem(
                        Code.AUTHENTICATION_REQUIRED,
                        f"Generation {current.number} of the sealed state is missing or damaged in the store.",
                    )
            spec = BrowserSpec(
                key=self._key,
                principal=order.principal,
                provider=order.provider,
                epoch=epoch,
                instance=order.instance,
                until_ms=until_ms,
                origins=origins,
                strict=strict,
                sealed=sealed,
                generation=current.number if current is not None else 0,
                policy=policy,
                sealed_origins=current.origins if current is not None else None,
            )
            session = await self._ports.browser.start(spec, lambda: self.gone(order.instance))
            if self._over and not isinstance(session, Problem):
                await session.kill()
            return session

        def started(result: Session | Problem) -> None:
            if isinstance(result, Problem):
                self._actor.start_failed(StartFailed(order.instance, result))
                return
            self.adopt(result)
            generation = current.number if current is not None else 0
            self._actor.take(Started(order.instance, result.target, generation, until_ms))

        self._starts[order.instance] = lambda: self._actor.perform(start, started)
        self._actor.want_browser(order.instance)

    def may_start(self, instance: str, refused: Problem | None) -> None:
        """The host has room, or not (contract 2)."""
        start = self._starts.pop(instance, None)
        if start is None:
            return
        if refused is not None:
            self._actor.start_failed(StartFailed(instance, refused))
        else:
            start()

    def _page(self, effect: Aim | Dispatch | Resume | TellDialog | Tend | Visit) -> None:
        self._actor.perform(lambda: self._touch(effect), self._actor.take)

    async def _touch(self, effect: Aim | Dispatch | Resume | TellDialog | Tend | Visit) -> Event:
        session = self.session
        match effect:
            case Aim(slot=slot, act=act, until_ms=until_ms):
                if session is None:
                    return Aimed(slot, Away.GONE)
                points.reach("aim.before")
                aimed = await session.aim(act.tab, act.revision, act.action, act.match, until_ms)
                points.reach("aim.after")
                return Aimed(slot, aimed)
            case Dispatch(slot=slot, act=act, target=target, until_ms=until_ms):
                # The intent is on disk: a browser that left before the input went out is still UNKNOWN to a
                # successor, so it is UNKNOWN here.
                if session is None:
                    return DispatchDone(slot, Away.GONE)
                points.reach("dispatch.before")
                sent = await session.dispatch(act.tab, act.action, target, until_ms)
                points.reach("dispatch.after")
                return DispatchDone(slot, sent)
            case Resume(slot=slot, dialog=dialog):
                return DispatchDone(slot, Away.GONE if session is None else await session.resume(dialog))
            case TellDialog(asked=asked, until_ms=until_ms):
                request = asked.request
                assert isinstance(request, AnswerDialog)
                if session is None:
                    return DialogClosed(asked, Away.GONE)
                given = await session.answer_dialog(request.dialog, request.accept, request.text, until_ms)
                return DialogClosed(asked, given)
            case Tend(asked=asked, until_ms=until_ms):
                return Tended(asked, Away.GONE if session is None else await tend(session, asked.request, until_ms))
            case Visit(slot=slot, op=op, until_ms=until_ms):
                if session is None:
                    return ReadDone(slot, Away.GONE)
                if isinstance(op, Navigate):
                    return ReadDone(slot, await session.navigate(op.tab, op.url, until_ms))
                return ReadDone(slot, await session.observe(op.tab, until_ms))

    async def _look(self, until_ms: int) -> Looked:
        if self.session is None:
            return Looked(None)
        page = await self.session.observe("main", until_ms)
        return Looked(page if isinstance(page, Observation) else None)

    def _work(
        self, effect: Reseal | TryState | RemoveObjects | SweepObjects, ledger: Ledger, desk: Desk, until_ms: int
    ) -> None:
        stored, profile = Stored(self._ports, self._key, desk.epoch), ledger.profile
        assert profile is not None
        match effect:
            case Reseal():
                self._actor.perform(lambda: stored.reseal(effect, profile), self._actor.take)
            case TryState():
                self._actor.perform(lambda: stored.try_state(effect, profile, until_ms), self._actor.take)
            case RemoveObjects():
                self._actor.perform(lambda: stored.remove(effect), self._actor.take)
            case SweepObjects():
                self._actor.perform(lambda: stored.sweep(effect), _nothing)

    async def _seal(self, order: SealState, stored: Stored) -> Sealed | SealFailed:
        if self.session is None:
            return SealFailed(problem(Code.BROWSER_GONE, "the browser is gone."))
        unhealthy: str | None = None
        if order.health is not None:
            now_ms = self._ports.clock.now_ms()
            wrong = await self.session.check(order.health, check_by_ms(now_ms, order.until_ms))
            if isinstance(wrong, Away):
                return SealFailed(problem(Code.BROWSER_GONE, f"the browser did not answer ({wrong.value})."))
            unhealthy = wrong.message if wrong is not None else None
        state = await self.session.seal(order.generation, order.until_ms)
        match state:
            case Problem():
                return SealFailed(state)
            case Away() as away:
                return SealFailed(problem(Code.BROWSER_GONE, f"the browser did not answer ({away.value})."))
            case _:
                pass
        await self._shelf.settled()
        sealed = await stored.put(order.generation, state)
        return SealFailed(sealed) if isinstance(sealed, Problem) else replace(sealed, unhealthy=unhealthy)

    async def _kill(self, instance: str) -> Killed:
        session = self.session
        if session is not None and session.instance == instance:
            gone_ms = await session.kill()
            if gone_ms is not None:
                self.session = None
                return Killed(gone_ms, instance)
        return Killed(await self._ports.browser.confirm_gone(instance), instance)

    def leave(self, *, ungranted: bool) -> None:
        """The owner is over. A browser without a grant is nobody's and must not idle until its keeper's deadline."""
        self._over = True
        if ungranted:
            self.drop()

    def drop(self) -> None:
        """Superseded: whatever is left of the page under our epoch must go. A newer epoch refuses this."""
        if self.session is not None:
            self._actor.perform(self.session.kill, _nothing)

    # -- files

    def adopt(self, session: Session | None) -> None:
        """The one live browser, and what it finds from now on."""
        self.session = session
        if session is not None:
            session.hear_files(lambda found: self._keep(session.instance, found))

    def _keep(self, instance: str, found: FileFound) -> None:
        def kept(event: FileStored | None) -> None:
            if event is not None:
                self._actor.take(event)

        self._actor.perform(lambda: self._shelf.keep(instance, found), kept)

    # -- beats

    def beat(self, until_ms: int, epoch: int) -> None:
        """Extend the keeper on an acknowledged beat, after a look whether the profile is still ours."""
        session = self.session
        if session is None or epoch == 0:
            return

        async def extend() -> Extended | None:
            try:
                head = await self._ports.journal.head(self._key)
            except BrokerAway:
                return Extended(None)
            if head.own_sequence > epoch:
                return None
            return Extended(await session.extend(until_ms))

        def extended(event: Extended | None) -> None:
            if event is None:
                self._actor.superseded()
            else:
                self._actor.take(event)

        self._actor.perform(extend, extended)


def _nothing(_: object) -> None:
    """The completion says nothing that the rules need."""
