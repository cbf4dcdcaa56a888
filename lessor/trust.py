"""What a worker may conclude from an answer, or from none (contract 12, 13). Pure."""

from enum import Enum

from lessor.errors import Class, Code, Effect, Problem
from lessor.messages.reply import Acted, AnyReply, Refused
from lessor.ports import Silence

Heard = AnyReply | Problem | Silence


class Conclusion(Enum):
    """What to do after an answer."""

    ANSWER = "answer"
    """It is the answer: the lease goes on, or ends as it says."""
    ASK = "ask"
    """It says nothing about the act: ask the owner what is on record."""
    UNKNOWN = "unknown"
    """Nobody can know: the lease is retired."""
    LOOK_ELSEWHERE = "elsewhere"
    """Nobody answered a read: find the owner and ask once more."""


def after_act(heard: Heard) -> Conclusion:
    """An act without an answer is never resent; anything that is no clear answer is not taken for one."""
    match heard:
        case Silence.FORBIDDEN:
            return Conclusion.ANSWER
        case Silence():
            return Conclusion.ASK
        case Problem():
            sent = heard.code not in (Code.TOO_LARGE, Code.INVALID_REQUEST)
            return Conclusion.UNKNOWN if sent else Conclusion.ANSWER
        case Refused(error=error):
            if error.code.class_ is Class.ELSEWHERE or error.code is Code.PENDING:
                return Conclusion.ASK
            if error.effect is Effect.UNKNOWN and error.code is not Code.OUTCOME_UNKNOWN:
                return Conclusion.ASK
            return Conclusion.ANSWER
        case Acted():
            return Conclusion.ANSWER
        case _:
            return Conclusion.UNKNOWN


def after_read(heard: Heard) -> Conclusion:
    """A read may be asked once more, of the owner wherever it is now."""
    match heard:
        case Silence.FORBIDDEN:
            return Conclusion.ANSWER
        case Silence():
            return Conclusion.LOOK_ELSEWHERE
        case Problem():
            return Conclusion.ANSWER
        case Refused(error=error) if error.code in (Code.MOVED, Code.BROKER_UNAVAILABLE):
            return Conclusion.LOOK_ELSEWHERE
        case _:
            return Conclusion.ANSWER


def drops_lease(error: Problem) -> bool:
    """Whether the worker must give the lease up after this refusal."""
    return error.code.class_.drops_lease
