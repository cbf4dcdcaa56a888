"""One error record for every surface: NATS reply, exception, exit code (contract, Outcomes and errors).

Codes are sorted into classes; the class says what becomes of the lease and which exit code a
command line ends with. Refusals travel as `Problem` values; only the client turns one into an
exception, at the last moment, for the program that asked.
"""

from enum import IntEnum, StrEnum
from typing import Final

import msgspec


class Effect(StrEnum):
    """What the refused or answered call did to the outside world."""

    NONE = "none"
    APPLIED = "applied"
    UNKNOWN = "unknown"


class Exit(IntEnum):
    """Exit code of the command line, one per error class. 0 is success, 1 a bug, 2 wrong usage."""

    REFUSED = 10
    NOT_SENT = 11
    PROGRESS = 12
    ANSWER = 13
    OUTCOME_UNKNOWN = 14
    LEASE_INVALID = 15
    ELSEWHERE = 16
    UNAVAILABLE = 17
    PAGE = 18
    HUMAN = 19
    BOUNDARY = 20
    SETUP = 21


class Class(StrEnum):
    """The classes of the contract's table, in its order; `SETUP` is what only a start can meet."""

    REFUSED = "refused"
    NOT_SENT = "settled_without_effect"
    PROGRESS = "in_progress"
    ANSWER = "answer"
    OUTCOME_UNKNOWN = "outcome_unknown"
    LEASE_INVALID = "profile_unavailable"
    ELSEWHERE = "elsewhere"
    UNAVAILABLE = "provider_unavailable"
    PAGE = "page"
    HUMAN = "needs_human"
    BOUNDARY = "boundary"
    SETUP = "setup"

    @property
    def exit(self) -> Exit:
        return Exit[self.name]

    @property
    def drops_lease(self) -> bool:
        """Whether a worker that gets this must give the lease up (contract 12, 13)."""
        return self in (Class.LEASE_INVALID, Class.OUTCOME_UNKNOWN)


class Code(StrEnum):
    """Machine codes. Shown to a model they carry the prefix `tool.browser.`."""

    URL_DISALLOWED = "url_disallowed"
    PAGE_CHANGED = "page_changed"
    ELEMENT_NOT_FOUND = "element_not_found"
    ACTION_NOT_ALLOWED = "action_not_allowed"
    GRANT_NOT_APPLICABLE = "grant_not_applicable"
    NAVIGATION_CANCELLED = "navigation_cancelled"
    STALE_REFERENCE = "stale_reference"
    TAB_QUOTA = "tab_quota"
    SEQUENCE_MISMATCH = "sequence_mismatch"
    SEQUENCE_CONFLICT = "sequence_conflict"
    DEADLINE_PASSED = "deadline_passed"
    LEASE_CLOSING = "lease_closing"
    OVERLOADED = "overloaded"
    INVALID_REQUEST = "invalid_request"
    TOO_LARGE = "too_large"

    NOT_SENT = "not_sent"

    DIALOG_OPEN = "dialog_open"
    CLOSING = "closing"
    STARTING = "starting"
    PENDING = "pending"
    APPROVAL_REQUIRED = "approval_required"

    NO_RECORD = "no_record"
    SEAL_FAILED = "seal_failed"
    APPROVAL_REJECTED = "approval_rejected"

    OUTCOME_UNKNOWN = "outcome_unknown"

    PROFILE_BUSY = "profile_busy"
    LEASE_EXPIRED = "lease_expired"
    LEASE_CLOSED = "lease_closed"
    LEASE_FENCED = "lease_fenced"
    LEASE_REVOKED = "lease_revoked"
    LEASE_LOST = "lease_lost"
    PROFILE_REVOKED = "profile_revoked"
    PROFILE_QUARANTINED = "profile_quarantined"
    CEREMONY_OPEN = "ceremony_open"
    RUN_FENCED = "run_fenced"
    RUN_ENDED = "run_ended"

    MOVED = "moved"
    BROKER_UNAVAILABLE = "broker_unavailable"
    CAPACITY = "capacity"

    BROWSER_GONE = "browser_gone"
    ENDPOINT_UNREACHABLE = "endpoint_unreachable"

    TAB_HUNG = "tab_hung"
    TAB_CRASHED = "tab_crashed"
    TAB_NOT_FOUND = "tab_not_found"
    OP_TIMEOUT = "op_timeout"
    NAVIGATION_FAILED = "navigation_failed"

    AUTHENTICATION_REQUIRED = "authentication_required"
    NEEDS_USER = "needs_user"

    FORBIDDEN = "forbidden"
    NOT_FOUND = "not_found"
    OUTPUT_INVALID = "output_invalid"
    UNSUPPORTED = "unsupported"

    SETUP_FAILED = "setup_failed"

    @property
    def class_(self) -> Class:
        return _CLASS_OF[self]


