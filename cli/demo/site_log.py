"""What the demo site remembers on disk: one append-only log per kind of effect, and its logins."""

import hashlib
import hmac
import json
import os
import secrets
import threading
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final, cast

SUBMISSIONS_FILE: Final = "submissions.jsonl"
LOGINS_FILE: Final = "logins.jsonl"


@dataclass(frozen=True, slots=True)
class Submission:
    """One invoice the site accepted. `session` names the login without being its cookie."""

    at_unix_ms: int
    request_key: str
    number: str
    amount: str
    session: str

    def as_json(self) -> dict[str, object]:
        return asdict(self)


class JsonLines:
    """An append-only file, one JSON object a line; what `append` returned from is on disk."""

    def __init__(self, path: Path) -> None:
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)

    def append(self, entry: Mapping[str, object]) -> None:
        line = json.dumps(entry, separators=(",", ":")).encode() + b"\n"
        written = os.write(self._fd, line)
        if written != len(line):
            raise OSError(f"short write to the log: {written} of {len(line)} bytes")
        os.fsync(self._fd)

    def entries(self) -> list[dict[str, object]]:
        """Every whole line. A line without its end was never answered for, so it does not count."""
        data = os.pread(self._fd, os.fstat(self._fd).st_size, 0)
        return [cast("dict[str, object]", json.loads(line)) for line in data.split(b"\n")[:-1]]

    def close(self) -> None:
        os.close(self._fd)


class Submissions:
    """The site's ground truth. It counts duplicates on purpose: they must be visible."""

    def __init__(self, directory: Path) -> None:
        self._lines = JsonLines(directory / SUBMISSIONS_FILE)
        self._lock = threading.Lock()

    def record(self, submission: Submission, *, once: bool) -> bool:
        """Append and fsync. With `once`, a key that is already there is refused: False, nothing written."""
        with self._lock:
            if once and any(entry["request_key"] == submission.request_key for entry in self._lines.entries()):
                return False
            self._lines.append(submission.as_json())
            return True

    def all(self) -> list[Submission]:
        with self._lock:
            entries = self._lines.entries()
        return [Submission(**entry) for entry in entries]  # type: ignore[arg-type]  # lines that it wrote itself

    def by_key(self, request_key: str) -> list[Submission]:
        return [submission for submission in self.all() if submission.request_key == request_key]

    def close(self) -> None:
        self._lines.close()


class Logins:
    """Session cookies signed with a secret of the directory, so a restarted site still knows them.

    Removing the secret file ends every session at the next start. Every login is on record.
    """

    def __init__(self, directory: Path, users: Mapping[str, str]) -> None:
        self._users = dict(users)
        self._secret = _secret_of(directory / "session-secret")
        self._log = JsonLines(directory / LOGINS_FILE)
        self._lock = threading.Lock()

    def log_in(self, user: str, password: str) -> str | None:
        """A cookie value for a new session, or None for a wrong password."""
        expected = self._users.get(user)
        if not hmac.compare_digest((expected or "").encode(), password.encode()) or expected is None:
            return None
        session = secrets.token_hex(8)
        with self._lock:
            self._log.append({"at_unix_ms": time.time_ns() // 1_000_000, "user": user, "session": session})
        return f"{session}.{self._signature(session)}"

    def session_of(self, cookie: str) -> str | None:
        """The session's name, or None when the site did not sign this cookie."""
        session, _, signature = cookie.partition(".")
        genuine = hmac.compare_digest(self._signature(session).encode(), signature.encode())
        return session if genuine else None

    def close(self) -> None:
        self._log.close()

    def _signature(self, session: str) -> str:
        return hmac.new(self._secret, session.encode(), hashlib.sha256).hexdigest()


def _secret_of(path: Path) -> bytes:
    if not path.exists():
        path.touch(mode=0o600)
        path.write_bytes(secrets.token_bytes(32))
    return path.read_bytes()
