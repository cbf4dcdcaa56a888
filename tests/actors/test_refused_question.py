"""What a worker concludes when its act has no answer (contract 13)."""

from typing import Any

from lessor.actors.talk import Hold, Talk
from lessor.broker.subjects import Addresses
from lessor.errors import Code, Problem, problem
from lessor.messages.action import Click
from lessor.messages.ids import Caller
from lessor.messages.reply import AnyReply, LeaseView, Refused
from lessor.messages.request import Acquire, Act, AskOutcome, Request
from lessor.ports import Silence
from tests.model.world import VirtualClock

ME = Caller("acme", "alice")


class StandingClock(VirtualClock):
    async def wait(self, seconds: float) -> None:
        self.advance(seconds)


class ScriptedLine:
    """`ports.Line` that answers what a test says, by the kind of the question."""

    def __init__(self, answers: dict[type[Request[Any]], AnyReply | Silence]) -> None:
        self._answers = answers

    async def ask(self, subject: str, request: Request[Any], timeout_s: float) -> AnyReply | Problem | Silence:
        return self._answers.get(type(request), Silence.NO_RESPONDERS)


async def test_a_refused_question_is_not_the_acts_refusal() -> None:
    """A quarantined profile refuses the question with effect none; of the act nobody knows anything."""
    rests = Refused(error=problem(Code.PROFILE_QUARANTINED, "The profile rests."))
    clock = StandingClock()
    line = ScriptedLine({Act: Silence.TIMEOUT, AskOutcome: rests})
    talk = Talk(line=line, to=Addresses(ME), clock=clock, caller=ME, fresh=lambda: "id")
    view = LeaseView(
        route="r", host="h", lease="lease-1", claim=1, next_sequence=1, expires_in_s=60, clock_ms=clock.now_ms()
    )
    hold = Hold("shop", Acquire(id="a", run="r1", worker="w"), view, clock.now_ms())
    act = Act(
        id="b",
        lease="lease-1",
        claim=1,
        deadline_ms=clock.now_ms() + 1000,
        sequence=1,
        revision="r",
        action=Click(ref="e1"),
    )

    result = await talk.act(hold, act, 1.0)

    assert isinstance(result.answer, Problem)
    assert result.answer.code is Code.OUTCOME_UNKNOWN
    assert result.close == hold
