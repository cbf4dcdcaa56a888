"""Says on stderr what is waited for, once a person has waited for a second."""

import sys
from typing import TYPE_CHECKING

from lessor.cli.answer import console_for_errors, plain, tell

if TYPE_CHECKING:
    from rich.status import Status

AFTER_S = 1.0


class Progress:
    """A spinner on a terminal, else one line for each new thing that is waited for. Stdout never sees it."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._shown = False
        self._status: Status | None = None

    def say(self, what: str) -> None:
        """What is waited for now."""
        if what != self._what:
            self._what = what
            if self._shown:
                self._draw()

    def show(self) -> None:
        """The second is over."""
        self._shown = True
        self._draw()

    def end(self) -> None:
        if self._status is not None:
            self._status.stop()

    def _draw(self) -> None:
        if not sys.stderr.isatty():
            tell(f"lessor: {self._what} ...")
        elif self._status is None:
            self._status = console_for_errors().status(plain(self._what))
            self._status.start()
        else:
            self._status.update(plain(self._what))
