"""What a run of the system leaves behind: one list of moments, in the order in which they became true.

A file holds one JSON object a line. Journals alone give `Wrote`, `Owned` and `RunWritten`; a test bed
adds what was asked and told, and what keepers and the site saw. The site's `Hit`s are the only
ground truth about effects. `at_ms` is one clock for the whole history; times inside records are on
the boot clock that they name.
"""

from collections.abc import Iterable, Iterator
from typing import Final, Literal

import msgspec

from lessor.errors import Effect
from lessor.messages.ids import Caller
from lessor.messages.record import Entry, Own
from lessor.messages.reply import AnyReply
from lessor.messages.request import VERBS, ProfileRequest
from lessor.messages.run import RunRecord


class Moment(msgspec.Struct, frozen=True, kw_only=True, tag_field="moment", omit_defaults=True):
    """Something that became true."""

    at_ms: int


class Wrote(Moment, frozen=True, kw_only=True, tag="wrote"):
    """An entry was stored at that sequence of the stream."""

    profile: str
    sequence: int
    entry: Entry


class Owned(Moment, frozen=True, kw_only=True, tag="owned"):
    """An `own` was stored: its sequence is an epoch."""

    profile: str
    sequence: int
    own: Own


class Tried(Moment, frozen=True, kw_only=True, tag="tried"):
    """The writer first published an entry: what it rests on was true then, whenever it lands."""

    profile: str
    nonce: str


class Acknowledged(Moment, frozen=True, kw_only=True, tag="acknowledged"):
    """The writer learnt that this sequence is its own."""

    profile: str
    sequence: int


class RunWritten(Moment, frozen=True, kw_only=True, tag="run_written"):
    """`run` is `tenant/run`."""

    run: str
    revision: int
    record: RunRecord


class Came(Moment, frozen=True, kw_only=True, tag="came"):
    """A host took a request in. `slot` is its own number; `profile` is `tenant/profile`."""

    slot: int
    caller: Caller
    profile: str
    verb: str
    body: msgspec.Raw
    host: str = ""

    @property
    def request(self) -> ProfileRequest:
        return msgspec.json.decode(self.body, type=VERBS[self.verb])


class Passed(Moment, frozen=True, kw_only=True, tag="passed"):
    """A host passed a request on: another slot answers it."""

    slot: int


class Told(Moment, frozen=True, kw_only=True, tag="told"):
    """An answer left its host."""

    slot: int
    reply: AnyReply


class Dropped(Moment, frozen=True, kw_only=True, tag="dropped"):
    """A host died with these requests in hand."""

    slots: tuple[int, ...]


class Ordered(Moment, frozen=True, kw_only=True, tag="ordered"):
    """An owner gave an input to its browser. `boot_ms` is its boot clock then, `deadline_ms` the act's."""

    profile: str
    epoch: int
    lease: str
    sequence: int
    boot_ms: int
    deadline_ms: int
    act: str = ""


class Sent(Moment, frozen=True, kw_only=True, tag="sent"):
    """An input passed the keeper, which at that time had acknowledged `until_ms`; both on its boot clock."""

    profile: str
    instance: str
    epoch: int
    lease: str
    sequence: int
    boot_ms: int
    until_ms: int
    act: str = ""


class Hit(Moment, frozen=True, kw_only=True, tag="hit"):
    """The site saw the effect of an act: its own record."""

    profile: str
    lease: str
    sequence: int
    epoch: int
    request_key: str | None = None
    act: str = ""
    """What the test bed calls the act: a number that was refused may carry another one later."""


class Page(Moment, frozen=True, kw_only=True, tag="page"):
    """A browser with its egress came up, reached its keeper's deadline, or was gone."""

    profile: str
    instance: str
    state: Literal["up", "overdue", "gone"]


class Concluded(Moment, frozen=True, kw_only=True, tag="concluded"):
    """What a worker's program was told about an act, in the end: `effect` none means that it did not happen."""

    profile: str
    lease: str
    sequence: int
    effect: Effect
    code: str | None = None
    act: str = ""


class Healed(Moment, frozen=True, kw_only=True, tag="healed"):
    """No fault from here on."""


class Rest(Moment, frozen=True, kw_only=True, tag="rest"):
    """What is left when all work is done and all bounds have passed, and what was not done."""

    unfinished: tuple[str, ...] = ()
    owners: int = 0
    browsers: int = 0
    broken: tuple[str, ...] = ()
    """Invariants that broke inside: exceptions are bugs."""


AnyMoment = (
    Wrote
    | Owned
    | Tried
    | Acknowledged
    | RunWritten
    | Came
    | Passed
    | Told
    | Dropped
    | Ordered
    | Sent
    | Hit
    | Page
    | Concluded
    | Healed
    | Rest
)
History = list[AnyMoment]
_encoder: Final = msgspec.json.Encoder()
_decoder: Final = msgspec.json.Decoder(AnyMoment)


def lines(history: Iterable[AnyMoment]) -> Iterator[bytes]:
    """One JSON object a line."""
    return (_encoder.encode(moment) + b"\n" for moment in history)


def read(text: Iterable[bytes]) -> Iterator[AnyMoment]:
    """Raises `msgspec.ValidationError` on a line that is no moment."""
    return (_decoder.decode(line) for line in text if line.strip())
