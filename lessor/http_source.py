"""A `RunSource` that asks an HTTP endpoint of the application. An outage of it closes nothing (contract 16).

`GET <base>/<tenant>/<run>` answers `{"status": "running"}` with one of lessor's words for a run's status, or 404.
`GET <base>/<tenant>/<run>/approvals` answers `{"pending": true}` while an approval of the run's own waits.
Anything else (another status code, a redirect, no JSON, more than 64 KiB, no answer in time) says nothing.
"""

import asyncio
import http.client
from dataclasses import dataclass, field
from typing import Final, TypeVar
from urllib.parse import urlsplit

import msgspec

from lessor.errors import Code, Problem, error_of, problem
from lessor.messages.ids import RunKey
from lessor.messages.run import RunStatus

S = TypeVar("S", bound=msgspec.Struct)
BYTES_MAX: Final = 64 * 1024
AT_ONCE_MAX: Final = 8


class _Status(msgspec.Struct):
    status: RunStatus


class _Approvals(msgspec.Struct):
    pending: bool


@dataclass(slots=True)
class HttpSource:
    """`base` is an http or https address, asked with `token` as a bearer token where there is one.

    Each question takes `timeout_s` at most, eight are under way at once. Raises LessorError (`setup_failed`) for
    an address that is none.
    """

    base: str
    token: str | None = field(default=None, repr=False)
    timeout_s: float = 3.0
    _gate: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(AT_ONCE_MAX), repr=False)

    def __post_init__(self) -> None:
        parts = urlsplit(self.base)
        if parts.scheme not in ("http", "https") or parts.hostname is None or parts.query or parts.fragment:
            raise error_of(problem(Code.SETUP_FAILED, f"Runs cannot be asked of {self.base!r}: give http(s)://host/…"))

    async def status(self, key: RunKey) -> RunStatus | Problem | None:
        told = await self._get(key, f"{key.tenant}/{key.run}", _Status)
        return told.status if isinstance(told, _Status) else told

    async def waits_for_own(self, key: RunKey) -> bool | Problem:
        told = await self._get(key, f"{key.tenant}/{key.run}/approvals", _Approvals)
        if told is None:
            return False
        return told.pending if isinstance(told, _Approvals) else told

    async def _get(self, key: RunKey, path: str, kind: type[S]) -> S | Problem | None:
        """None: 404. The thread that asks ends by its own timeouts, whoever still waits for it."""
        try:
            async with asyncio.timeout(self.timeout_s), self._gate:
                code, body = await asyncio.to_thread(self._ask, path)
            if code == http.client.NOT_FOUND:
                return None
            if code == http.client.OK and len(body) <= BYTES_MAX:
                return msgspec.json.decode(body, type=kind)
        except (OSError, TimeoutError, http.client.HTTPException, msgspec.DecodeError):
            pass
        away = f"The application's word on run {key} cannot be read now: nothing rests on that, ask again."
        return problem(Code.BROKER_UNAVAILABLE, away, retry_after_s=1.0)

    def _ask(self, path: str) -> tuple[int, bytes]:
        parts = urlsplit(self.base)
        kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        connection = kind(parts.hostname or "", parts.port, timeout=self.timeout_s)
        try:
            headers = {"Accept": "application/json"}
            if self.token is not None:
                headers["Authorization"] = f"Bearer {self.token}"
            connection.request("GET", f"{parts.path.rstrip('/')}/{path}", headers=headers)
            answer = connection.getresponse()
            return answer.status, answer.read(BYTES_MAX + 1)
        finally:
            connection.close()
