"""A worker's conversations with owners: several questions, one result. They touch no actor's state."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import msgspec

from lessor import points
from lessor.errors import Code, Effect, Problem, problem
from lessor.messages.ids import Caller
from lessor.messages.reply import (
    Acted,
    ActOutcome,
    AnyReply,
    Closed,
    Granted,
    LeaseView,
    OutcomeTold,
    Refused,
    Reply,
    RunTold,
)
from lessor.messages.request import (
    VERBS,
    Acquire,
    Act,
    AnswerDialog,
    AskOutcome,
    Close,
    Navigate,
    Observe,
    Request,
    TendRequest,
)
from lessor.ports import Addresses, Line, Pacer, Silence
from lessor.trust import Conclusion, Heard, after_act, after_read, drops_lease

ASK_S_MAX = 10.0
"""How long an act's outcome is asked for after the act itself had no answer."""
POLL_S_MAX = 5.0
"""How long one question to any host may go unanswered: a paused host takes its share of them for a while."""


@dataclass(frozen=True, slots=True)
class Hold:
    """What a worker knows of its lease: the owner's last view, and when it was heard on the worker's clock."""

    profile: str
    acquire: Acquire
    view: LeaseView
    heard_ms: int
    live: bool = True

    def deadline_ms(self, now_ms: int, timeout_s: float) -> int:
        """A moment on the owner's clock: last reply + elapsed + timeout. Never later than the caller's own."""
        return self.view.clock_ms + (now_ms - self.heard_ms) + round(timeout_s * 1000)


@dataclass(frozen=True, slots=True)
class Result:
    """How a conversation ended: an answer or a problem, and what is left of the lease."""

    answer: AnyReply | Problem
    hold: Hold | None
    close: Hold | None = None
    """A lease to close when it can be: it is not trusted any more."""


