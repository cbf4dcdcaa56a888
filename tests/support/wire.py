"""A worker without a run actor: it says exactly what a test wants said, when it wants it, and hears every answer."""

from datetime import UTC, datetime, timedelta

from lessor.actors.clock import BootClock
from lessor.broker.connection import Connection
from lessor.broker.line import BrokerLine
from lessor.broker.subjects import Addresses
from lessor.errors import Code
from lessor.ids import fresh_id
from lessor.messages.action import AnyAction, Click, Commit
from lessor.messages.ids import Caller
from lessor.messages.reply import AnyReply, Granted, LeaseView, Refused, Reply, RunTold
from lessor.messages.request import (
    Acquire,
    Act,
    AskOutcome,
    Close,
    Navigate,
    Observe,
    Renew,
    ReportRun,
    Request,
    TakeRun,
)
from lessor.messages.run import RunStatus

GO = Click(ref="go")


class Wire:
    """One run's worker; `view` is what it last heard of its lease."""

    def __init__(self, connection: Connection, caller: Caller, run: str, profile: str = "shop") -> None:
        self._line, self._to, self._clock = BrokerLine(connection), Addresses(caller), BootClock()
        self.run, self.profile, self.claim, self.attempt = run, profile, 1, 1
        self.view: LeaseView | None = None

    @property
    def seen(self) -> LeaseView:
        assert self.view is not None, "no lease yet"
        return self.view

    async def ask(self, subject: str, request: Request[Reply], timeout_s: float = 10.0) -> AnyReply:
        heard = await self._line.ask(subject, request, timeout_s)
        assert isinstance(heard, Reply), heard
        if heard.lease is not None:
            self.view = heard.lease
        return heard

    async def take(self) -> None:
        """Take the run as a worker of its own."""
        deadline = datetime.now(UTC) + timedelta(hours=1)
        request = TakeRun(id=fresh_id(), holder=fresh_id(), worker="wire", attempt=self.attempt, deadline=deadline)
        told = await self.ask(self._to.run(self.run, "take"), request)
        assert isinstance(told, RunTold), told
        self.claim = told.record.claim

    def acquiring(self, *, horizon_s: float = 600.0, wait_s: float = 0.0) -> Acquire:
        return Acquire(
            id=fresh_id(),
            run=self.run,
            attempt=self.attempt,
            claim=self.claim,
            worker="wire",
            horizon_s=horizon_s,
            wait_s=wait_s,
        )

    async def acquire(self, *, horizon_s: float = 600.0, wait_s: float = 0.0) -> AnyReply:
        return await self.send("acquire", self.acquiring(horizon_s=horizon_s, wait_s=wait_s))

    async def granted(self, *, horizon_s: float = 600.0) -> Granted:
        """Take the run and acquire the profile, which must be free or its own."""
        await self.take()
        told = await self.acquire(horizon_s=horizon_s)
        assert isinstance(told, Granted), told
        return told

    async def send(self, verb: str, request: Request[Reply]) -> AnyReply:
        """Ask any host."""
        return await self.ask(self._to.profile(self.profile, verb), request)

    async def touch(self, request: Act | Navigate | Observe | Renew, *, timeout_s: float = 10.0) -> AnyReply:
        """Ask the owner on its route."""
        return await self.ask(f"{self.seen.route}.{type(request).__name__.lower()}", request, timeout_s)

    async def press(self, request: Act, *, timeout_s: float) -> AnyReply | None:
        """Ask the owner on its route, who may never answer: None."""
        heard = await self._line.ask(f"{self.seen.route}.act", request, timeout_s)
        return heard if isinstance(heard, Reply) else None

    def deadline_ms(self, timeout_s: float = 10.0) -> int:
        return self._clock.now_ms() + round(timeout_s * 1000)

    def acting(
        self,
        action: AnyAction = GO,
        *,
        sequence: int | None = None,
        revision: str = "r0",
        step: Commit | None = None,
        timeout_s: float = 10.0,
    ) -> Act:
        return Act(
            id=fresh_id(),
            lease=self.seen.lease,
            claim=self.claim,
            deadline_ms=self.deadline_ms(timeout_s),
            sequence=sequence or self.seen.next_sequence,
            revision=revision,
            action=action,
            step=step,
        )

    def navigating(self, url: str, *, sequence: int | None = None) -> Navigate:
        return Navigate(
            id=fresh_id(),
            lease=self.seen.lease,
            claim=self.claim,
            deadline_ms=self.deadline_ms(),
            sequence=sequence or self.seen.next_sequence,
            url=url,
        )

    def observing(self) -> Observe:
        return Observe(id=fresh_id(), lease=self.seen.lease, claim=self.claim, deadline_ms=self.deadline_ms())

    def renewing(self, horizon_s: float = 900.0) -> Renew:
        return Renew(id=fresh_id(), lease=self.seen.lease, claim=self.claim, horizon_s=horizon_s)

    def closing(self, *, lease: str | None = None) -> Close:
        return Close(id=fresh_id(), lease=lease or self.seen.lease, claim=self.claim, deadline_ms=self.deadline_ms())

    def asking(self, sequence: int, *, key: str | None = None) -> AskOutcome:
        if key is not None:
            return AskOutcome(id=fresh_id(), request_key=key)
        return AskOutcome(id=fresh_id(), lease=self.seen.lease, claim=self.claim, sequence=sequence)

    async def report(self, status: RunStatus) -> AnyReply:
        request = ReportRun(id=fresh_id(), claim=self.claim, status=status)
        return await self.ask(self._to.run(self.run, "report"), request)


def code(reply: AnyReply) -> Code:
    """The code of a refusal; anything else fails."""
    assert isinstance(reply, Refused), reply
    return reply.error.code
