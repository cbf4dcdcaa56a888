"""A worker's line to the hosts: one question, at most one answer, nothing kept for later."""

from lessor.broker import subjects
from lessor.broker.connection import Connection
from lessor.errors import Code, Problem, problem
from lessor.messages import wire
from lessor.messages.reply import AnyReply, Reply
from lessor.messages.request import Request
from lessor.ports import Silence


class BrokerLine:
    """`ports.Line`. Replies come to the connection's own inbox; one that comes too late is dropped there."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def ask(self, subject: str, request: Request[Reply], timeout_s: float) -> AnyReply | Problem | Silence:
        """DISCONNECTED, FORBIDDEN, NO_RESPONDERS: nobody got it. TIMEOUT: it may yet be executed.

        A Problem never came from an owner: `too_large` and `invalid_request` were not sent,
        `output_invalid` is an answer that cannot be read.
        """
        body = wire.encode(request)
        if len(body) > wire.REQUEST_BYTES_MAX:
            return problem(Code.TOO_LARGE, f"The request has {len(body)} bytes; send at most {wire.REQUEST_BYTES_MAX}.")
        if subjects.misnamed(subject):
            # A dot in a name would make it another subject, which nobody answers.
            return problem(Code.INVALID_REQUEST, f"A name in {subject!r} is none: use [a-z0-9][a-z0-9_-]{{0,62}}.")
        answer = await self._connection.request(subject, body, timeout_s)
        return answer if isinstance(answer, Silence) else wire.decode_reply(answer.data)
