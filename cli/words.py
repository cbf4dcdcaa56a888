"""`click e1`, `type e2 hello`: an action in the words of a command line."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from lessor.errors import Code, Problem, problem
from lessor.messages.action import (
    Action,
    AnyAction,
    Check,
    Click,
    Commit,
    Hover,
    Match,
    Press,
    Scroll,
    Select,
    Type,
    Upload,
)
from lessor.messages.ids import request_key

HELP: Final = (
    "click REF | hover REF | type REF TEXT (or --secret NAME) | select REF OPTION... | check REF [--off]"
    " | press KEY [--ref] | scroll [REF] | upload REF ARTIFACT..."
)


@dataclass(frozen=True, slots=True)
class How:
    """What the options say."""

    off: bool = False
    ref: str | None = None
    by_px: int = 0
    secret: str | None = None


Make = Callable[[Sequence[str], How], Action]

_TABLE: Final[dict[str, tuple[int, int, Make]]] = {
    "click": (1, 1, lambda said, _: Click(ref=said[0])),
    "hover": (1, 1, lambda said, _: Hover(ref=said[0])),
    "type": (1, 2, lambda said, how: Type(ref=said[0], text=said[1] if said[1:] else "", secret=how.secret)),
    "select": (2, 65, lambda said, _: Select(ref=said[0], options=tuple(said[1:]))),
    "check": (1, 1, lambda said, how: Check(ref=said[0], on=not how.off)),
    "press": (1, 1, lambda said, how: Press(key=said[0], ref=how.ref)),
    "upload": (2, 17, lambda said, _: Upload(ref=said[0], artifacts=tuple(said[1:]))),
    "scroll": (0, 1, lambda said, how: Scroll(ref=said[0] if said else how.ref, by_px=how.by_px)),
}
"""Word -> how many words follow, at least and at most, and what they make."""


def action(said: Sequence[str], how: How) -> AnyAction | Problem:
    """The action, checked as the owner will check it; else `invalid_request`."""
    least, most, make = _TABLE.get(said[0], (0, 0, None))
    if make is None or not least <= len(said) - 1 <= most:
        return problem(Code.INVALID_REQUEST, f"{' '.join(said)!r} is no action: {HELP}")
    if said[0] == "type" and (len(said) == 3) == (how.secret is not None):
        return problem(Code.INVALID_REQUEST, "type takes a TEXT or --secret NAME, one of them.")
    try:
        checked: AnyAction = msgspec.convert(msgspec.to_builtins(make(said[1:], how)), AnyAction)
    except msgspec.ValidationError as error:
        return problem(Code.INVALID_REQUEST, f"{said[0]}: {error}. Take references from what observe shows.")
    return checked


def match(text: str) -> Match | Problem:
    known: dict[str, Match] = {"target": "target", "page": "page"}
    return known.get(text) or problem(Code.INVALID_REQUEST, f"--match is `target` or `page`, not {text!r}.")


def step(task: str, name: str | None, commit: bool) -> Commit | Problem | None:
    """The act's place in a step; its commit carries the request key (contract, Steps)."""
    if name is None:
        return problem(Code.INVALID_REQUEST, "--commit needs --step: name the step it commits.") if commit else None
    return Commit(task=task, step=name, request_key=request_key(task, name) if commit else None)


def time_left(seconds: float) -> str:
    minutes, rest = divmod(max(0, round(seconds)), 60)
    return f"{minutes}m{rest:02}s"
