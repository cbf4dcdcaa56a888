"""What a run of the system leaves behind for the checker: one list, in the order in which it became true.

The driver of the rules, the simulator and a recorded journal all produce it. A site's own log
supplies the `Hit`s: they are the only ground truth about effects.
"""

from dataclasses import dataclass

from lessor.lease.verdict import Effect
from lessor.messages.ids import Caller
from lessor.messages.record import Entry
from lessor.messages.reply import Reply
from lessor.messages.request import ProfileRequest
from lessor.messages.run import RunRecord


@dataclass(frozen=True, slots=True)
class Wrote:
    """An entry was acknowledged at that sequence of the profile's chain."""

    at_ms: int
    sequence: int
    entry: Entry


@dataclass(frozen=True, slots=True)
class Came:
    """A request was taken in."""

    at_ms: int
    slot: int
    caller: Caller
    request: ProfileRequest


@dataclass(frozen=True, slots=True)
class Told:
    """An answer left."""

    at_ms: int
    slot: int
    reply: Reply


@dataclass(frozen=True, slots=True)
class Ordered:
    """The owner of that epoch ordered an effect."""

    at_ms: int
    epoch: int
    effect: Effect


@dataclass(frozen=True, slots=True)
class Hit:
    """The site saw the effect of an act that an owner of that epoch had dispatched."""

    at_ms: int
    epoch: int
    lease: str
    sequence: int
    request_key: str | None


@dataclass(frozen=True, slots=True)
class RunWritten:
    """A run record changed; None: it was deleted."""

    at_ms: int
    run: str
    revision: int
    record: RunRecord | None


@dataclass(frozen=True, slots=True)
class Swept:
    """The owner was shown this run's record by a sweep."""

    at_ms: int
    run: str
    revision: int


Moment = Wrote | Came | Told | Ordered | Hit | RunWritten | Swept
History = list[Moment]
