"""Named points of an action, where tests kill a process, a browser or an actor. Nothing happens there otherwise.

A host passes, for each act: `aim.before`, `aim.after`, `intent.before`, `intent.landed`, `dispatch.before`,
`dispatch.after`, `outcome.before`, `outcome.landed`, `answer.before`; and `<kind>.before` and `<kind>.landed` around
the append of every other kind of record. A worker passes `act.before` and `act.after`, and `look.before` and
`look.after` around each look of a reconciler.
"""

from collections.abc import Callable
from typing import Final

HOST: Final = (
    "aim.before",
    "aim.after",
    "intent.before",
    "intent.landed",
    "dispatch.before",
    "dispatch.after",
    "outcome.before",
    "outcome.landed",
    "answer.before",
)
WORKER: Final = ("act.before", "act.after", "look.before", "look.after")

hook: Callable[[str], None] | None = None
"""Called with each point that is passed. Set by tests; it may raise, or not come back."""


def reach(point: str) -> None:
    """Pass a point."""
    if hook is not None:
        hook(point)
