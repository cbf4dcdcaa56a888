"""Ways to find out what became of a step: an HTTP look-up, a confirmation page, a callable, a person.

Each answers `succeeded`, `not_sent` or `still_unknown`, with evidence. Whether a `not_sent` counts is not
theirs to say: the profile's owner weighs it by when the page that tried was gone (contract, Steps).
None of them may have a side effect, or repeat the step.
"""

import asyncio
import urllib.error
import urllib.request
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal, Protocol
from urllib.parse import quote

from lessor.errors import LessorError
from lessor.messages.action import Observation, PageView
from lessor.messages.step import StepRecord

Verdict = Literal["succeeded", "not_sent", "still_unknown"]
BODY_BYTES_MAX = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Found:
    """What a look found. `evidence` is kept for good: no secrets, no page text."""

    verdict: Verdict
    evidence: str


class Reader(Protocol):
    """A leased page, for reading only."""

    async def navigate(self, url: str) -> PageView: ...
    async def observe(self) -> Observation: ...


class Reconciler(Protocol):
    """How steps of one kind are looked up."""

    @property
    def how(self) -> str: ...
    @property
    def idempotent(self) -> bool:
        """The target itself refuses a second use of a request key."""
        ...

    @property
    def tries_max(self) -> int:
        """Looks at one step in one recovery; between them the waits double, and last as long as the owner says."""
        ...

    async def look(self, step: StepRecord, page: Reader | None) -> Found: ...


@dataclass(frozen=True, slots=True)
class HttpLookup:
    """Ask the target's API by request key. `{key}`, `{task}` and `{step}` in `url` and `text` are filled in.

    Redirects are not followed: a login page is no answer. Every status that is neither in `found` nor in
    `absent`, and every failure to ask, leaves the step unknown.
    """

    url: str
    method: Literal["GET", "HEAD"] = "GET"
    found: frozenset[int] = frozenset({200})
    absent: frozenset[int] = frozenset({404})
    text: str = ""
    """With GET: stands in the answer when the effect is there; a `found` status without it means absent."""
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    idempotent: bool = False
    timeout_s: float = 10.0
    tries_max: int = 6
    how: str = "http"

    async def look(self, step: StepRecord, page: Reader | None) -> Found:  # noqa: ARG002 -- needs no page
        url = _filled(self.url, step, quoted=True)
        try:
            status, body = await asyncio.to_thread(self._ask, url)
        except OSError as error:
            return Found("still_unknown", f"{self._asked(url)}: {type(error).__name__}")
        return self._read(self._asked(url), status, body, _filled(self.text, step, quoted=False))

    def _read(self, asked: str, status: int, body: bytes, text: str) -> Found:
        said = f"{asked} answered {status}"
        if status in self.absent:
            return Found("not_sent", said)
        if status not in self.found:
            return Found("still_unknown", said)
        if not text or self.method == "HEAD":
            return Found("succeeded", said)
        if text.encode() in body:
            return Found("succeeded", f"{said} and names it")
        if len(body) > BODY_BYTES_MAX:
            return Found("still_unknown", f"{said}, with more than {BODY_BYTES_MAX} bytes")
        return Found("not_sent", f"{said} without it")

    def _asked(self, url: str) -> str:
        return f"{self.method} {url.split('?', 1)[0]}"

    def _ask(self, url: str) -> tuple[int, bytes]:
        request = urllib.request.Request(url, method=self.method, headers=dict(self.headers))  # noqa: S310 -- declared
        opener = urllib.request.build_opener(_NoRedirect, urllib.request.ProxyHandler({}))
        try:
            with opener.open(request, timeout=self.timeout_s) as answer:
                return answer.status, answer.read(BODY_BYTES_MAX + 1)
        except urllib.error.HTTPError as error:
            with error:
                return error.code, b""


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_args: object, **_named: object) -> None:
        return None


@dataclass(frozen=True, slots=True)
class ConfirmationPage:
    """Look on a page of the site, in the leased browser: navigate and observe only.

    `succeeded` when `shows` stands in its text. `not_sent` only when `denies` does: a page that shows
    neither proves nothing.
    """

    url: str
    shows: str
    denies: str | None = None
    idempotent: bool = False
    tries_max: int = 3
    how: str = "page"

    async def look(self, step: StepRecord, page: Reader | None) -> Found:
        if page is None:
            return Found("still_unknown", "there is no leased page to look with")
        url = _filled(self.url, step, quoted=True)
        address = url.split("?", 1)[0]
        try:
            await page.navigate(url)
            text = (await page.observe()).text
        except LessorError as error:
            return Found("still_unknown", f"{address}: {error.code}")
        if _filled(self.shows, step, quoted=False) in text:
            return Found("succeeded", f"{address} shows it")
        if self.denies is not None and _filled(self.denies, step, quoted=False) in text:
            return Found("not_sent", f"{address} says that there is none")
        return Found("still_unknown", f"{address} shows neither")


@dataclass(frozen=True, slots=True)
class Asking:
    """A callable of the program's own."""

    call: Callable[[StepRecord], Awaitable[Found]]
    idempotent: bool = False
    tries_max: int = 6
    how: str = "call"

    async def look(self, step: StepRecord, page: Reader | None) -> Found:  # noqa: ARG002 -- needs no page
        try:
            return await self.call(step)
        except Exception as error:  # noqa: BLE001 -- whatever broke in it, nothing is known now
            return Found("still_unknown", f"the look-up failed: {type(error).__name__}")


@dataclass(frozen=True, slots=True)
class Person:
    """Somebody looks and says so with `lessor resolve`; `ask` may tell them. Until then the step stays as it is."""

    ask: Callable[[StepRecord], Awaitable[None]] | None = None
    idempotent: bool = False
    tries_max: int = 1
    how: str = "person"

    async def look(self, step: StepRecord, page: Reader | None) -> Found:  # noqa: ARG002 -- needs no page
        if self.ask is not None:
            await self.ask(step)
        return Found("still_unknown", f"a person has been asked: lessor resolve {step.request_key[:12]} ...")


def _filled(template: str, step: StepRecord, *, quoted: bool) -> str:
    names = {"key": step.request_key, "task": step.task, "step": step.step}
    for name, value in names.items():
        template = template.replace(f"{{{name}}}", quote(value, safe="") if quoted else value)
    return template
