"""One live browser under one epoch (ports.Session)."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import replace
from typing import Any, TypeVar

from playwright.async_api import Page

from lessor.browser import act, health, state
from lessor.browser.connection import Connection
from lessor.browser.door import Failed
from lessor.browser.envelope import Whose
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
from lessor.browser.tab import Tab, attach
from lessor.errors import Code, Problem, problem
from lessor.messages.action import AnyAction, Match, Observation, PageView, Type
from lessor.messages.health import HealthCheck
from lessor.ports import Away, BrowserSpec, NotSent, SealedState, Sent, Target

T = TypeVar("T")
MAIN = "main"
TABS_MAX = 50
PROBE_MS_MAX = 500
CLOSE_TAB_MS_MAX = 1000
ATTACH_MS_MAX = 5000
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
        self._tabs: dict[str, Tab] = {}
        self._popups = 0
        self._is_shelving = False  # pages that open now are ours, for reading and writing storage
        self._is_ending = False
        self._reading: asyncio.Task[Any] | None = None
        self._killing: asyncio.Task[int | None] | None = None
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
        return self._tabs[MAIN]

    @property
    def instance(self) -> str:
        return self._spec.instance

    def _hold(self, keeper: Keeper, connection: Connection) -> None:
        self._keeper = keeper
        self._connection = connection
        keeper.gone.add_done_callback(lambda _: self._ended(connection, Away.GONE))
        connection.browser.on("disconnected", lambda _: self._cut(connection))

    async def open(self, page: Page, deadline_ms: int) -> Problem | Away | None:
        """Take `page` as the main tab, and its other pages as popups of the lease; None when that worked."""
        self._connection.context.on("page", self._on_page)
        tab = await attach(self._connection.context, page, self._connection.door, deadline_ms)
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
        return await self._read(
            self._recovery.read(tab, lambda at, until_ms: self._load(at, url, until_ms), deadline_ms, goes=True)
        )

    async def observe(self, tab: str, deadline_ms: int) -> Observation | Problem | Away:
        """See `observe.observe`."""
        return await self._read(self._recovery.read(tab, observe, deadline_ms, goes=False))

    async def aim(
        self, tab: str, revision: str, action: AnyAction, match: Match, deadline_ms: int
    ) -> Target | Problem | Away:
        """See `act.aim`."""
        secret = await self._secret(action)
        if isinstance(secret, Problem):
            return secret
        deadline_ms = min(deadline_ms, boot_ms() + act.AIM_MS_MAX)
        target = await self._recovery.once(
            tab, lambda at, until_ms: act.aim(at, revision, action, match, until_ms), deadline_ms
        )
        if secret is None or not isinstance(target, Target):
            return target
        assert isinstance(target.token, act.Aim)
        return replace(target, token=replace(target.token, secret=secret))

    async def _secret(self, action: AnyAction) -> str | Problem | None:
        """The value behind the reference of a `type`; it never crosses the wire (contract, Steps)."""
        if not isinstance(action, Type) or action.secret is None:
            return None
        return await asyncio.to_thread(self._secrets.value, self._spec.key.tenant, action.secret)

    async def dispatch(self, tab: str, action: AnyAction, target: Target, deadline_ms: int) -> Sent | NotSent | Away:
        """See `act.dispatch`."""
        at = self._tab(tab)
        return (
            NotSent("The tab was closed before.")
            if isinstance(at, Problem)
            else await act.dispatch(at, action, target, deadline_ms)
        )

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
        self._is_shelving = True
        try:
            await asyncio.gather(*(self._close_wedged(tab) for tab in self._tabs.values()))
            unvisited = tuple(sorted(self._connection.guard.origins.allowed)) if self.is_adopted else ()
            return await state.export(self._connection.context, self._connection.door, unvisited, deadline_ms)
        finally:
            self._is_shelving = False

    async def check(self, wanted: HealthCheck, deadline_ms: int) -> Problem | Away | None:
        """See `health.check`."""
        self._is_shelving = True
        try:
            return await health.check(self._connection.context, self._connection.door, wanted, deadline_ms)
        finally:
            self._is_shelving = False

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
        self._is_shelving = is_shelving

    async def _read(self, work: Coroutine[Any, Any, T]) -> T | Problem:
        task: asyncio.Task[T] = asyncio.create_task(work)
        self._reading = task
        await asyncio.wait({task})
        self._reading = None
        self._mourn()
        if task.cancelled():
            return problem(Code.NAVIGATION_CANCELLED, "The read was stopped before it ended: ask again.")
        return task.result()

    async def _load(self, tab: Tab, url: str, deadline_ms: int) -> PageView | Problem | Away:
        return await navigate(tab, self._connection.guard, url, deadline_ms)

    async def _reopen(self, name: str, deadline_ms: int) -> Tab | None:
        """A new page in the place of a tab; the old one is closed, which nobody waits for."""
        old, door = self._tabs[name], self._connection.door
        self._is_shelving = True
        try:
            page = await door.through(self._connection.context.new_page(), deadline_ms)
        finally:
            self._is_shelving = False
        if isinstance(page, (Failed, Away)):
            return None
        tab = await attach(self._connection.context, page, door, deadline_ms)
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
        spec, old = replace(self._spec, until_ms=self._until_ms), self._tabs[MAIN]
        made = await self._relaunch(spec, self._keeper, deadline_ms)
        if made is not None:
            self._hold(*made)
            self._tabs = {MAIN: old}
            refused = await self.open(self._connection.context.pages[0], deadline_ms)
            if refused is None:
                self._succeed(MAIN, old, self._tabs[MAIN])
                self.main.owed = Rung.RESTART.told
                return True
            self._tabs = {MAIN: old}
            self._connection.door.shut(Away.GONE)
        if self._reading is None:
            asyncio.get_running_loop().call_soon(self._mourn)
        return False

    def _succeed(self, name: str, old: Tab, tab: Tab) -> None:
        tab.address, tab.notices = old.address, old.notices
        self._tabs[name] = tab
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

    def _tab(self, name: str) -> Tab | Problem:
        tab = self._tabs.get(name)
        if tab is None or (tab.page.is_closed() and self._connection.door.away is None):
            return problem(Code.TAB_NOT_FOUND, f"There is no tab {name}: use {', '.join(sorted(self._tabs))}.")
        return tab

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
        tab = await attach(self._connection.context, page, door, boot_ms() + ATTACH_MS_MAX)
        if isinstance(tab, Tab):
            self._tabs[name] = tab
            if main is not None:
                main.notices.add(f"a popup opened: tab {name}")

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
