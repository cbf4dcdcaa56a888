"""The rungs on which a tab is brought back, mildest first (scenarios B03, B04).

Each rung is tried once. A tab that wedges again soon starts one rung higher, so that a page which always wedges ends at
an error and not in a loop."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import Enum

from lessor.browser.guard import SHELTER, Guard
from lessor.browser.keeper.linux import boot_ms
from lessor.browser.probe import Condition, known, probe
from lessor.browser.tab import Tab
from lessor.errors import Recovered

RUNG_MS_MAX = 1500
TERMINATE_MS_MAX = 250
CRASH_MS_MAX = 500
SOON_MS = 60_000


class Rung(Enum):
    """In the order in which they are climbed."""

    TERMINATE = "terminate"
    CROSS_SITE = "cross_site"
    REOPEN = "reopen"
    CRASH = "crash"
    RESTART = "restart"

    @property
    def number(self) -> int:
        return _ORDER.index(self)

    @property
    def told(self) -> Recovered:
        """How the answer says it."""
        return Recovered(rung=self.value, lost=LOST[self])


_ORDER = tuple(Rung)
LOST: dict[Rung, tuple[str, ...]] = {
    Rung.TERMINATE: ("script",),
    Rung.CROSS_SITE: ("script", "page"),
    Rung.REOPEN: ("script", "page", "tab"),
    Rung.CRASH: ("script", "page"),
    Rung.RESTART: ("script", "page", "tab", "browser"),
}
AFTER_CRASH = Recovered(rung=Rung.CRASH.value, lost=("script", "page"))
"""The renderer died by itself: that is where recovery begins."""


@dataclass(slots=True)
class Climb:
    """How far a named tab had to be taken, and when."""

    rung: Rung
    at_ms: int


class Ladder:
    """One per session. `reopen` puts a new page in the place of a named tab; `restart` a new browser in that of all;
    both answer None when that did not work."""

    def __init__(
        self,
        guard: Callable[[], Guard],
        reopen: Callable[[str, int], Awaitable[Tab | None]],
        restart: Callable[[int], Awaitable[bool]],
    ) -> None:
        self._guard = guard
        self._reopen = reopen
        self.restart = restart
        self._climbed: dict[str, Climb] = {}

    def __repr__(self) -> str:
        return f"<Ladder { ({name: climb.rung.value for name, climb in self._climbed.items()}) }>"

    def first(self, name: str) -> Rung | None:
        """Where to begin with that tab; None: every rung was tried a short while ago."""
        climb = self._climbed.get(name)
        if climb is None or boot_ms() - climb.at_ms > SOON_MS:
            return Rung.TERMINATE
        return after(climb.rung)

    def forgive(self, name: str) -> None:
        """The tab went where it was told to and answered: whatever wedged before is left behind."""
        self._climbed.pop(name, None)

    async def take(self, name: str, tab: Tab, rung: Rung, deadline_ms: int) -> bool:
        """Take one rung; True when the tab's thread then runs scripts again, or its renderer is a new one."""
        self._climbed[name] = Climb(rung, boot_ms())
        until_ms = min(deadline_ms, boot_ms() + RUNG_MS_MAX)
        if tab.is_loading and rung is not Rung.RESTART:
            tab.stop_loading()
        match rung:
            case Rung.TERMINATE:
                return await _terminate(tab, until_ms)
            case Rung.CROSS_SITE:
                return await _cross_site(tab, self._guard(), until_ms)
            case Rung.REOPEN:
                return await self._reopen(name, until_ms) is not None
            case Rung.CRASH:
                return await _crash(tab, until_ms)
            case Rung.RESTART:
                return await self.restart(deadline_ms)


def after(rung: Rung) -> Rung | None:
    """The next one up."""
    return _ORDER[rung.number + 1] if rung.number + 1 < len(_ORDER) else None


async def _terminate(tab: Tab, until_ms: int) -> bool:
    """Stop what runs; the page keeps its document and its variables. The tab's session was attached before the page
    could wedge, and this command does not wait for the page's thread."""
    await tab.call("Runtime.terminateExecution", min(until_ms, boot_ms() + TERMINATE_MS_MAX))
    return await probe(tab, until_ms)


async def _cross_site(tab: Tab, guard: Guard, until_ms: int) -> bool:
    """Another site gets another process, and the wedged one has nobody to wait for."""
    guard.shelter(tab.target)
    await tab.call("Page.navigate", until_ms, url=SHELTER)
    return await probe(tab, until_ms)


async def _crash(tab: Tab, until_ms: int) -> bool:
    """End the renderer; the next document starts another."""
    until_ms = min(until_ms, boot_ms() + CRASH_MS_MAX)
    tab.door.start(tab.call("Page.crash", until_ms))
    await tab.until(lambda: tab.is_crashed, until_ms)
    return known(tab) is Condition.CRASHED
