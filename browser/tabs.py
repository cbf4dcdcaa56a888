"""The tabs of a lease, by name: made when first named, found again after a restart (contract, Pages).

Names and target ids lie in a file beside the browser, so they live exactly as long as it does."""

import asyncio
import re
from pathlib import Path

import msgspec
from playwright.async_api import Page

from lessor.browser.connection import Connection
from lessor.browser.door import Failed, first
from lessor.browser.keeper.linux import boot_ms
from lessor.browser.live import remember_main
from lessor.browser.tab import Tab, attach
from lessor.errors import Code, Problem, problem
from lessor.messages.policy import PagePolicy
from lessor.ports import Away

MAIN = "main"
TABS_MAX = 50
ATTACH_MS_MAX = 5000
CLOSE_TAB_MS_MAX = 1000
FILE = "tabs.json"
POPUP = re.compile(r"popup-(\d{1,9})")
QUOTA = problem(Code.TAB_QUOTA, f"The lease has {TABS_MAX} tabs, as many as it may: close one of them.")


class Kept(msgspec.Struct, frozen=True):
    """What the file says of one tab."""

    target: str
    url: str | None = None
    """Its last address that was fetched by GET."""


def recorded(directory: Path) -> dict[str, Kept]:
    """Names of an earlier host's tabs; none when there is no file, or it is not ours. Blocking."""
    try:
        return msgspec.json.decode((directory / FILE).read_bytes(), type=dict[str, Kept])
    except (OSError, msgspec.DecodeError):
        return {}


