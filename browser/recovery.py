"""Page operations that always come back: watched while they run, classified when they do not answer, and, when they
only read, repeated once on a tab that was brought back (contract, Outcomes; scenarios B01-B09).

The caller's deadline is the only one. Of what is left of it, half is given to the first try, at most `PATIENCE_MS_MAX`;
then the tab is asked what is the matter."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from msgspec import structs

from lessor.browser.keeper.linux import boot_ms
from lessor.browser.ladder import AFTER_CRASH, Ladder, Rung, after
from lessor.browser.probe import PROBE_MS_MAX, Condition, condition, known
from lessor.browser.tab import Tab
from lessor.errors import Code, Problem, Recovered, problem
from lessor.messages.action import Observation, PageView
from lessor.ports import Away

T = TypeVar("T")
V = TypeVar("V", Observation, PageView)
Work = Callable[[Tab, int], Coroutine[Any, Any, T | Problem | Away]]

PATIENCE_MS_MAX = 5000
PATIENCE_AGAIN_MS_MAX = 1000
SILENCE_MS_MIN = 1400
"""A page that is silent for less may only be busy: its script is not stopped for that."""
OWN_MS_MAX = 4000
"""A reading of a huge page may take this long by itself: after a sign of life nothing is taken for hung sooner."""
ROOM_MS_MIN = 300
"""With less time than this left, there is nothing to gain from a rung."""
ANSWER_MS = 50
"""Kept back of a probe, and waited for at the end, for the way of an answer."""

HUNG = problem(Code.TAB_HUNG, "The page's script does not let anything else run: observe, with more time, to free it.")
STATES: dict[Condition, Problem | Away] = {
    Condition.HUNG: HUNG,
    Condition.CRASHED: problem(Code.TAB_CRASHED, "The tab crashed: observe to load it again, or navigate."),
    Condition.CLOSED: problem(Code.TAB_NOT_FOUND, "The tab is closed: use another one."),
    Condition.AWAY: Away.GONE,
    Condition.PENDING: Away.SILENT,
}


async def watched(tab: Tab, work: Work[T], deadline_ms: int, patience_ms: int) -> T | Problem | Away | Condition:
    """The work's own answer, or what is the matter with a tab that gave none."""
    # Sent ahead of the work: behind a navigation it would be held back, whatever the page does.
    ahead = asyncio.ensure_future(tab.call("Runtime.evaluate", deadline_ms, expression="1"))
    ahead.add_done_callback(lambda done: None if done.cancelled() or done.result() is Away.SILENT else tab.lives())
    task = asyncio.ensure_future(work(tab, deadline_ms))
    try:
        while (left_ms := deadline_ms - boot_ms()) > 2 * ANSWER_MS:
            await asyncio.wait({task}, timeout=min(left_ms / 2, patience_ms) / 1000)
            if task.done():
                break
            asked = condition(tab, min(deadline_ms - ANSWER_MS, boot_ms() + PROBE_MS_MAX))
            found = await _unless(task, asked)
            is_ours = found is Condition.HUNG and ahead.done() and boot_ms() - tab.alive_ms < OWN_MS_MAX
            if found not in (None, Condition.PENDING) and not is_ours:
                return found
            if not task.done() and tab.is_leaving and (tab.is_arriving or not ahead.done()):
                return known(tab) or Condition.HUNG
        # The work ends by the same deadline, and what it says then is better than silence.
        await asyncio.wait({task}, timeout=max(0, deadline_ms + ANSWER_MS - boot_ms()) / 1000)
        return task.result() if task.done() else tab.door.silence()
    finally:
        for each in (ahead, task):
            each.cancel()
        await asyncio.wait({ahead, task})


async def _unless(task: asyncio.Future[Any], asked: Coroutine[Any, Any, Condition]) -> Condition | None:
    """The condition, unless the task ends before it is known."""
    asking = asyncio.ensure_future(asked)
    try:
        await asyncio.wait({task, asking}, return_when=asyncio.FIRST_COMPLETED)
        return asking.result() if asking.done() and not task.done() else None
    finally:
        asking.cancel()


def answer_of(tab: Tab, found: T | Problem | Away | Condition) -> T | Problem | Away:
    """A condition as its problem."""
    if not isinstance(found, Condition):
        return found
    if found is Condition.ASKING:
        return tab.unanswered(Away.SILENT)
    return (tab.door.away or Away.GONE) if found is Condition.AWAY else STATES[found]


