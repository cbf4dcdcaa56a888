"""A worker's conversations: what an answer that is none means for an act."""

import pytest

from lessor.actors.clock import BootClock
from lessor.actors.talk import Hold, Talk
from lessor.broker.subjects import Addresses
from lessor.errors import Code, Problem
from lessor.ids import fresh_id
from lessor.messages.action import Click
from lessor.messages.ids import Caller
from lessor.messages.reply import AnyReply, LeaseView, Listed, Reply
from lessor.messages.request import Acquire, Act, Request
from lessor.messages.wire import REPLY_BYTES_MAX, decode_reply, encode
from lessor.ports import Silence

ANN = Caller("acme", "ann")
VIEW = LeaseView(
    route="lessor.v1.acme.ann.p.shop.7",
    host="h",
    lease="l1",
    claim=1,
    next_sequence=1,
    expires_in_s=60,
    clock_ms=0,
)


class Line:
    """A wire that answers everything with the same bytes, and remembers what was asked."""

    def __init__(self, body: bytes) -> None:
        self._body = body
        self.asked: list[str] = []

    async def ask(self, subject: str, request: Request[Reply], timeout_s: float) -> AnyReply | Problem | Silence:
        self.asked.append(type(request).__name__)
        return decode_reply(self._body)


@pytest.mark.parametrize(
    "body",
    [
        b"<html>502 Bad Gateway</html>",
        b"",
        b'{"type":"no such kind"}',
        b'{"type":"acted"}',
        b'{"type":"acted","pad":"' + b"x" * REPLY_BYTES_MAX + b'"}',
        encode(Listed(profiles=())),
    ],
    ids=["an error page", "nothing", "an unknown kind", "half an answer", "too much", "another answer"],
)
async def test_s11_an_act_with_an_answer_that_is_none_is_unknown_and_its_lease_given_up(body: bytes) -> None:
    """It is not sent again, whatever came back."""
    line = Line(body)
    talk = Talk(line=line, to=Addresses(ANN), clock=BootClock(), caller=ANN, fresh=fresh_id)
    hold = Hold("shop", Acquire(id="a1", run="r1", worker="w1"), VIEW, heard_ms=0)
    act = Act(id="q1", lease="l1", claim=1, deadline_ms=2**50, sequence=1, revision="1.1", action=Click(ref="e1.ab"))
    result = await talk.act(hold, act, timeout_s=1)
    assert isinstance(result.answer, Problem)
    assert result.answer.code is Code.OUTCOME_UNKNOWN
    assert (result.hold, result.close) == (None, hold)
    assert line.asked == ["Act"]
