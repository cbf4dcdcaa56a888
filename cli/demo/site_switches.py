"""How the demo site misbehaves on request: its switches, and the gate that holds submissions."""

import threading
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from enum import Enum, StrEnum, auto
from typing import Final, cast

PAUSE_S_MAX: Final = 120.0
"""Longest delay or hold of one submission, in seconds; a hold that nobody releases ends as a drop."""

TIMES_MAX: Final = 1000


class Answer(StrEnum):
    """What a submission gets once it is recorded; `lose` records nothing."""

    NORMAL = "normal"
    DROP = "drop"  # the connection closes without a byte
    DELAY = "delay"  # the answer comes after delay_s, or at a release
    HOLD = "hold"  # the answer comes at a release
    DOUBLE = "double"  # the answer is sent twice
    GARBAGE = "garbage"  # bytes that are not HTTP
    ERROR = "error"  # a 500 page, although the invoice is recorded
    LOSE = "lose"  # received, never recorded: the connection closes without a byte at a release


def _initial_amounts() -> Mapping[str, str]:
    return {"INV-101": "120.00", "INV-102": "75.50", "INV-103": "2310.00"}


@dataclass(frozen=True, slots=True)
class Switches:
    """Everything that can be switched. `times`: `answer` and `record_delay_s` hold for that many posts."""

    answer: Answer = Answer.NORMAL
    delay_s: float = 0.0
    record_delay_s: float = 0.0
    times: int | None = None
    idempotent: bool = False
    keep_alive: bool = False
    amounts: Mapping[str, str] = field(default_factory=_initial_amounts)

    def as_json(self) -> dict[str, object]:
        return asdict(self)

    def changed(self, changes: Mapping[str, object]) -> "Switches | str":
        """These switches with the named ones changed, or the sentence that says what is wrong."""
        names = {switch.name for switch in fields(self)}
        accepted: dict[str, object] = {}
        for name, value in changes.items():
            if name not in names:
                return f"no switch {name!r}; there are {', '.join(sorted(names))}"
            read = self._read(name, value)
            if isinstance(read, _Wrong):
                return f"{name}: {read.why}"
            accepted[name] = read
        return replace(self, **accepted)  # type: ignore[arg-type]  # _read checked each value

    def after_one(self) -> "Switches":
        """The switches for the submission after this one."""
        if self.times is None:
            return self
        if self.times > 1:
            return replace(self, times=self.times - 1)
        return replace(self, answer=Answer.NORMAL, record_delay_s=0.0, times=None)

    def _read(self, name: str, value: object) -> "object | _Wrong":
        match name:
            case "answer":
                if isinstance(value, str) and value in set(Answer):
                    return Answer(value)
                return _Wrong(f"one of {', '.join(Answer)}")
            case "delay_s" | "record_delay_s":
                number = isinstance(value, int | float) and not isinstance(value, bool)
                bounded = number and 0 <= cast("float", value) <= PAUSE_S_MAX
                return float(cast("float", value)) if bounded else _Wrong(f"seconds from 0 to {PAUSE_S_MAX:g}")
            case "times":
                bounded = value is None or (type(value) is int and 1 <= value <= TIMES_MAX)
                return value if bounded else _Wrong(f"1 to {TIMES_MAX}, or null for until changed")
            case "amounts":
                return self._read_amounts(value)
            case _:
                return value if isinstance(value, bool) else _Wrong("true or false")

    def _read_amounts(self, value: object) -> "object | _Wrong":
        given: Mapping[str, object] = cast("dict[str, object]", value) if isinstance(value, dict) else {}
        merged: dict[str, object] = {**self.amounts, **given}
        known = bool(given) and merged.keys() == self.amounts.keys()
        if known and all(isinstance(amount, str) for amount in given.values()):
            return merged
        return _Wrong(f"text for some of {', '.join(self.amounts)}")


@dataclass(frozen=True, slots=True)
class _Wrong:
    why: str


class Passed(Enum):
    """Why a submission left the gate."""

    RELEASED = auto()
    TIME_UP = auto()
    CLOSED = auto()


@dataclass(frozen=True, slots=True)
class Held:
    """A submission that waits at the gate, before its record or before its answer."""

    request_key: str
    number: str
    recorded: bool

    def as_json(self) -> dict[str, object]:
        return asdict(self)


class Gate:
    """Where delayed and held submissions wait, each with a limit, until time, a release or the site's end."""

    def __init__(self) -> None:
        self._moved = threading.Condition()
        self._held: dict[object, Held] = {}
        self.closed = threading.Event()

    def pause(self, held: Held, limit_s: float) -> Passed:
        """Block this submission's thread for at most `limit_s`."""
        ticket = object()
        with self._moved:
            if self.closed.is_set():
                return Passed.CLOSED
            self._held[ticket] = held
            self._moved.notify_all()
            self._moved.wait_for(lambda: self.closed.is_set() or ticket not in self._held, limit_s)
            if self._held.pop(ticket, None) is None:
                return Passed.RELEASED
            return Passed.CLOSED if self.closed.is_set() else Passed.TIME_UP

    def release(self) -> int:
        """Let every waiting submission go on; how many there were."""
        with self._moved:
            released = len(self._held)
            self._held.clear()
            self._moved.notify_all()
            return released

    def wait_held(self, wait_s: float) -> list[Held]:
        """The waiting submissions, as soon as there is one; empty after `wait_s`."""
        with self._moved:
            self._moved.wait_for(lambda: self.closed.is_set() or bool(self._held), wait_s)
            return list(self._held.values())

    def close(self) -> None:
        """Send every waiting submission away unanswered, and whoever comes later."""
        with self._moved:
            self.closed.set()
            self._moved.notify_all()
