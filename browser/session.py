"""One live browser under one epoch (ports.Session)."""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any, TypeVar

from playwright.async_api import Dialog, Page

from lessor.browser import act, state
from lessor.browser.asks import LEAVING
from lessor.browser.connection import Connection
from lessor.browser.door import Failed, first
from lessor.browser.envelope import Whose
from lessor.browser.keeper.client import Gone, Keeper
from lessor.browser.keeper.linux import boot_ms
from lessor.browser.keeper.state import read as read_record
from lessor.browser.keyring import Keyring
from lessor.browser.navigate import navigate
from lessor.browser.observe import observe
from lessor.browser.secretstore import Secrets
from lessor.browser.tab import Tab, attach, hear
from lessor.errors import Code, OpenDialog, Problem, dialog_open, problem
from lessor.messages.action import AnyAction, Match, Observation, PageView, Type
from lessor.ports import Away, BrowserSpec, NotSent, Paused, SealedState, Sent, Target

T = TypeVar("T")
MAIN = "main"
TABS_MAX = 50
PROBE_MS_MAX = 500
CLOSE_TAB_MS_MAX = 1000
ATTACH_MS_MAX = 5000
LEAVE_MS_MAX = 2000
NO_DIALOG = problem(Code.ACTION_NOT_ALLOWED, "That dialog is not open any more: observe.")


