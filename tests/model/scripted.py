"""A browser without Chromium, for the actors' tests: one scripted form, and a log of what was submitted.

`Machine` is what survives a host: the browsers, their pages, the site's log. `ModelBrowser` is one host's engine on it.
The same contract suite runs over this and over the real engine (tests/contract/test_browser.py)."""

from __future__ import annotations

import asyncio
import hashlib
import itertools
import json
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar

from lessor.errors import Code, OpenDialog, Problem, dialog_open, problem
from lessor.messages.action import (
    AnyAction,
    Artifact,
    Click,
    Element,
    Match,
    Observation,
    PageView,
    Press,
    TabView,
    Type,
)
from lessor.messages.health import HealthCheck
from lessor.messages.ids import ProfileKey
from lessor.ports import Away, Binding, BrowserSpec, Clock, FileFound, NotSent, Paused, SealedState, Sent, Target
from tests.support.dialogless import Fileless

Moment = Literal[
    "start", "find", "navigate", "observe", "aim", "before_dispatch", "after_dispatch", "settle", "seal", "kill"
]
REVISIONS_MAX = 16
TABS_MAX = 50
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Effect:
    """A form that arrived at the site."""

    t_ms: int
    key: ProfileKey
    instance: str
    epoch: int
    values: dict[str, str]


@dataclass(slots=True)
class Page:
    """One document. `row` is the text around the button, `elsewhere` any other text."""

    url: str = "about:blank"
    document: str = "0" * 12
    fields: dict[str, str] = field(default_factory=dict[str, str])
    row: str = ""
    elsewhere: str = ""
    asks: bool = False
    """Sending is confirmed in a dialog: that of `/asking`."""

    def elements(self) -> dict[int, tuple[str, str, str | None, str]]:
        """Backend id to role, name, value and fingerprint."""
        if self.url == "about:blank":
            return {}
        form = json.dumps(self.fields, sort_keys=True)
        shown = [("textbox", name, value) for name, value in self.fields.items()]
        listed: list[tuple[str, str, str | None]] = [*shown, ("button", "Send", None)]
        return {
            number: (role, name, value, _digest(role, name, form, self.row, size=16))
            for number, (role, name, value) in enumerate(listed, 1)
        }

    @property
    def text(self) -> str:
        return " ".join(part for part in (self.row, self.elsewhere) if part)

    @property
    def revision(self) -> str:
        body = json.dumps([self.url, self.text, self.elements()])
        return f"{self.document}.{_digest(body, size=16)}"


@dataclass(slots=True)
class Kept:
    """A keeper and its browser. It dies at `until_ms` by itself."""

    key: ProfileKey
    instance: str
    epoch: int
    until_ms: int
    target: str
    origins: tuple[str, ...]
    cookies: dict[str, str]
    page: Page = field(default_factory=Page)
    others: dict[str, Page] = field(default_factory=dict[str, Page])
    """Named tabs beside the main one: they can be looked at, not acted on."""
    gone_ms: int | None = None
    session: ModelSession | None = None


