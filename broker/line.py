"""A worker's line to the hosts: one question, at most one answer, nothing kept for later."""

import nats.errors

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
        try:
            answer = await self._connection.request(subject, body, timeout_s)
        except nats.errors.BadSubjectError:
            return problem(Code.INVALID_REQUEST, "A name in the subject is not a valid name.")
        return answer if isinstance(answer, Silence) else wire.decode_reply(answer.data)