_MEMBERS: Final[dict[Class, str]] = {
    Class.REFUSED: "url_disallowed page_changed element_not_found action_not_allowed grant_not_applicable"
    " navigation_cancelled stale_reference tab_quota sequence_mismatch sequence_conflict deadline_passed"
    " lease_closing overloaded invalid_request too_large",
    Class.NOT_SENT: "not_sent",
    Class.PROGRESS: "dialog_open closing starting pending approval_required",
    Class.ANSWER: "no_record seal_failed approval_rejected",
    Class.OUTCOME_UNKNOWN: "outcome_unknown",
    Class.LEASE_INVALID: "profile_busy lease_expired lease_closed lease_fenced lease_revoked lease_lost"
    " profile_revoked profile_quarantined ceremony_open run_fenced run_ended",
    Class.ELSEWHERE: "moved broker_unavailable capacity",
    Class.UNAVAILABLE: "browser_gone endpoint_unreachable",
    Class.PAGE: "tab_hung tab_crashed tab_not_found op_timeout navigation_failed",
    Class.HUMAN: "authentication_required needs_user",
    Class.BOUNDARY: "forbidden not_found output_invalid unsupported",
    Class.SETUP: "setup_failed",
}
_CLASS_OF: Final[dict[Code, Class]] = {
    Code(word): class_ for class_, words in _MEMBERS.items() for word in words.split()
}
assert set(_CLASS_OF) == set(Code), "every code has exactly one class"

_RETRYABLE: Final = frozenset(
    {
        Code.OVERLOADED,
        Code.CLOSING,
        Code.STARTING,
        Code.PENDING,
        Code.PROFILE_BUSY,
        Code.MOVED,
        Code.BROKER_UNAVAILABLE,
        Code.CAPACITY,
        Code.SEQUENCE_MISMATCH,
        Code.PAGE_CHANGED,
        Code.NOT_SENT,
    }
)


class OpenDialog(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A dialog that waits for an answer. `message` is the page's own words: untrusted, at most 1,000 characters."""

    id: str
    """Names this one dialog: an answer that comes late never hits another."""
    tab: str
    kind: str
    """`alert`, `confirm`, `prompt` or `beforeunload`."""
    message: str
    default: str | None = None
    """What a prompt suggests."""


class Recovered(msgspec.Struct, frozen=True, kw_only=True):
    """What was done to a tab that did not answer, and what that cost. Only reads are recovered, once."""

    rung: str
    """`terminate`, `cross_site`, `reopen`, `crash` or `restart`: how far it had to go."""
    lost: tuple[str, ...] = ()
    """Of `script` (what ran was stopped), `page` (text typed and state since the last navigate; the tab was loaded
    again from there), `tab` (its sessionStorage and history), `browser` (everything since the last seal)."""


class Problem(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The error record. `message` tells the reader what to do next.

    The optional fields belong to single codes: `holder_run`, `since`, `expires_at` (informational
    wall-clock text) and `position` to `profile_busy`; `next_sequence` to `sequence_mismatch`; `approval` to
    `approval_required` and `approval_rejected`; `recovered` to a read whose tab was recovered and failed
    all the same; `dialog` to `dialog_open`.
    """

    code: Code
    message: str
    effect: Effect = msgspec.field(default_factory=lambda: Effect.NONE)
    """Always sent, unlike a plain default."""
    retryable: bool = msgspec.field(default_factory=lambda: False)
    retry_after_s: float | None = None
    holder_run: str | None = None
    since: str | None = None
    expires_at: str | None = None
    position: int | None = None
    next_sequence: int | None = None
    dialog: OpenDialog | None = None
    approval: str | None = None
    recovered: Recovered | None = None

    def __str__(self) -> str:
        return f"{self.code}: {self.message}"


def problem(  # noqa: PLR0913 -- a field each
    code: Code,
    message: str,
    *,
    effect: Effect | None = None,
    retry_after_s: float | None = None,
    holder_run: str | None = None,
    since: str | None = None,
    expires_at: str | None = None,
    position: int | None = None,
    next_sequence: int | None = None,
    dialog: OpenDialog | None = None,
    approval: str | None = None,
) -> Problem:
    """Build a record with what its code implies: `retryable`, and effect `unknown` for an unknown outcome."""
    implied = Effect.UNKNOWN if code is Code.OUTCOME_UNKNOWN else Effect.NONE
    return Problem(
        code=code,
        message=message,
        effect=implied if effect is None else effect,
        retryable=code in _RETRYABLE,
        retry_after_s=retry_after_s,
        holder_run=holder_run,
        since=since,
        expires_at=expires_at,
        position=position,
        next_sequence=next_sequence,
        dialog=dialog,
        approval=approval,
    )


def dialog_open(dialog: OpenDialog) -> Problem:
    """Progress: the page waits for an answer to its dialog, and so does everything else in that tab."""
    said = f"The page shows a {dialog.kind} dialog and waits: answer it with the verb `dialog`, then observe."
    return problem(Code.DIALOG_OPEN, said, dialog=dialog)


class LessorError(Exception):
    """A refusal, raised to the program that asked. `error.problem` is the whole record."""

    def __init__(self, refusal: Problem) -> None:
        super().__init__(str(refusal))
        self.problem = refusal

    @property
    def code(self) -> Code:
        return self.problem.code


class OutcomeUnknown(LessorError):
    """Nobody can know from here whether the act happened: look before anyone repeats it (contract 13)."""


class LeaseInvalid(LessorError):
    """The lease is not yours any more, and the refused call did nothing: acquire again (contract 12)."""


class Unavailable(LessorError):
    """Broker, host or browser cannot be reached now."""


def error_of(refusal: Problem) -> LessorError:
    """The exception for a problem: its class decides the type."""
    match refusal.code.class_:
        case Class.OUTCOME_UNKNOWN:
            return OutcomeUnknown(refusal)
        case Class.LEASE_INVALID:
            return LeaseInvalid(refusal)
        case Class.ELSEWHERE | Class.UNAVAILABLE:
            return Unavailable(refusal)
        case _:
            return LessorError(refusal)