class Recovery:
    """One per session. `tab` finds a named tab, `load` takes a tab to an address."""

    def __init__(
        self,
        tab: Callable[[str], Tab | Problem],
        ladder: Ladder,
        load: Callable[[Tab, str, int], Coroutine[Any, Any, PageView | Problem | Away]],
    ) -> None:
        self._tab = tab
        self._ladder = ladder
        self._load = load

    def __repr__(self) -> str:
        return f"<Recovery {self._ladder!r}>"

    async def once(self, name: str, work: Work[T], deadline_ms: int) -> T | Problem | Away:
        """Bounded and classified, never recovered: for whatever belongs to an act."""
        tab = self._tab(name)
        if isinstance(tab, Problem):
            return tab
        return answer_of(tab, await watched(tab, work, deadline_ms, PATIENCE_MS_MAX))

    async def read(self, name: str, work: Work[V], deadline_ms: int, *, goes: bool) -> V | Problem | Away:
        """Recovered once. `goes`: the work itself loads a document, so what the tab showed need not come back first."""
        tab = self._tab(name)
        if isinstance(tab, Problem):
            return tab
        if tab.owed is not None:
            return await self._again(name, work, deadline_ms, tab.owed, goes=goes)
        began_ms = boot_ms()
        found = await watched(tab, work, deadline_ms, PATIENCE_MS_MAX)
        match self._matter(tab, found):
            case Condition.HUNG if boot_ms() - began_ms >= SILENCE_MS_MIN:
                return await self._climb(name, tab, work, deadline_ms, goes=goes)
            case Condition.CRASHED if deadline_ms - boot_ms() > ROOM_MS_MIN:
                return await self._again(name, work, deadline_ms, AFTER_CRASH, goes=goes)
            case Condition.AWAY if tab.door.away is Away.GONE:
                if not await self._ladder.restart(deadline_ms):
                    return Away.GONE
                return await self._again(name, work, deadline_ms, Rung.RESTART.told, goes=goes)
            case _:
                pass
        if goes and isinstance(found, (Observation, PageView)):
            self._ladder.forgive(name)
        return answer_of(tab, found)

    @staticmethod
    def _matter(tab: Tab, found: object) -> Condition | None:
        """What could be recovered from; answers and refusals of a tab that lives are none of that."""
        if isinstance(found, Condition):
            return found
        is_answer = not isinstance(found, Away) and not (isinstance(found, Problem) and found.code is Code.TAB_CRASHED)
        return None if is_answer else known(tab)

    async def _climb(self, name: str, tab: Tab, work: Work[V], deadline_ms: int, *, goes: bool) -> V | Problem | Away:
        # Whoever names another address leaves behind what every rung was tried on.
        rung, last = self._ladder.first(name) or (Rung.TERMINATE if goes else None), None
        while rung is not None and deadline_ms - boot_ms() > ROOM_MS_MIN:
            last = rung
            if await self._ladder.take(name, tab, rung, deadline_ms):
                answer = await self._again(name, work, deadline_ms, rung.told, goes=goes)
                if not (isinstance(answer, Problem) and answer.code is Code.TAB_HUNG):
                    return answer
            following = self._tab(name)
            if isinstance(following, Problem):
                return following
            tab, rung = following, after(rung)
        return HUNG if last is None else structs.replace(HUNG, recovered=last.told)

    async def _again(
        self, name: str, work: Work[V], deadline_ms: int, told: Recovered, *, goes: bool
    ) -> V | Problem | Away:
        """The one repetition, on a tab that was brought back."""
        tab = self._tab(name)
        if isinstance(tab, Problem):
            return structs.replace(tab, recovered=told)
        tab.owed = None
        work = work if goes or "page" not in told.lost else self._after_loading(work)
        found = await watched(tab, work, deadline_ms, PATIENCE_AGAIN_MS_MAX)
        if self._matter(tab, found) is Condition.CRASHED:
            found = Condition.CRASHED
        answer = answer_of(tab, found)
        if isinstance(answer, (Problem, Away)) and "page" in told.lost:
            tab.owed = told  # what stands there now is not what whoever looks next expects
        return answer if isinstance(answer, Away) else structs.replace(answer, recovered=told)

    def _after_loading(self, work: Work[V]) -> Work[V]:
        async def loaded(tab: Tab, deadline_ms: int) -> V | Problem | Away:
            there = await self._load(tab, tab.address, deadline_ms)
            return there if isinstance(there, (Problem, Away)) else await work(tab, deadline_ms)

        return loaded
