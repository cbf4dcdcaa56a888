"""A worker's question has an answer, a problem or a silence that says what is known."""

import asyncio

from lessor.broker.connection import Connection
from lessor.broker.line import BrokerLine
from lessor.errors import Code, Problem
from lessor.messages import wire
from lessor.messages.action import Type
from lessor.messages.reply import Listed
from lessor.messages.request import Act, AskStatus
from lessor.ports import Silence
from tests.support.broker import fresh

STATUS = AskStatus(id="q1")


async def test_an_answer_that_comes_too_late_is_dropped(connection: Connection) -> None:
    subject, late = fresh("echo."), asyncio.Event()
    replies: list[str] = []

    async def remember(message: object) -> None:
        replies.append(getattr(message, "reply", ""))
        if len(replies) > 1:
            await connection.publish(replies[0], wire.encode(Listed(profiles=("late",))))
            await connection.publish(replies[1], wire.encode(Listed(profiles=("mine",))))
        late.set()

    await connection.subscribe(subject, remember)
    line = BrokerLine(connection)

    assert await line.ask(subject, STATUS, 0.05) is Silence.TIMEOUT
    assert Listed(profiles=("mine",)) == await line.ask(subject, STATUS, 2.0)


async def test_garbage_is_a_problem_not_an_answer(connection: Connection) -> None:
    subject = fresh("garbage.")

    async def answer(message: object) -> None:
        await connection.publish(getattr(message, "reply", ""), b"<html>502</html>")

    await connection.subscribe(subject, answer)
    told = await BrokerLine(connection).ask(subject, STATUS, 2.0)
    assert isinstance(told, Problem)
    assert told.code is Code.OUTPUT_INVALID


async def test_a_request_that_is_too_large_is_not_sent(connection: Connection) -> None:
    action = Type(ref="e1", text="x" * 65_536)
    act = Act(id="q", lease="l", claim=1, deadline_ms=1, sequence=1, revision="r", action=action)
    told = await BrokerLine(connection).ask("lessor.v1.acme.ann.p.shop.7.act", act, 2.0)
    assert isinstance(told, Problem)
    assert told.code is Code.TOO_LARGE


async def test_nobody_there_is_known_at_once(connection: Connection) -> None:
    assert await BrokerLine(connection).ask(fresh("nobody."), STATUS, 5.0) is Silence.NO_RESPONDERS


async def test_a_cancelled_question_ends(connection: Connection) -> None:
    async def mute(message: object) -> None:
        pass

    subject = fresh("mute.")
    await connection.subscribe(subject, mute)
    asking = asyncio.ensure_future(BrokerLine(connection).ask(subject, STATUS, 30.0))
    await connection.flush()
    asking.cancel()
    done, _ = await asyncio.wait({asking}, timeout=1)
    assert asking in done
    assert asking.cancelled()