@dataclass(frozen=True, slots=True)
class Talk:
    """Everything a conversation needs."""

    line: Line
    to: Addresses
    clock: Pacer
    caller: Caller
    fresh: Callable[[], str]

    async def acquire(
        self, request: Acquire, profile: str, patience_s: float, waiting: Callable[[Problem], None] | None = None
    ) -> Result:
        """Poll until granted, refused, or out of patience. A lost answer is harmless: the same scope reattaches.

        `waiting` hears why, before each further poll.
        """
        until_ms = self.clock.now_ms() + round(patience_s * 1000)
        last: Problem | None = None
        while True:
            left_s = (until_ms - self.clock.now_ms()) / 1000
            if left_s <= 0 and last is not None:
                return Result(last, None)
            budget_s = min(POLL_S_MAX, max(0.5, left_s))
            asked = _poll(request, self.fresh(), left_s, budget_s)
            heard = await self.line.ask(self.to.profile(profile, "acquire"), asked, budget_s + 1.0)
            match heard:
                case Granted(lease=LeaseView() as view):
                    return Result(heard, Hold(profile, request, view, self.clock.now_ms()))
                case Refused(error=error) if not _worth_waiting(error):
                    return Result(error, None)
                case Refused(error=error):
                    last = error
                    if waiting is not None:
                        waiting(error)
                    await self.clock_wait(error.retry_after_s or 0.2, until_ms)
                case Silence() as silence:
                    last = silence_problem(silence, "the acquire")
                    if silence is Silence.FORBIDDEN:
                        return Result(last, None)
                    if waiting is not None:
                        waiting(last)
                    await self.clock_wait(0.2, until_ms)
                case Problem():
                    return Result(heard, None)
                case _:
                    return Result(strange(heard), None)

    async def patiently(self, subject: str, request: Request[Reply], timeout_s: float) -> Heard:
        """Ask any host something that is safe to repeat, again and again until somebody answers."""
        until_ms = self.clock.now_ms() + round(timeout_s * 1000)
        heard: Heard = Silence.TIMEOUT
        while (left_s := (until_ms - self.clock.now_ms()) / 1000) > 0:
            heard = await self.line.ask(subject, request, min(POLL_S_MAX / 2, left_s))
            if heard not in (Silence.TIMEOUT, Silence.NO_RESPONDERS):
                return heard
            await self.clock_wait(0.1, until_ms)
        return heard

    async def clock_wait(self, seconds: float, until_ms: int) -> None:
        left_s = max(0.0, (until_ms - self.clock.now_ms()) / 1000)
        await self.clock.wait(min(seconds, left_s))

    async def read(self, hold: Hold, request: Navigate | Observe, timeout_s: float) -> Result:
        """Ask the owner; when nobody answers, find it and ask once more within the deadline (contract 12)."""
        began_ms = self.clock.now_ms()
        heard = await self._ask(hold, request, timeout_s)
        if after_read(heard) is not Conclusion.LOOK_ELSEWHERE:
            return self._concluded(hold, heard)
        left_s = timeout_s - (self.clock.now_ms() - began_ms) / 1000
        found = await self.acquire(hold.acquire, hold.profile, max(0.5, left_s))
        if found.hold is None:
            return Result(found.answer, None, close=hold)
        if found.hold.view.lease != hold.view.lease:
            # The page is another one: the caller must know, before it goes on.
            lost = problem(Code.LEASE_LOST, "The page was lost while nobody answered: you hold a fresh one.")
            return Result(lost, found.hold)
        left_s = max(0.5, timeout_s - (self.clock.now_ms() - began_ms) / 1000)
        again = _repeat(found.hold, request, self.fresh(), self.clock.now_ms(), left_s)
        heard = await self._ask(found.hold, again, left_s)
        if after_read(heard) is Conclusion.LOOK_ELSEWHERE:
            return Result(as_problem(heard), None, close=found.hold)
        return self._concluded(found.hold, heard)

    async def act(self, hold: Hold, request: Act, timeout_s: float) -> Result:
        """Sent once. Without a clear answer the journal is asked; where it cannot tell, UNKNOWN (contract 13)."""
        points.reach("act.before")
        heard = await self._ask(hold, request, timeout_s)
        points.reach("act.after")
        match after_act(heard):
            case Conclusion.ANSWER:
                return self._concluded(hold, heard)
            case Conclusion.ASK:
                return await self._outcome(hold, request, heard)
            case _:
                return self._retired(hold, request, "the answer cannot be understood")

    async def _outcome(self, hold: Hold, request: Act, heard: Heard) -> Result:
        until_ms = self.clock.now_ms() + round(ASK_S_MAX * 1000)
        why = str(as_problem(heard).message)
        while self.clock.now_ms() < until_ms:
            left_s = max(0.2, (until_ms - self.clock.now_ms()) / 1000)
            asked = AskOutcome(
                id=self.fresh(),
                budget_s=min(5.0, left_s),
                lease=hold.view.lease,
                claim=hold.view.claim,
                sequence=request.sequence,
            )
            told = await self.line.ask(self.to.profile(hold.profile, "outcome"), asked, asked.budget_s + 0.5)
            if isinstance(told, OutcomeTold):
                return self._told(hold, request, told)
            if isinstance(told, Refused) and not told.error.retryable:
                # It refuses the question; of the act it says nothing, whatever its own effect.
                why = told.error.message
                break
            await self.clock_wait(0.1, until_ms)
        return self._retired(hold, request, why)

    async def close(self, hold: Hold, discard: bool, timeout_s: float) -> AnyReply | Problem:
        """Close until there is a receipt, an end, or no time left. Safe to repeat (contract 21)."""
        until_ms = self.clock.now_ms() + round(timeout_s * 1000)
        heard: Heard = problem(Code.CLOSING, "The lease is still closing: ask again.")
        while (left_s := (until_ms - self.clock.now_ms()) / 1000) > 0:
            request = Close(
                id=self.fresh(),
                lease=hold.view.lease,
                claim=hold.view.claim,
                deadline_ms=hold.deadline_ms(self.clock.now_ms(), left_s),
                discard=discard,
                budget_s=min(120.0, max(0.1, left_s)),
            )
            # Any host passes it on: the owner may have changed since.
            heard = await self.line.ask(self.to.profile(hold.profile, "close"), request, left_s + 0.5)
            if isinstance(heard, Closed):
                return heard
            error = as_problem(heard)
            if not error.retryable and error.code is not Code.SEAL_FAILED:
                return error
            await self.clock_wait(error.retry_after_s or 0.2, until_ms)
        return as_problem(heard)

    def _told(self, hold: Hold, request: Act, told: OutcomeTold) -> Result:
        """The recorded truth is the answer."""
        now_ms = self.clock.now_ms()
        kept = replace(hold, view=told.lease, heard_ms=now_ms) if told.lease is not None else None
        match told.outcome:
            case ActOutcome.APPLIED:
                answer = Acted(sequence=request.sequence, recorded=True, effect=Effect.APPLIED, lease=told.lease)
                return Result(answer, kept)
            case ActOutcome.NOT_SENT:
                refused = problem(Code.NOT_SENT, f"Act {request.sequence} was not sent: observe, then act anew.")
                return Result(refused, kept)
            case ActOutcome.UNKNOWN:
                return self._retired(hold, request, "its owner lost it")

    def _retired(self, hold: Hold, request: Act, why: str) -> Result:
        unknown = problem(
            Code.OUTCOME_UNKNOWN,
            f"Nobody can know whether act {request.sequence} happened ({why}): look it up by its request key"
            " or ask a person before anyone repeats it.",
        )
        return Result(unknown, None, close=hold)

    async def decide(self, hold: Hold, request: AnswerDialog, timeout_s: float) -> Heard:
        """Sent once. Without an answer look again: the same dialog is there, or it was answered."""
        return await self.line.ask(f"{hold.view.route}.dialog", request, timeout_s + 0.5)

    async def aside(self, hold: Hold, kind: type[TendRequest], fields: dict[str, object], timeout_s: float) -> Heard:
        """Sent once, to the owner."""
        common = {
            "id": self.fresh(),
            "lease": hold.view.lease,
            "claim": hold.view.claim,
            "deadline_ms": hold.deadline_ms(self.clock.now_ms(), timeout_s),
        }
        try:
            request = msgspec.convert(common | fields, kind)
        except msgspec.ValidationError as error:
            return problem(Code.INVALID_REQUEST, f"Mend the call: {error}.")
        verb = next(verb for verb, known in VERBS.items() if known is kind)
        return await self.line.ask(f"{hold.view.route}.{verb}", request, timeout_s + 0.5)

    async def _ask(self, hold: Hold, request: Navigate | Observe | Act, timeout_s: float) -> Heard:
        verb = type(request).__name__.lower()
        # The owner answers by the deadline; a little longer for the way back.
        return await self.line.ask(f"{hold.view.route}.{verb}", request, timeout_s + 0.5)

    def _concluded(self, hold: Hold, heard: Heard) -> Result:
        match heard:
            case Silence() | Problem():
                return Result(as_problem(heard), hold)
            case Refused(error=error):
                return Result(error, None if drops_lease(error) else self._newer(hold, heard))
            case _:
                return Result(heard, self._newer(hold, heard))

    def _newer(self, hold: Hold, heard: AnyReply) -> Hold:
        view = heard.lease
        return hold if view is None else replace(hold, view=view, heard_ms=self.clock.now_ms())