class LiveSession:
    """Belongs to the event loop. `on_killed` hears the boot ms of a confirmed end."""

    def __init__(
        self,
        spec: BrowserSpec,
        keeper: Keeper,
        connection: Connection,
        keyring: Keyring,
        secrets: Secrets,
        on_gone: Callable[[], None],
        on_killed: Callable[["LiveSession", int], None],
    ) -> None:
        self._spec = spec
        self._keeper = keeper
        self._connection = connection
        self._keyring = keyring
        self._secrets = secrets
        self._on_gone = on_gone
        self._on_killed = on_killed
        self._tabs: dict[str, Tab] = {}
        self._popups = 0
        self._is_shelving = False  # pages that open now are ours, for reading and writing storage
        self._is_ending = False
        self._reading: asyncio.Task[Any] | None = None
        self._killing: asyncio.Task[int | None] | None = None
        self._dispatching: tuple[Tab, asyncio.Task[Sent | NotSent | Away]] | None = None
        self.is_adopted = False
        keeper.gone.add_done_callback(lambda _: self._ended(Away.GONE))
        connection.browser.on("disconnected", lambda _: self._cut())

    def __repr__(self) -> str:
        away = self._connection.door.away
        return f"<LiveSession {self._spec.key} epoch={self._spec.epoch} {away.value if away else 'live'} {self._tabs}>"

    @property
    def target(self) -> str:
        return self.main.target

    @property
    def main(self) -> Tab:
        return self._tabs[MAIN]

    @property
    def instance(self) -> str:
        return self._spec.instance

    async def open(self, page: Page, deadline_ms: int) -> Problem | Away | None:
        """Take `page` as the main tab, and its other pages as popups of the lease; None when that worked."""
        self._connection.context.on("page", self._on_page)
        self._connection.context.on("dialog", self._on_dialog)
        tab = await attach(self._connection.context, page, self._connection.door, deadline_ms, self._spec.policy)
        if isinstance(tab, Away):
            return tab
        if isinstance(tab, Failed):
            return problem(Code.ENDPOINT_UNREACHABLE, "The browser gave no page: acquire again.")
        self._tabs[MAIN] = tab
        for other in self._connection.context.pages:
            if other is not page:
                self._on_page(other)
        return None

    async def navigate(self, tab: str, url: str, deadline_ms: int) -> PageView | Problem | Away:
        """See `navigate.navigate`."""
        at = self._tab(tab)
        if isinstance(at, Problem):
            return at
        return await self._read(at, navigate(at, self._connection.guard, url, deadline_ms))

    async def observe(self, tab: str, deadline_ms: int) -> Observation | Problem | Away:
        """See `observe.observe`."""
        at = self._tab(tab)
        return at if isinstance(at, Problem) else await self._read(at, observe(at, deadline_ms))

    async def aim(
        self, tab: str, revision: str, action: AnyAction, match: Match, deadline_ms: int
    ) -> Target | Problem | Away:
        """See `act.aim`."""
        at = self._tab(tab)
        if isinstance(at, Problem):
            return at
        secret = await self._secret(action)
        if isinstance(secret, Problem):
            return secret
        target = await self._read(at, act.aim(at, revision, action, match, deadline_ms))
        if secret is None or not isinstance(target, Target):
            return target
        assert isinstance(target.token, act.Aim)
        return replace(target, token=replace(target.token, secret=secret))

    async def _secret(self, action: AnyAction) -> str | Problem | None:
        """The value behind the reference of a `type`; it never crosses the wire (contract, Steps)."""
        if not isinstance(action, Type) or action.secret is None:
            return None
        return await asyncio.to_thread(self._secrets.value, self._spec.key.tenant, action.secret)

    async def dispatch(
        self, tab: str, action: AnyAction, target: Target, deadline_ms: int
    ) -> Sent | NotSent | Paused | Away:
        """See `act.dispatch`. A dialog that is held open pauses it."""
        at = self._tab(tab)
        if isinstance(at, Problem):
            return NotSent("The tab was closed before.")
        if at.asks.open is not None:
            return NotSent("A dialog opened before.")
        self._dispatching = at, self._connection.door.start(act.dispatch(at, action, target, deadline_ms))
        return await self.resume("")

    async def resume(self, told: str) -> Sent | NotSent | Paused | Away:
        """The end of the dispatch, or the next dialog that holds it."""
        assert self._dispatching is not None
        tab, task = self._dispatching
        while not task.done():
            held = tab.asks.open
            if held is not None and held.view.id != told:
                return Paused(held.view)
            await first(task, tab.asks.changed)
        return task.result()

    async def answer_dialog(
        self, dialog: str, accept: bool, text: str, deadline_ms: int
    ) -> OpenDialog | Problem | Away:
        """Close that dialog, once."""
        for tab in self._tabs.values():
            held = tab.asks.take(dialog)
            if held is not None:
                given = held.dialog.accept(text) if accept else held.dialog.dismiss()
                done = await tab.door.through(given, deadline_ms)
                if isinstance(done, Away):
                    return done
                if not accept:
                    tab.dialogs.append(held.view.kind)
                elif held.view.kind == LEAVING and tab.door.away is None:
                    await tab.left(min(deadline_ms, boot_ms() + LEAVE_MS_MAX))
                return NO_DIALOG if isinstance(done, Failed) else held.view
        return self._connection.door.away or NO_DIALOG

    async def seal(self, generation: int, deadline_ms: int) -> SealedState | Problem | Away:
        """Export and encrypt. A wedged tab would hang the export, so it is closed; its storage is read on an empty
        page."""
        self._is_shelving = True
        try:
            await asyncio.gather(*(self._close_wedged(tab) for tab in self._tabs.values()))
            unvisited = tuple(sorted(self._connection.guard.origins.allowed)) if self.is_adopted else ()
            exported = await state.export(self._connection.context, self._connection.door, unvisited, deadline_ms)
        finally:
            self._is_shelving = False
        return (
            await state.seal(exported, self.whose(generation), self._keyring)
            if isinstance(exported, bytes)
            else exported
        )

    async def extend(self, until_ms: int) -> int | None:
        """The keeper's acknowledged deadline; None when it refused or is gone."""
        answer = await self._keeper.extend(self._spec.epoch, until_ms)
        return answer if isinstance(answer, int) else None

    async def kill(self) -> int | None:
        """End browser and egress. Asking again asks again only when the end was not confirmed."""
        if self._killing is None or (self._killing.done() and self._killing.result() is None):
            self._killing = asyncio.create_task(self._kill())
        return await asyncio.shield(self._killing)

    async def cancel(self) -> None:
        """Stop the read under way, if any."""
        if self._reading is not None:
            self._reading.cancel()

    async def leave(self) -> None:
        """Let go of a browser that lives on, for a host that stops."""
        self._is_ending = True
        self._connection.door.shut(Away.GONE)
        await self._keeper.close()

    def ended(self) -> None:
        """The connection cannot work any more."""
        self._ended(Away.GONE)

    def whose(self, generation: int) -> Whose:
        return whose(self._spec, generation)

    def shelving(self, is_shelving: bool) -> None:
        """Pages that open meanwhile are the engine's own."""
        self._is_shelving = is_shelving

    async def _read(self, tab: Tab, work: Coroutine[Any, Any, T]) -> T | Problem:
        """The result; a dialog that is held open is the answer to everything else in its tab."""
        task: asyncio.Task[T] = asyncio.create_task(work)
        self._reading = task
        while not task.done():
            held = tab.asks.open
            if held is not None:
                task.cancel()
                await asyncio.wait({task})  # it must not see the dialog gone
                return dialog_open(held.view)
            await first(task, tab.asks.changed)
        if task.cancelled():
            return problem(Code.NAVIGATION_CANCELLED, "The read was stopped before it ended: ask again.")
        return task.result()

    async def _kill(self) -> int | None:
        self._is_ending = True
        answer = await self._keeper.kill(self._spec.epoch)
        if not isinstance(answer, Gone):
            return None
        door = self._connection.door
        door.shut(Away.GONE)
        closing = door.start(self._connection.browser.close())
        await asyncio.wait({closing}, timeout=CLOSE_TAB_MS_MAX / 1000)
        await self._keeper.close()
        self._on_killed(self, answer.gone_at_ms)
        return answer.gone_at_ms

    async def _close_wedged(self, tab: Tab) -> None:
        if tab.is_loading:
            tab.stop_loading()
        if await tab.read("act.which", boot_ms() + PROBE_MS_MAX) is Away.SILENT:
            await tab.door.through(tab.page.close(), boot_ms() + CLOSE_TAB_MS_MAX)

    def _tab(self, name: str) -> Tab | Problem:
        tab = self._tabs.get(name)
        if tab is None or (tab.page.is_closed() and self._connection.door.away is None):
            return problem(Code.TAB_NOT_FOUND, f"There is no tab {name}: use {', '.join(sorted(self._tabs))}.")
        return tab

    def _on_dialog(self, dialog: Dialog) -> None:
        """Listening for all pages: without a listener Playwright answers by itself."""
        for name, tab in self._tabs.items():
            if tab.page is dialog.page:
                return hear(tab, dialog, name)
        main = self._tabs.get(MAIN)
        if main is not None:
            main.notices.add(f"{dialog.type} dialog of a page that is no tab dismissed: {dialog.message[:200]}")
        self._connection.door.start(dialog.dismiss())

    def _on_page(self, page: Page) -> None:
        """A popup belongs to the lease and becomes a tab of its own; one too many is closed."""
        if self._is_shelving:
            return
        door = self._connection.door
        door.start(self._adopt(page))

    async def _adopt(self, page: Page) -> None:
        self._tabs = {name: tab for name, tab in self._tabs.items() if name == MAIN or not tab.page.is_closed()}
        main = self._tabs.get(MAIN)
        self._popups += 1
        name = f"popup-{self._popups}"
        door = self._connection.door
        if len(self._tabs) >= TABS_MAX:
            await door.through(page.close(), boot_ms() + CLOSE_TAB_MS_MAX)
            if main is not None:
                main.notices.add("a popup was closed: the lease has as many tabs as it may")
            return
        tab = await attach(self._connection.context, page, door, boot_ms() + ATTACH_MS_MAX, self._spec.policy)
        if isinstance(tab, Tab):
            self._tabs[name] = tab
            if main is not None:
                main.notices.add(f"a popup opened: tab {name}")

    def _cut(self) -> None:
        record = read_record(str(self._keeper.directory))
        is_fenced = record is not None and record["epoch"] > self._spec.epoch
        self._ended(Away.FENCED if is_fenced else Away.GONE)

    def _ended(self, why: Away) -> None:
        self._connection.door.shut(why)
        if not self._is_ending:
            self._is_ending = True
            self._on_gone()


def whose(spec: BrowserSpec, generation: int, origins: tuple[str, ...] | None = None) -> Whose:
    """What the profile's sealed state is bound to: the origins of its own time where those are not the spec's."""
    return Whose(
        tenant=spec.key.tenant,
        profile=spec.key.profile,
        principal=spec.principal,
        provider=spec.provider,
        origins=tuple(sorted(spec.origins if origins is None else origins)),
        generation=generation,
    )
