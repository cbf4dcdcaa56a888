"""What a page operation found: the values that pass between the browser and the rules."""

from dataclasses import dataclass
from enum import Enum

from lessor.errors import OpenDialog
from lessor.messages.action import Observation


class Away(Enum):
    """Why a page operation has no result of its own."""

    GONE = "gone"
    """Browser, keeper or connection are not there any more."""
    SILENT = "silent"
    """Sent, not answered within its bound."""
    FENCED = "fenced"
    """The keeper admitted a higher epoch."""


@dataclass(frozen=True, slots=True)
class Target:
    """What the dry run found: normalised role and name, the fingerprint, whether anything else had changed."""

    described: str
    fingerprint: str
    changed: bool
    token: object
    """For `dispatch` only: where and how the input goes."""
    url: str = ""
    """The document that it lies in: what an act granted in advance is held against."""


@dataclass(frozen=True, slots=True)
class Sent:
    """The input reached the page; `page` is None when it could not be read afterwards."""

    dispatched_ms: int
    page: Observation | None


@dataclass(frozen=True, slots=True)
class NotSent:
    """Proved: nothing reached the page."""

    why: str


@dataclass(frozen=True, slots=True)
class Paused:
    """The input is under way and a dialog holds the page: the rest comes when it has been answered."""

    dialog: OpenDialog