def _poll(request: Acquire, fresh: str, left_s: float, budget_s: float) -> Acquire:
    """The owner may keep the poll only as long as the caller waits: its answer says who holds the profile."""
    wait_s = min(request.wait_s, max(0.0, left_s))
    return msgspec.structs.replace(request, id=fresh, budget_s=budget_s, wait_s=wait_s)


def _repeat(hold: Hold, request: Navigate | Observe, fresh: str, now_ms: int, timeout_s: float) -> Navigate | Observe:

    deadline_ms = hold.deadline_ms(now_ms, timeout_s)
    changed = msgspec.structs.replace(request, id=fresh, claim=hold.view.claim, deadline_ms=deadline_ms)
    if isinstance(changed, Navigate):
        return msgspec.structs.replace(changed, sequence=hold.view.next_sequence)
    return changed


def _worth_waiting(error: Problem) -> bool:
    return error.code in (
        Code.PROFILE_BUSY,
        Code.CLOSING,
        Code.STARTING,
        Code.MOVED,
        Code.BROKER_UNAVAILABLE,
        Code.CAPACITY,
        Code.OVERLOADED,
        Code.LEASE_LOST,
        Code.DEADLINE_PASSED,
    )


def silence_problem(silence: Silence, what: str) -> Problem:
    """No answer, as a problem that says what to do."""
    match silence:
        case Silence.FORBIDDEN:
            return problem(Code.FORBIDDEN, f"The broker does not let you ask for {what}: check your credentials.")
        case Silence.NO_RESPONDERS:
            return problem(Code.BROKER_UNAVAILABLE, f"No host answers {what}: start one, or ask again.")
        case Silence.TIMEOUT:
            return problem(Code.BROKER_UNAVAILABLE, f"There was no answer to {what} in time: ask again.")
        case Silence.DISCONNECTED:
            return problem(Code.BROKER_UNAVAILABLE, "The broker cannot be reached: check it, then ask again.")


def strange(heard: AnyReply | RunTold) -> Problem:
    kind = type(heard).__name__
    return problem(Code.OUTPUT_INVALID, f"The answer is of an unexpected kind ({kind}): check the versions.")


def as_problem(heard: Heard) -> Problem:
    match heard:
        case Silence():
            return silence_problem(heard, "the call")
        case Problem():
            return heard
        case Refused(error=error):
            return error
        case _:
            return strange(heard)