class Machine:
    """The knobs.

    `hold[moment]` makes that moment wait for the event (an operation at most until its deadline: then it was SILENT),
    `dies_at` kills the browser there, once. `starts_with`, `seals_with` are refusals to answer; `kill_fails`: the
    end is not confirmed. `fields` are the form's, on every page; submitting logs an `Effect` and empties them."""

    def __init__(self, clock: Clock, sleep_until: Callable[[int], Awaitable[None]] | None = None) -> None:
        self.clock = clock
        self.effects: list[Effect] = []
        self.browsers: dict[str, Kept] = {}
        self.fields: dict[str, str] = {"Name": ""}
        self.hold: dict[Moment, asyncio.Event] = {}
        self.reached: dict[Moment, asyncio.Event] = {}
        self.dies_at: Moment | None = None
        self.starts_with: Problem | None = None
        self.seals_with: Problem | None = None
        self.kill_fails = False
        self.confirms = True
        self.starts = 0
        self._numbers = itertools.count(1)
        self._sleep_until = sleep_until or self._sleep

    def __repr__(self) -> str:
        living = sum(kept.gone_ms is None for kept in self.browsers.values())
        return f"<Machine {living} browsers, {len(self.effects)} effects>"

    def number(self) -> int:
        return next(self._numbers)

    def at(self, moment: Moment) -> asyncio.Event:
        """Set when that moment is reached: what a test waits for."""
        return self.reached.setdefault(moment, asyncio.Event())

    def die(self, kept: Kept) -> None:
        """The browser ends; its session hears of it."""
        if kept.gone_ms is None:
            kept.gone_ms = self.clock.now_ms()
            if kept.session is not None:
                kept.session.ended(Away.GONE)

    async def moment(self, moment: Moment, kept: Kept | None, deadline_ms: int | None = None) -> bool:
        """Pass a named moment; False when its hold outlasted the deadline."""
        self.at(moment).set()
        held = self.hold.get(moment)
        passed = True
        if held is not None:
            waiting = asyncio.ensure_future(held.wait())
            limit = [] if deadline_ms is None else [asyncio.ensure_future(self._sleep_until(deadline_ms))]
            ended = [] if kept is None or kept.session is None else [asyncio.ensure_future(kept.session.away.wait())]
            await asyncio.wait([waiting, *limit, *ended], return_when=asyncio.FIRST_COMPLETED)
            passed = held.is_set() or deadline_ms is None
            for each in (waiting, *limit, *ended):
                each.cancel()
        if kept is not None and self.dies_at == moment:
            self.dies_at = None
            self.die(kept)
        return passed

    async def _sleep(self, until_ms: int) -> None:
        await asyncio.sleep(max(0, until_ms - self.clock.now_ms()) / 1000)