class Tabs:
    """Belongs to one connection and the event loop."""

    def __init__(self, connection: Connection, policy: PagePolicy, directory: Path) -> None:
        self.by_name: dict[str, Tab] = {}
        self.is_shelving = False
        """Pages that open now are the engine's own, for reading and writing storage."""
        self._connection = connection
        self._policy = policy
        self._directory = directory
        self._recorded: dict[str, Kept] = {}
        self._dead: dict[str, str | None] = {}
        """Tabs that died, and their last GET address."""
        self._revived: set[str] = set()
        self._making = asyncio.Lock()
        self._is_making = False
        self._undecided: list[Page] = []
        """Pages that opened while one of ours was being made: it, or popups."""
        self._arriving: set[asyncio.Task[None]] = set()
        self._popups = 0
        self._writing: asyncio.Task[None] | None = None
        self._written: dict[str, Kept] = {}

    def __repr__(self) -> str:
        return f"<Tabs {' '.join(self.by_name)}>"

    async def open(self, page: Page, found: dict[str, Kept], deadline_ms: int) -> Problem | Away | None:
        """Take `page` as the main tab; the others that are there keep the names that `found` has for them."""
        self._recorded = found
        self._popups = max((int(named[1]) for name in found if (named := POPUP.fullmatch(name))), default=0)
        tab = await self._attach(page, deadline_ms)
        if isinstance(tab, Away):
            return tab
        if isinstance(tab, Failed):
            return problem(Code.ENDPOINT_UNREACHABLE, "The browser gave no page: acquire again.")
        self.keep(MAIN, tab)
        self._connection.context.on("page", self.arrive)
        for other in self._connection.context.pages:
            if other is not page:
                self.arrive(other)
        return None

    def at(self, name: str) -> Tab | Problem:
        """The tab of that name, if it is there."""
        self._sweep()
        tab = self.by_name.get(name)
        return _no_tab(name, self.by_name) if tab is None else tab

    async def get(self, name: str, deadline_ms: int, *, anew: bool) -> tuple[Tab, str | None] | Problem | Away:
        """The tab of that name, made when it is not there; with the address that one which died is to be shown again,
        once, unless it is to be shown something else `anew`."""
        async with self._making:
            self._sweep()
            if anew:
                self._revived.discard(name)
            while name not in self.by_name and name in self._recorded and self._arriving and boot_ms() < deadline_ms:
                await first(*self._arriving, timeout_s=max(0.0, (deadline_ms - boot_ms()) / 1000))
            tab = self.by_name.get(name)
            if tab is not None:
                return tab, None
            if POPUP.fullmatch(name) or name in self._revived:
                return _no_tab(name, self.by_name)
            if len(self.by_name) >= TABS_MAX:
                return QUOTA
            return await self._make(name, deadline_ms)

    def visited(self) -> None:
        """Addresses have changed."""
        self._save()

    async def close(self, name: str, deadline_ms: int) -> Problem | Away | None:
        """Close a tab for good. The main tab stays."""
        tab = self.at(name)
        if isinstance(tab, Problem):
            return tab
        if name == MAIN:
            return problem(Code.ACTION_NOT_ALLOWED, "The main tab stays as long as the lease: navigate it elsewhere.")
        del self.by_name[name]
        self._save()
        done = await tab.door.through(tab.page.close(), deadline_ms)
        return done if isinstance(done, Away) else None

    def arrive(self, page: Page) -> None:
        """A page opened."""
        if self.is_shelving:
            return
        if self._is_making:
            self._undecided.append(page)
            return
        task = self._connection.door.start(self._adopt(page))
        self._arriving.add(task)
        task.add_done_callback(self._arriving.discard)

    async def _make(self, name: str, deadline_ms: int) -> tuple[Tab, str | None] | Problem | Away:
        door = self._connection.door
        self._is_making = True
        try:
            page = await door.through(self._connection.context.new_page(), deadline_ms)
        finally:
            self._is_making = False
            others, self._undecided = self._undecided, []
        for other in others:
            if other is not page:
                self.arrive(other)
        tab = page if isinstance(page, (Failed, Away)) else await self._attach(page, deadline_ms)
        if isinstance(tab, Away):
            return tab
        if isinstance(tab, Failed):
            return problem(Code.TAB_CRASHED, "The browser made no tab: ask again.")
        self.keep(name, tab)
        if name not in self._dead:
            return tab, None
        self._revived.add(name)
        if name == MAIN:
            await asyncio.to_thread(remember_main, self._directory, tab.target)
        tab.notices.add("the tab had died and was made anew")
        return tab, self._dead.pop(name)

    async def _adopt(self, page: Page) -> None:
        """A popup belongs to the lease and becomes a tab of its own; one too many is closed."""
        self._sweep()
        door = self._connection.door
        if self._is_unwanted():
            await door.through(page.close(), boot_ms() + CLOSE_TAB_MS_MAX)
            self._notice("a popup was closed: the policy allows no more of them")
            return
        self._popups += 1
        name = f"popup-{self._popups}"
        placeholder = name
        tab = await self._attach(page, boot_ms() + ATTACH_MS_MAX)
        if not isinstance(tab, Tab):
            await door.through(page.close(), boot_ms() + CLOSE_TAB_MS_MAX)
            return
        known = next((known for known, kept in self._recorded.items() if kept.target == tab.target), None)
        self.keep(known or placeholder, tab)
        if known is None:
            self._notice(f"a popup opened: tab {name}")

    def _is_unwanted(self) -> bool:
        if self._recorded and len(self.by_name) + len(self._arriving) <= len(self._recorded):
            return False  # what an earlier host had is kept
        popups = sum(POPUP.fullmatch(name) is not None for name in self.by_name) + len(self._arriving) - 1
        most = 0 if self._policy.popups == "close" else self._policy.popups_max
        return popups >= most or len(self.by_name) + len(self._arriving) > TABS_MAX

    async def _attach(self, page: Page, deadline_ms: int) -> Tab | Failed | Away:
        return await attach(self._connection.context, page, self._connection.door, deadline_ms, self._policy)

    def keep(self, name: str, tab: Tab) -> None:
        """That is the tab of that name from now on."""
        self.by_name[name] = tab
        self._save()

    def notice(self, frame: str, text: str) -> None:
        """To the tab of that frame, else to the main one."""
        tab = next((tab for tab in self.by_name.values() if tab.target == frame), self.by_name.get(MAIN))
        if tab is not None:
            tab.notices.add(text)
            tab.stir()

    def _notice(self, text: str) -> None:
        main = self.by_name.get(MAIN)
        if main is not None:
            main.notices.add(text)

    def _sweep(self) -> None:
        """Forget what was closed. While the connection has ended nothing can be said of any tab."""
        if self._connection.door.away is not None:
            return
        dead = [name for name, tab in self.by_name.items() if tab.page.is_closed()]
        for name in dead:
            tab = self.by_name.pop(name)
            if POPUP.fullmatch(name) is None:
                self._dead[name] = self._connection.guard.last_get(tab.target)
        if dead:
            self._save()

    def _save(self) -> None:
        """Write behind, one at a time, the newest state last."""
        if self._writing is None or self._writing.done():
            self._writing = self._connection.door.start(self._write())

    async def _write(self) -> None:
        while True:
            guard = self._connection.guard
            now = {name: Kept(tab.target, guard.last_get(tab.target)) for name, tab in self.by_name.items()}
            if now == self._written:
                return
            await asyncio.to_thread(_store, self._directory, msgspec.json.encode(now))
            self._written = now


def _no_tab(name: str, there: dict[str, Tab]) -> Problem:
    return problem(Code.TAB_NOT_FOUND, f"There is no tab {name}: use {', '.join(sorted(there))}.")


def _store(directory: Path, body: bytes) -> None:
    draft = directory / f".{FILE}"
    try:
        draft.write_bytes(body)
        draft.rename(directory / FILE)
    except OSError:
        return  # the browser is being removed; without the file its popups get new names
