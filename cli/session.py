"""What one person's calls for one run have in common: a small private file, since no process lives between them.

It holds the run's holder id and claim, so that the calls of one person do not fence each other
(contract 17), and the leases with route, sequence and clock, so that a call goes on where the last
one ended: the same lease, its next sequence, never silently another page (contract 15). An act whose
answer was lost leaves the file as it was, so the same command again carries the same sequence and
gets the recorded answer (contract 8).
"""

import contextlib
import fcntl
import os
from collections.abc import Generator
from datetime import datetime
from pathlib import Path

import msgspec

from lessor.actors.talk import Hold
from lessor.errors import Code, LessorError, Problem, error_of, problem
from lessor.ids import fresh_id
from lessor.messages.ids import Attempt, Name
from lessor.messages.reply import LeaseView
from lessor.messages.request import Acquire

VERSION = 1


class Standing(msgspec.Struct, frozen=True, kw_only=True):
    """A lease as it was heard of last."""

    profile: Name
    acquire: Acquire
    view: LeaseView
    heard_ms: int
    boot: str
    """Which boot of this machine `heard_ms` belongs to: without it no deadline can be named any more."""
    revision: str | None = None

    def hold(self) -> Hold:
        return Hold(self.profile, self.acquire, self.view, self.heard_ms)


class Session(msgspec.Struct, kw_only=True):
    """The file."""

    run: Name
    attempt: Attempt
    holder: str = msgspec.field(default_factory=fresh_id)
    v: int = VERSION
    claim: int | None = None
    deadline: datetime | None = None
    leases: dict[str, Standing] = {}
    debts: dict[str, Standing] = {}
    """Closes that could not be delivered, by lease: settled before the next acquire (contract 14)."""


def name(text: str, what: str) -> str:
    """A valid name, or LessorError (`invalid_request`): names go into subjects and file names."""
    try:
        return msgspec.convert(text, Name)
    except msgspec.ValidationError:
        raise error_of(
            problem(
                Code.INVALID_REQUEST,
                f"{text!r} is no name for a {what}: use a-z, 0-9, - and _, 63 at most, beginning with a letter or"
                " digit.",
            )
        ) from None


class SessionFile:
    """The file of one tenant's, principal's and run's calls, below the data directory. All of it raises LessorError."""

    def __init__(self, data_dir: Path, tenant: str, principal: str, run: str) -> None:
        self.run = name(run, "run")
        self.path = data_dir / "cli" / f"{name(tenant, 'tenant')}.{name(principal, 'principal')}.{self.run}.json"

    @contextlib.contextmanager
    def locked(self) -> Generator[None]:
        """One call at a time works on a run's page from here; the second is refused at once."""
        with self._told():
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            lock_fd = os.open(self.path.with_suffix(".lock"), os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        try:
            try:
                fcntl.flock(lock_fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                busy = f"Another lessor command works for run {self.run!r} right now: wait for it, then ask again."
                raise error_of(problem(Code.PENDING, busy, retry_after_s=1.0)) from None
            yield
        finally:
            os.close(lock_fd)

    def read(self) -> Session | None:
        """None when there is none yet."""
        try:
            body = self.path.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise self._refused(error) from error
        try:
            return msgspec.json.decode(body, type=Session)
        except msgspec.DecodeError as error:
            broken = f"{self.path} is not what lessor wrote: remove it, then acquire again."
            raise error_of(problem(Code.SETUP_FAILED, broken)) from error

    def write(self, session: Session) -> None:
        """Whole or not at all."""
        fresh = self.path.with_suffix(f".{os.getpid()}.new")
        with self._told():
            fd = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
            with os.fdopen(fd, "wb") as file:
                file.write(msgspec.json.encode(session))
            fresh.replace(self.path)

    @contextlib.contextmanager
    def _told(self) -> Generator[None]:
        try:
            yield
        except OSError as error:
            raise self._refused(error) from error

    def _refused(self, error: OSError) -> LessorError:
        reason = error.strerror or str(error)
        return error_of(
            problem(
                Code.SETUP_FAILED,
                f"What this command must remember cannot be kept in {self.path.parent} ({reason}): mend that, or choose"
                " another directory with --data-dir.",
            )
        )


def no_lease(profile: str, run: str) -> Problem:
    return problem(
        Code.LEASE_CLOSED, f"Run {run!r} holds no lease of {profile!r} here: lessor acquire {profile} --run {run}"
    )
