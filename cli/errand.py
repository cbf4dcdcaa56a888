"""The command line's side of a lease: one thing done for a run, what is left of the lease kept in the session file."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TypeVar

from lessor.actors.clock import BootClock
from lessor.actors.talk import Hold, Result, as_problem
from lessor.cli.call import Call
from lessor.cli.session import Session, SessionFile, Standing, no_lease
from lessor.errors import Class, Code, Problem, error_of, problem
from lessor.messages.action import AnyAction, Commit, Match, Observation, PageView
from lessor.messages.reply import (
    Acted,
    AnyReply,
    ArtifactTold,
    Closed,
    DialogAnswered,
    Granted,
    Navigated,
    Observed,
    Receipt,
    Renewed,
    RunTold,
    TabsTold,
)
from lessor.messages.request import (
    Acquire,
    Act,
    AnswerDialog,
    Navigate,
    Observe,
    Renew,
    ShowArtifacts,
    ShowTabs,
    TakeRun,
)

R = TypeVar("R", bound=AnyReply)

OUTCOME_S = 5.0
"""Kept back of an act's time, to ask what became of it when it has no answer itself."""
DEBT_S = 5.0


class Errand:
    """One call for one run. Every method raises LessorError."""

    def __init__(self, call: Call, file: SessionFile) -> None:
        self._call, self._file = call, file
        self._talk = call.client.talk
        self._boot = BootClock().boot

    async def acquire(
        self, profile: str, attempt: int, deadline_s: float, horizon_s: float, wait_s: float
    ) -> tuple[Granted, Session]:
        """Take the run, settle what is owed, lease the profile: reattaches when the run holds it (contract 1)."""
        session = self._session(attempt, deadline_s)
        await self._take(session)
        await self._settle(session)
        assert session.claim is not None
        request = Acquire(
            id=self._talk.fresh(),
            run=session.run,
            attempt=session.attempt,
            claim=session.claim,
            worker=self._call.client.worker,
            horizon_s=horizon_s,
            wait_s=2.0,
            run_deadline=session.deadline,
        )
        patience_s = self._call.deadline.left_s(wait_s, reserve_s=1.0)
        result = await self._talk.acquire(request, profile, patience_s, self._say)
        return self._told(session, profile, result, Granted), session

    async def navigate(self, profile: str, url: str, tab: str) -> PageView:
        session, hold = self._held(profile)
        timeout_s = self._call.deadline.left_s(20.0, reserve_s=0.5)
        request = Navigate(
            id=self._talk.fresh(),
            lease=hold.view.lease,
            claim=hold.view.claim,
            deadline_ms=hold.deadline_ms(self._talk.clock.now_ms(), timeout_s),
            sequence=hold.view.next_sequence,
            tab=tab,
            url=url,
        )
        result = await self._talk.read(hold, request, timeout_s)
        return self._told(session, profile, result, Navigated).page

    async def observe(self, profile: str, tab: str) -> Observation:
        session, hold = self._held(profile)
        timeout_s = self._call.deadline.left_s(10.0, reserve_s=0.5)
        request = Observe(
            id=self._talk.fresh(),
            lease=hold.view.lease,
            claim=hold.view.claim,
            deadline_ms=hold.deadline_ms(self._talk.clock.now_ms(), timeout_s),
            tab=tab,
        )
        result = await self._talk.read(hold, request, timeout_s)
        return self._told(session, profile, result, Observed).page

    async def act(
        self, profile: str, action: AnyAction, revision: str | None, tab: str, match: Match, step: Commit | None
    ) -> Acted:
        """One input, at most once (contract 8, 13)."""
        session, hold = self._held(profile)
        seen = revision or session.leases[profile].revision
        if seen is None:
            unseen = f"Observe the page before you act on it: lessor observe {profile} --run {session.run}"
            raise error_of(problem(Code.PAGE_CHANGED, unseen))
        timeout_s = self._call.deadline.left_s(30.0, reserve_s=min(OUTCOME_S, self._call.deadline.timeout_s / 3))
        request = Act(
            id=self._talk.fresh(),
            lease=hold.view.lease,
            claim=hold.view.claim,
            deadline_ms=hold.deadline_ms(self._talk.clock.now_ms(), timeout_s),
            sequence=hold.view.next_sequence,
            tab=tab,
            revision=seen,
            action=action,
            match=match,
            step=step,
        )
        result = await self._talk.act(hold, request, timeout_s)
        if result.close is not None and not await self._give_up(result.close):
            session.debts[result.close.view.lease] = self._standing(result.close, None)
        return self._told(session, profile, replace(result, close=None), Acted)

    async def dialog(self, profile: str, dialog: str, accept: bool, text: str) -> DialogAnswered:
        """Answer a dialog, once. What is held stays as it is in the file."""
        _, hold = self._held(profile)
        timeout_s = self._call.deadline.left_s(10.0, reserve_s=0.5)
        request = AnswerDialog(
            id=self._talk.fresh(),
            lease=hold.view.lease,
            claim=hold.view.claim,
            deadline_ms=hold.deadline_ms(self._talk.clock.now_ms(), timeout_s),
            dialog=dialog,
            accept=accept,
            text=text,
        )
        told = await self._talk.decide(hold, request, timeout_s)
        if isinstance(told, DialogAnswered):
            return told
        raise error_of(as_problem(told))

    async def cancel_download(self, profile: str, artifact: str) -> ArtifactTold:
        _, hold = self._held(profile)
        timeout_s = self._call.deadline.left_s(10.0, reserve_s=0.5)
        told = await self._talk.aside(hold, ShowArtifacts, {"cancel": artifact}, timeout_s)
        if isinstance(told, ArtifactTold):
            return told
        raise error_of(as_problem(told))

    async def tabs(self, profile: str, close: str | None) -> TabsTold:
        _, hold = self._held(profile)
        timeout_s = self._call.deadline.left_s(10.0, reserve_s=0.5)
        told = await self._talk.aside(hold, ShowTabs, {"close": close}, timeout_s)
        if isinstance(told, TabsTold):
            return told
        raise error_of(as_problem(told))

    async def close(self, profile: str, discard: bool) -> Receipt:
        """Seal and end the lease; asking again gets the same receipt (contract 21)."""
        session, hold = self._held(profile)
        # What was closed stays in the file: asking again gets the same receipt, anything else that it is closed.
        told = await self._talk.close(hold, discard, self._call.deadline.left_s(60.0, reserve_s=0.5))
        if isinstance(told, Closed):
            return told.receipt
        if as_problem(told).code.class_ is Class.LEASE_INVALID:
            session.leases.pop(profile, None)
            self._file.write(session)
        raise error_of(as_problem(told))

    async def renew(self, profile: str, horizon_s: float) -> Renewed:
        """Move the expiry, within the maxima (contract 18, 19)."""
        session, hold = self._held(profile)
        request = Renew(
            id=self._talk.fresh(), lease=hold.view.lease, claim=hold.view.claim, horizon_s=horizon_s, budget_s=10.0
        )
        left_s = self._call.deadline.left_s(10.0, reserve_s=0.5)
        heard = await self._talk.patiently(self._talk.to.profile(profile, "renew"), request, left_s)
        if not isinstance(heard, Renewed) or heard.lease is None:
            raise error_of(as_problem(heard))
        kept = replace(hold, view=heard.lease, heard_ms=self._talk.clock.now_ms())
        session.leases[profile] = self._standing(kept, session.leases[profile].revision)
        self._file.write(session)
        return heard

    # -- the run

    def _session(self, attempt: int, deadline_s: float) -> Session:
        session = self._file.read()
        if session is None or session.attempt != attempt:
            debts = {} if session is None else session.debts
            session = Session(run=self._file.run, attempt=attempt, debts=debts)
        session.deadline = session.deadline or datetime.now(UTC) + timedelta(seconds=deadline_s)
        # Before anybody hears of the holder: a call that is cut off here is repeated by the same holder.
        self._file.write(session)
        return session

    async def _take(self, session: Session) -> None:
        request = TakeRun(
            id=self._talk.fresh(),
            holder=session.holder,
            worker=self._call.client.worker,
            attempt=session.attempt,
            deadline=session.deadline,
        )
        subject = self._talk.to.run(session.run, "take")
        heard = await self._talk.line.ask(subject, request, self._call.deadline.left_s(10.0, reserve_s=0.5))
        if not isinstance(heard, RunTold):
            raise error_of(as_problem(heard))
        session.claim = heard.record.claim
        self._file.write(session)

    async def _settle(self, session: Session) -> None:
        for lease, debt in list(session.debts.items()):
            if debt.boot != self._boot or await self._give_up(debt.hold()):
                del session.debts[lease]
        self._file.write(session)

    async def _give_up(self, hold: Hold) -> bool:
        """Whether the close was delivered, or is not needed any more."""
        told = await self._talk.close(hold, False, self._call.deadline.left_s(DEBT_S, reserve_s=0.5))
        return not isinstance(told, Problem) or not told.retryable

    # -- what is held

    def _held(self, profile: str) -> tuple[Session, Hold]:
        session = self._file.read()
        if session is None or profile not in session.leases:
            raise error_of(no_lease(profile, self._file.run))
        standing = session.leases[profile]
        if standing.boot != self._boot:
            raise error_of(no_lease(profile, self._file.run))
        return session, standing.hold()

    def _told(self, session: Session, profile: str, result: Result, kind: type[R]) -> R:
        """Keep what is left of the lease; the answer, or its problem raised."""
        if result.hold is None:
            session.leases.pop(profile, None)
        else:
            before = session.leases.get(profile)
            same = before is not None and before.view.lease == result.hold.view.lease
            revision = _revision(result.answer, before.revision if before is not None and same else None)
            session.leases[profile] = self._standing(result.hold, revision)
        if result.close is not None:
            session.debts[result.close.view.lease] = self._standing(result.close, None)
        self._file.write(session)
        if isinstance(result.answer, kind):
            return result.answer
        raise error_of(as_problem(result.answer))

    def _standing(self, hold: Hold, revision: str | None) -> Standing:
        return Standing(
            profile=hold.profile,
            acquire=hold.acquire,
            view=hold.view,
            heard_ms=hold.heard_ms,
            boot=self._boot,
            revision=revision,
        )

    def _say(self, refusal: Problem) -> None:
        place = f", place {refusal.position}" if refusal.position is not None else ""
        holder = f"held by run {refusal.holder_run}{place}" if refusal.holder_run else refusal.code.replace("_", " ")
        self._call.progress.say(f"waiting for the profile: {holder}")


def _revision(answer: AnyReply | Problem, before: str | None) -> str | None:
    """What the next act goes by. After a recorded answer nothing: a third try must look first."""
    match answer:
        case Navigated(page=page) | Observed(page=page):
            return page.revision
        case Acted(page=page):
            return page.revision if page is not None else None
        case _:
            return before