class ModelBrowser(Fileless):
    """ports.Browser on a Machine."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine

    def __repr__(self) -> str:
        return f"<ModelBrowser on {self.machine!r}>"

    async def start(self, spec: BrowserSpec, on_gone: Callable[[], None]) -> ModelSession | Problem:
        machine = self.machine
        machine.starts += 1
        cookies: dict[str, str] = {}
        if spec.sealed is not None:
            opened = _open(spec)
            if opened is None:
                return problem(Code.SETUP_FAILED, "The sealed state does not open as this profile's: roll it back.")
            cookies = opened
        if machine.starts_with is not None:
            return machine.starts_with
        await machine.moment("start", None)
        if spec.until_ms <= machine.clock.now_ms():
            return problem(Code.ENDPOINT_UNREACHABLE, "The browser did not start: acquire again.")
        kept = Kept(spec.key, spec.instance, spec.epoch, spec.until_ms, f"T{machine.number()}", spec.origins, cookies)
        machine.browsers[spec.instance] = kept
        return ModelSession(machine, kept, spec, on_gone)

    async def reseal(self, sealed: bytes, was: Binding, becomes: Binding) -> SealedState | Problem:
        *whose, generation, cookies = json.loads(sealed)
        if (whose, generation) != (_bound(was), was.generation):
            return problem(Code.SETUP_FAILED, "The sealed state does not open as this profile's: roll it back.")
        return SealedState(json.dumps([*_bound(becomes), becomes.generation, cookies]).encode(), "k1")

    async def find(self, spec: BrowserSpec, on_gone: Callable[[], None]) -> ModelSession | None:
        machine = self.machine
        await machine.moment("find", None)
        kept = machine.browsers.get(spec.instance)
        if kept is None or not _lives(machine, kept) or kept.epoch > spec.epoch:
            return None
        earlier, kept.epoch, kept.until_ms = kept.session, spec.epoch, max(kept.until_ms, spec.until_ms)
        if earlier is not None:
            earlier.ended(Away.FENCED)
        if spec.target not in (None, kept.target):
            machine.die(kept)
            return None
        return ModelSession(machine, kept, spec, on_gone)

    async def confirm_gone(self, instance: str) -> int | None:
        kept = self.machine.browsers.get(instance)
        if kept is None or not self.machine.confirms or _lives(self.machine, kept):
            return None
        return kept.gone_ms

    async def close(self) -> None:
        """Browsers live on; nobody here hears of them any more."""
        for kept in self.machine.browsers.values():
            if kept.session is not None and kept.session.engine_closed():
                kept.session = None


class ModelSession:
    """ports.Session on a Machine."""

    def __init__(self, machine: Machine, kept: Kept, spec: BrowserSpec, on_gone: Callable[[], None]) -> None:
        self.machine = machine
        self.kept = kept
        self.away = asyncio.Event()
        self._why: Away | None = None
        self._spec = spec
        self._on_gone: Callable[[], None] | None = on_gone
        self._shown: OrderedDict[str, dict[int, str]] = OrderedDict()
        self._reading: asyncio.Task[Any] | None = None
        self._dialog: OpenDialog | None = None
        self._dispatching: asyncio.Task[Sent | NotSent | Away] | None = None
        self._answered: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        kept.session = self

    def __repr__(self) -> str:
        return f"<ModelSession {self.kept.instance} epoch={self._spec.epoch} {self._why or 'live'}>"

    @property
    def target(self) -> str:
        return self.kept.target

    @property
    def instance(self) -> str:
        return self.kept.instance

    def ended(self, why: Away) -> None:
        """The connection is over: every call from now on says why."""
        if self._why is None:
            self._why = why
            self.away.set()
            heard, self._on_gone = self._on_gone, None
            if heard is not None:
                heard()

    def engine_closed(self) -> bool:
        self._on_gone = None
        self.ended(Away.GONE)
        return True

    async def navigate(self, tab: str, url: str, deadline_ms: int) -> PageView | Problem | Away:
        if url != "about:blank" and not any(
            url == origin or url.startswith(f"{origin}/") for origin in self.kept.origins
        ):
            return problem(Code.URL_DISALLOWED, "The profile's origins do not include that address: stay within them.")
        return await self._read(self._navigate(tab, url, deadline_ms))

    async def _navigate(self, tab: str, url: str, deadline_ms: int) -> PageView | Problem | Away:
        stopped = await self._pass("navigate", tab, deadline_ms)
        if stopped is Away.SILENT:
            return problem(Code.OP_TIMEOUT, "The page did not load in time: try again with more time.")
        if stopped is not None:
            return stopped
        fields = dict(self.machine.fields) if url != "about:blank" else {}
        document = _digest(f"{self.kept.instance}.{self.machine.number()}", size=12)
        page = Page(url, document, fields, asks=url.endswith("/asking"))
        if tab == "main":
            self.kept.page = page
        else:
            self.kept.others[tab] = page
        view = self._view(page)
        return PageView(url=view.url, title=view.title, revision=view.revision, status=200 if fields else None)

    async def observe(self, tab: str, deadline_ms: int) -> Observation | Problem | Away:
        return await self._read(self._observe(tab, deadline_ms))

    async def _observe(self, tab: str, deadline_ms: int) -> Observation | Problem | Away:
        stopped = await self._pass("observe", tab, deadline_ms)
        return self._view(self._page(tab)) if stopped is None else stopped

    async def tabs(self, close: str | None, deadline_ms: int) -> tuple[TabView, ...] | Problem | Away:
        away = self._ended()
        if away is not None:
            return away
        pages = {"main": self.kept.page, **self.kept.others}
        if close == "main":
            return problem(Code.ACTION_NOT_ALLOWED, "The main tab stays.")
        if close is not None and pages.pop(close, None) is None:
            return problem(Code.TAB_NOT_FOUND, f"There is no tab {close}.")
        self.kept.others.pop(close or "", None)
        return tuple(TabView(name=name, url=page.url) for name, page in sorted(pages.items()))

    def _page(self, tab: str) -> Page:
        return self.kept.page if tab == "main" else self.kept.others[tab]

    async def aim(
        self, tab: str, revision: str, action: AnyAction, match: Match, deadline_ms: int
    ) -> Target | Problem | Away:
        stopped = await self._pass("aim", tab, deadline_ms)
        if stopped is not None:
            return stopped
        page = self.kept.page
        if revision.partition(".")[0] != page.document:
            return problem(Code.PAGE_CHANGED, "The page changed under the reference: observe again and decide again.")
        changed = revision != page.revision
        if action.ref is None:
            return Target("document", "", changed, None)
        number, _, own = action.ref.removeprefix("e").partition(".")
        shown = self._shown.get(revision)
        expected = own if shown is None else shown.get(int(number) if number.isdigit() else 0)
        element = page.elements().get(int(number) if number.isdigit() else 0)
        if expected is None or element is None:
            return problem(
                Code.ELEMENT_NOT_FOUND, "That revision shows no such element: observe and use its references."
            )
        role, name, _, fingerprint = element
        if isinstance(action, Type) and role != "textbox":
            return problem(Code.ACTION_NOT_ALLOWED, "The element takes no text: choose a text field.")
        if expected != fingerprint or (match == "page" and changed):
            return problem(Code.PAGE_CHANGED, "The page changed under the reference: observe again and decide again.")
        return Target(f"{role} {name!r}", fingerprint, changed, (number, fingerprint))

    async def dispatch(
        self, tab: str, action: AnyAction, target: Target, deadline_ms: int
    ) -> Sent | NotSent | Paused | Away:
        self._dispatching = asyncio.ensure_future(self._dispatch(action, target, deadline_ms))
        return await self.resume("")

    async def resume(self, told: str) -> Sent | NotSent | Paused | Away:
        task = self._dispatching
        assert task is not None
        while not task.done() and (self._dialog is None or self._dialog.id == told):
            await asyncio.wait({task, asyncio.ensure_future(asyncio.sleep(0.001))}, return_when="FIRST_COMPLETED")
        return task.result() if task.done() or self._dialog is None else Paused(self._dialog)

    def hear_files(self, on_file: Callable[[FileFound], None]) -> None:
        pass

    async def artifacts(self, cancel: str | None, deadline_ms: int) -> tuple[Artifact, ...] | Problem | Away:
        return self._ended() or ()

    async def answer_dialog(
        self, dialog: str, accept: bool, text: str, deadline_ms: int
    ) -> OpenDialog | Problem | Away:
        held = self._dialog
        if held is None or held.id != dialog:
            return self._ended() or problem(Code.ACTION_NOT_ALLOWED, "That dialog is not open any more: observe.")
        self._dialog = None
        self._answered.set_result(accept)
        return held

    async def _confirmed(self, action: AnyAction, target: Target) -> bool:
        """Whether the page goes on with what the input asks for."""
        if not (self.kept.page.asks and isinstance(action, Click) and "Send" in target.described):
            return True
        if self._spec.policy.dialogs != "ask":
            return self._spec.policy.dialogs == "accept"
        self._answered = asyncio.get_running_loop().create_future()
        self._dialog = OpenDialog(id=f"d{self.machine.number()}", tab="main", kind="confirm", message="Really?")
        return await self._answered

    async def _dispatch(self, action: AnyAction, target: Target, deadline_ms: int) -> Sent | NotSent | Away:
        machine = self.machine
        if self._ended() is not None:
            return NotSent("The connection to the browser had ended before.")
        if deadline_ms <= machine.clock.now_ms():
            return NotSent("The deadline had passed before.")
        silent = await self._reach("before_dispatch", deadline_ms)
        if silent is not None:
            return silent
        sent_ms = machine.clock.now_ms()
        if await self._confirmed(action, target):
            self._apply(action, target)
        silent = await self._reach("after_dispatch", deadline_ms)
        if silent is not None:
            return silent
        return Sent(sent_ms, None if await self._reach("settle", deadline_ms) else self._view())

    async def _reach(self, moment: Moment, deadline_ms: int) -> Away | None:
        passed = await self.machine.moment(moment, self.kept, deadline_ms)
        return self._ended() or (None if passed else Away.SILENT)

    def _apply(self, action: AnyAction, target: Target) -> None:
        page = self.kept.page
        name = target.described.partition(" ")[2].strip("'")
        match action:
            case Type(text=text):
                page.fields[name] = text
            case Click() if name == "Send":
                self._submit()
            case Press(key="Enter"):
                self._submit()
            case _:
                pass

    def _submit(self) -> None:
        machine, kept = self.machine, self.kept
        values = dict(kept.page.fields)
        machine.effects.append(Effect(machine.clock.now_ms(), kept.key, kept.instance, self._spec.epoch, values))
        kept.cookies["submitted"] = str(len(machine.effects))
        document = _digest(f"{kept.instance}.{machine.number()}", size=12)
        kept.page = Page(kept.page.url, document, dict(machine.fields), elsewhere="Thank you")

    async def seal(self, generation: int, deadline_ms: int) -> SealedState | Problem | Away:
        stopped = await self._pass("seal", "main", deadline_ms)
        if stopped is not None:
            return stopped
        if self.machine.seals_with is not None:
            return self.machine.seals_with
        return SealedState(json.dumps([*_whose(self._spec), generation, self.kept.cookies]).encode(), "k1")

    async def check(self, wanted: HealthCheck, deadline_ms: int) -> Problem | Away | None:
        """The state is logged in while it has the cookie that the check names."""
        away = self._ended()
        if away is not None or wanted.cookie is None or wanted.cookie in self.kept.cookies:
            return away
        return problem(Code.AUTHENTICATION_REQUIRED, "The health check failed: there is no such cookie.")

    async def extend(self, until_ms: int) -> int | None:
        if self._ended() is not None:
            return None
        self.kept.until_ms = max(self.kept.until_ms, until_ms)
        return self.kept.until_ms

    async def kill(self) -> int | None:
        await self.machine.moment("kill", None)
        if self.machine.kill_fails or self._why is Away.FENCED:
            return None
        self._on_gone = None
        if self.kept.gone_ms is None:
            self.machine.die(self.kept)
        return self.kept.gone_ms

    async def cancel(self) -> None:
        if self._reading is not None:
            self._reading.cancel()

    async def _read(self, work: Coroutine[Any, Any, T]) -> T | Problem:
        task: asyncio.Task[T] = asyncio.create_task(work)
        self._reading = task
        await asyncio.wait({task})
        if task.cancelled():
            return problem(Code.NAVIGATION_CANCELLED, "The read was stopped before it ended: ask again.")
        return task.result()

    async def _pass(self, moment: Moment, tab: str, deadline_ms: int) -> Problem | Away | None:
        away = self._ended()
        if away is not None:
            return away
        if tab != "main" and tab not in self.kept.others:
            if moment == "aim" or tab.startswith("popup-"):
                return problem(Code.TAB_NOT_FOUND, f"There is no tab {tab}: use main.")
            if len(self.kept.others) >= TABS_MAX - 1:
                return problem(Code.TAB_QUOTA, "The lease has as many tabs as it may: close one of them.")
            self.kept.others[tab] = Page()
        if deadline_ms <= self.machine.clock.now_ms():
            return Away.SILENT
        if self._dialog is not None:
            return dialog_open(self._dialog)
        return await self._reach(moment, deadline_ms)

    def _ended(self) -> Away | None:
        """Why nothing works any more; a keeper's deadline is noticed here."""
        _lives(self.machine, self.kept)
        return self._why

    def _view(self, page: Page | None = None) -> Observation:
        page = page or self.kept.page
        elements = page.elements()
        self._shown[page.revision] = {number: element[3] for number, element in elements.items()}
        while len(self._shown) > REVISIONS_MAX:
            self._shown.popitem(last=False)
        return Observation(
            url=page.url,
            title="",
            revision=page.revision,
            text=page.text,
            elements=tuple(
                Element(ref=f"e{number}.{fingerprint}", role=role, name=name, value=value)
                for number, (role, name, value, fingerprint) in elements.items()
            ),
            total=len(elements),
            text_total=len(page.text.encode()),
        )


def _lives(machine: Machine, kept: Kept) -> bool:
    if kept.gone_ms is None and machine.clock.now_ms() >= kept.until_ms:
        machine.die(kept)
        kept.gone_ms = kept.until_ms
    return kept.gone_ms is None


def _whose(spec: BrowserSpec) -> list[object]:
    return [spec.key.tenant, spec.key.profile, spec.principal, spec.provider, sorted(spec.origins)]


def _bound(bound: Binding) -> list[object]:
    return [bound.key.tenant, bound.key.profile, bound.principal, bound.provider, sorted(bound.origins)]


def _open(spec: BrowserSpec) -> dict[str, str] | None:
    assert spec.sealed is not None
    try:
        *whose, generation, cookies = json.loads(spec.sealed)
    except ValueError:
        return None
    bound = [*_whose(spec)[:-1], sorted(spec.sealed_origins or spec.origins)]
    return dict(cookies) if (whose, generation) == (bound, spec.generation) else None


def _digest(*parts: str, size: int) -> str:
    return hashlib.sha256("\x1f".join(parts).encode()).hexdigest()[:size]
