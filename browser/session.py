"""One live browser under one epoch (ports.Session)."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import replace
from typing import Any, TypeVar

from playwright.async_api import Dialog, Page

from lessor.browser import act, health, state
from lessor.browser.asks import LEAVING, Held
from lessor.browser.connection import Connection
from lessor.browser.door import Failed, first
from lessor.browser.envelope import FileOf, Whose
from lessor.browser.files import Files
from lessor.browser.keeper.client import Gone, Keeper
from lessor.browser.keeper.linux import boot_ms
from lessor.browser.keeper.state import read as read_record
from lessor.browser.keyring import Keyring
from lessor.browser.ladder import Ladder, Rung
from lessor.browser.live import remember_main
from lessor.browser.navigate import navigate
from lessor.browser.observe import observe
from lessor.browser.recovery import Recovery
from lessor.browser.secretstore import Secrets
from lessor.browser.tab import Tab, attach, hear
from lessor.browser.tabs import CLOSE_TAB_MS_MAX, MAIN, Tabs, recorded
from lessor.errors import Code, OpenDialog, Problem, dialog_open, problem
from lessor.messages.action import AnyAction, Artifact, Match, Observation, PageView, TabView, Type, Upload
from lessor.messages.health import HealthCheck
from lessor.ports import Away, BrowserSpec, FileFound, NotSent, Paused, SealedState, Sent, Target

T = TypeVar("T")
PROBE_MS_MAX = 500
LEAVE_MS_MAX = 2000
NO_FILES = problem(Code.ENDPOINT_UNREACHABLE, "The browser does not say where files go: acquire again.")
NO_DIALOG = problem(Code.ACTION_NOT_ALLOWED, "That dialog is not open any more: observe.")
RESTART_MS_MAX = 10_000


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
        relaunch: Callable[[BrowserSpec, Keeper, int], Awaitable[tuple[Keeper, Connection] | None]],
    ) -> None:
        self._spec = spec
        self._until_ms = spec.until_ms
        self._keyring = keyring
        self._secrets = secrets
        self._on_gone = on_gone
        self._on_killed = on_killed
        self._relaunch = relaunch
        self._on_file: Callable[[FileFound], None] = lambda _: None
        self._is_ending = False
        self._reading: asyncio.Task[Any] | None = None
        self._killing: asyncio.Task[int | None] | None = None
        self._dispatching: tuple[Tab, asyncio.Task[Sent | NotSent | Away]] | None = None
        self._restarting: asyncio.Task[bool] | None = None
        self.is_adopted = False
        self._ladder = Ladder(lambda: self._connection.guard, self._reopen, self._restart)
        self._recovery = Recovery(self._tab, self._ladder, self._load)
        self._hold(keeper, connection)

    def __repr__(self) -> str:
        away = self._connection.door.away
        return f"<LiveSession {self._spec.key} epoch={self._spec.epoch} {away.value if away else 'live'} {self._tabs}>"

    @property
    def target(self) -> str:
        return self.main.target

    @property
    def main(self) -> Tab:
        return self._tabs.by_name[MAIN]

    @property
    def instance(self) -> str:
        return self._spec.instance

    def _hold(self, keeper: Keeper, connection: Connection) -> None:
        self._keeper = keeper
        self._connection = connection
        self._tabs = Tabs(connection, self._spec.policy, keeper.directory)
        told = self._tabs.notice
        self._files = Files(connection.guard.cdp, connection.door, self._spec.policy, keeper.directory, told)
        self._files.whose, self._files.keyring = self._file_of, self._keyring
        self._files.on_file = self._found
        keeper.gone.add_done_callback(lambda _: self._ended(connection, Away.GONE))
        connection.browser.on("disconnected", lambda _: self._cut(connection))

    async def open(self, page: Page, deadline_ms: int) -> Problem | Away | None:
        """Take `page` as the main tab; other pages keep their names, or are popups. None when that worked."""
        self._connection.context.on("dialog", self._on_dialog)
        refused = await self._files.open(deadline_ms)
        if refused is not None:
            return refused if isinstance(refused, Away) else NO_FILES
        found = await asyncio.to_thread(recorded, self._keeper.directory) if self.is_adopted else {}
        return await self._tabs.open(page, found, deadline_ms)

    async def navigate(self, tab: str, url: str, deadline_ms: int) -> PageView | Problem | Away:
        """See `navigate.navigate`. A tab that is not there is made."""
        got = await self._tabs.get(tab, deadline_ms, anew=True)
        if isinstance(got, (Problem, Away)):
            return got
        view = await self._read(
            got[0],
            self._recovery.read(tab, lambda at, until_ms: self._load(at, url, until_ms), deadline_ms, goes=True),
        )
        self._tabs.visited()
        return view

    async def observe(self, tab: str, deadline_ms: int) -> Observation | Problem | Away:
        """See `observe.observe`. A tab that is not there is made; one that died is shown where it last was, once."""
        got = await self._tabs.get(tab, deadline_ms, anew=False)
        if isinstance(got, (Problem, Away)):
            return got
        at, address = got
        if address is not None:
            await self._read(at, self._load(at, address, deadline_ms))
        return await self._read(at, self._recovery.read(tab, observe, deadline_ms, goes=False))

    async def tabs(self, close: str | None, deadline_ms: int) -> tuple[TabView, ...] | Problem | Away:
        """All tabs, after `close` was closed."""
        if self._connection.door.away is not None:
            return self._connection.door.away
        refused = None if close is None else await self._tabs.close(close, deadline_ms)
        if refused is not None:
            return refused
        self._tabs.at(MAIN)
        return tuple(TabView(name=name, url=tab.page.url[:8192]) for name, tab in sorted(self._tabs.by_name.items()))

    async def aim(
        self, tab: str, revision: str, action: AnyAction, match: Match, deadline_ms: int
    ) -> Target | Problem | Away:
        """See `act.aim`."""
        at = self._tabs.at(tab)
        if isinstance(at, Problem):
            return at
        files = self._files.paths(action.artifacts) if isinstance(action, Upload) else ()
        if isinstance(files, Problem):
            return files
        secret = await self._secret(action)
        if isinstance(secret, Problem):
            return secret
        deadline_ms = min(deadline_ms, boot_ms() + act.AIM_MS_MAX)
        target = await self._read(
            at,
            self._recovery.once(tab, lambda at, until_ms: act.aim(at, revision, action, match, until_ms), deadline_ms),
        )
        if not isinstance(target, Target):
            return target
        assert isinstance(target.token, act.Aim)
        return replace(target, token=replace(target.token, secret=secret, files=files))

    async def _secret(self, action: AnyAction) -> str | Problem | None:
        """The value behind the reference of a `type`; it never crosses the wire (contract, Steps)."""
        if not isinstance(action, Type) or action.secret is None:
            return None
        return await asyncio.to_thread(self._secrets.value, self._spec.key.tenant, action.secret)

    async def dispatch(
        self, tab: str, action: AnyAction, target: Target, deadline_ms: int
    ) -> Sent | NotSent | Paused | Away:
        """See `act.dispatch`. A dialog that is held open pauses it."""
        at = self._tabs.at(tab)
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

    def hear_files(self, on_file: Callable[[FileFound], None]) -> None:
        self._on_file = on_file

    async def artifacts(self, cancel: str | None, deadline_ms: int) -> tuple[Artifact, ...] | Problem | Away:
        """The lease's files, after `cancel` was stopped."""
        refused = self._connection.door.away if cancel is None else await self._files.cancel(cancel, deadline_ms)
        return self._files.all() if refused is None else refused

    def _found(self, found: FileFound) -> None:
        self._on_file(found)

    def _tab(self, name: str) -> Tab | Problem:
        return self._tabs.at(name)

    def _file_of(self, artifact: str) -> FileOf:
        key = self._spec.key
        return FileOf(
            tenant=key.tenant,
            profile=key.profile,
            principal=self._spec.principal,
            instance=self._spec.instance,
            artifact=artifact,
        )

    async def answer_dialog(
        self, dialog: str, accept: bool, text: str, deadline_ms: int
    ) -> OpenDialog | Problem | Away:
        """Close that dialog, once."""
        for tab in self._tabs.by_name.values():
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
        """Export and encrypt."""
        exported = await self.export(deadline_ms)
        return (
            await state.seal(exported, self.whose(generation), self._keyring)
            if isinstance(exported, bytes)
            else exported
        )

    async def export(self, deadline_ms: int) -> bytes | Problem | Away:
        """The state in the clear. A wedged tab would hang it, so it is closed; its storage is read on an empty page."""
        self._tabs.is_shelving = True
        await self._files.settle()
        try:
            await asyncio.gather(*(self._close_wedged(tab) for tab in self._tabs.by_name.values()))
            unvisited = tuple(sorted(self._connection.guard.origins.allowed)) if self.is_adopted else ()
            return await state.export(self._connection.context, self._connection.door, unvisited, deadline_ms)
        finally:
            self._tabs.is_shelving = False

    async def check(self, wanted: HealthCheck, deadline_ms: int) -> Problem | Away | None:
        """See `health.check`."""
        self._tabs.is_shelving = True
        try:
            return await health.check(self._connection.context, self._connection.door, wanted, deadline_ms)
        finally:
            self._tabs.is_shelving = False

    async def extend(self, until_ms: int) -> int | None:
        """The keeper's acknowledged deadline; None when it refused or is gone."""
        answer = await self._keeper.extend(self._spec.epoch, until_ms)
        if not isinstance(answer, int):
            return None
        self._until_ms = answer
        return answer

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
        self._ended(self._connection, Away.GONE)

    def whose(self, generation: int) -> Whose:
        return whose(self._spec, generation)

    def shelving(self, is_shelving: bool) -> None:
        """Pages that open meanwhile are the engine's own."""
        self._tabs.is_shelving = is_shelving

    async def _read(self, tab: Tab, work: Coroutine[Any, Any, T]) -> T | Problem:
        """The result; a dialog that is held open is the answer to everything else in its tab."""
        task: asyncio.Task[T] = asyncio.create_task(work)
        self._reading = task
        held = await _asked(tab, task)
        self._reading = None
        self._mourn()
        if held is not None:
            return dialog_open(held.view)
        if task.cancelled():
            return problem(Code.NAVIGATION_CANCELLED, "The read was stopped before it ended: ask again.")
        return task.result()

    async def _load(self, tab: Tab, url: str, deadline_ms: int) -> PageView | Problem | Away:
        began = self._files.began
        return await navigate(tab, self._connection.guard, url, deadline_ms, lambda: self._files.began > began)

    async def _reopen(self, name: str, deadline_ms: int) -> Tab | None:
        """A new page in the place of a tab; the old one is closed, which nobody waits for."""
        old, door = self._tabs.by_name[name], self._connection.door
        self._tabs.is_shelving = True
        try:
            page = await door.through(self._connection.context.new_page(), deadline_ms)
        finally:
            self._tabs.is_shelving = False
        if isinstance(page, (Failed, Away)):
            return None
        tab = await attach(self._connection.context, page, door, deadline_ms, self._spec.policy)
        if not isinstance(tab, Tab):
            door.start(door.through(page.close(), boot_ms() + CLOSE_TAB_MS_MAX))
            return None
        self._succeed(name, old, tab)
        door.start(door.through(old.page.close(), boot_ms() + CLOSE_TAB_MS_MAX))
        return tab

    async def _restart(self, deadline_ms: int) -> bool:
        """A new browser under the same lease and epoch, from the state that the lease began with. It has a bound of its
        own: whoever asked has the answer in time, and the next one who asks has the browser."""
        if self._restarting is None:
            if self._is_ending:
                return False
            self._connection.door.shut(Away.GONE)
            self._restarting = asyncio.create_task(self._take_over(boot_ms() + RESTART_MS_MAX))
        elif self._restarting.done():
            return False  # once in a lease: what dies twice is not kept alive
        await asyncio.wait({self._restarting}, timeout=max(0, deadline_ms - boot_ms()) / 1000)
        return self._restarting.done() and self._restarting.result()

    async def _take_over(self, deadline_ms: int) -> bool:
        spec, old = replace(self._spec, until_ms=self._until_ms), self.main
        made = await self._relaunch(spec, self._keeper, deadline_ms)
        if made is not None:
            self._hold(*made)
            self._tabs.by_name[MAIN] = old
            refused = await self.open(self._connection.context.pages[0], deadline_ms)
            if refused is None:
                self._succeed(MAIN, old, self.main)
                self.main.owed = Rung.RESTART.told
                return True
            self._tabs.by_name[MAIN] = old
            self._connection.door.shut(Away.GONE)
        if self._reading is None:
            asyncio.get_running_loop().call_soon(self._mourn)
        return False

    def _succeed(self, name: str, old: Tab, tab: Tab) -> None:
        tab.address, tab.notices = old.address, old.notices
        self._tabs.keep(name, tab)
        if name == MAIN:
            remember_main(self._keeper.directory, tab.target)

    async def _kill(self) -> int | None:
        self._is_ending = True
        if self._restarting is not None:
            await asyncio.wait({self._restarting})
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

    def _on_dialog(self, dialog: Dialog) -> None:
        """Listening for all pages: without a listener Playwright answers by itself."""
        for name, tab in self._tabs.by_name.items():
            if tab.page is dialog.page:
                return hear(tab, dialog, name)
        main = self._tabs.by_name.get(MAIN)
        if main is not None:
            main.notices.add(f"{dialog.type} dialog of a page that is no tab dismissed: {dialog.message[:200]}")
        self._connection.door.start(dialog.dismiss())

    def _cut(self, connection: Connection) -> None:
        record = read_record(str(self._keeper.directory))
        is_fenced = record is not None and record["epoch"] > self._spec.epoch
        self._ended(connection, Away.FENCED if is_fenced else Away.GONE)

    def _ended(self, connection: Connection, why: Away) -> None:
        connection.door.shut(why)
        if self._reading is None or why is Away.FENCED:
            self._mourn()

    def _mourn(self) -> None:
        """Say once that the browser is gone; a read under way may still bring another."""
        is_coming = self._restarting is not None and not self._restarting.done()
        if self._connection.door.away is not None and not self._is_ending and not is_coming:
            self._is_ending = True
            self._on_gone()


async def _asked(tab: Tab, task: asyncio.Task[Any]) -> Held | None:
    """Wait for the task; a dialog that is held open is the answer to everything else in its tab."""
    while not task.done():
        held = tab.asks.open
        if held is not None:
            task.cancel()
            await asyncio.wait({task})  # it must not see the dialog gone
            return held
        await first(task, tab.asks.changed)
    return None


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
