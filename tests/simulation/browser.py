"""Keepers, browsers and the site that their pages act on: what really happened, whoever was told what.

A keeper belongs to a machine and outlives the host that started it. It admits one epoch, cuts the
lower ones, and ends browser and egress at its deadline on the machine's boot clock whatever the host
does. An input that has passed it reaches the page; what the page then sends reaches the site
later, or never, also after the page is gone if it had left by then.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Final, Literal, Protocol

from lessor.errors import Code, Problem, problem
from lessor.findings import Away, NotSent, Sent, Target
from lessor.messages.action import AnyAction, Match, Observation, PageView, Type
from lessor.messages.health import HealthCheck
from lessor.ports import Binding, BrowserSpec, Clock, SealedState
from tests.support.dialogless import Dialogless, Fileless

LATE_S_MAX: Final = 6.0
"""How long a request may be on its way to the site after its page is gone: less than any profile's `settle_s`."""


class Witness(Protocol):
    """Told of what really happened."""

    def sent(self, keeper: "Keeper", epoch: int, text: str) -> None: ...
    def ordered(self, keeper: "Keeper", epoch: int, text: str, boot_ms: int) -> None: ...
    def hit(self, keeper: "Keeper", epoch: int, text: str) -> None: ...
    def page(self, keeper: "Keeper", state: Literal["up", "overdue", "gone"]) -> None: ...
    def counted(self, fault: str) -> None: ...


@dataclass(slots=True)
class Chances:
    """How often things go wrong in a browser."""

    slow: float = 0.04
    silent: float = 0.01
    """The page wedges: it takes what comes, answers nothing, and goes on after a while."""
    wedged_s_max: float = 40.0
    refused: float = 0.03
    idle: float = 0.02
    """The page takes the input and sends nothing."""
    late: float = 0.05
    """The page takes its time before it sends."""
    long_way: float = 0.05
    """What it has sent takes its time to the site."""
    overdue: float = 0.0
    """A keeper and its guard that were stopped: nothing passes after the deadline, but the page lives on a while."""
    fails: float = 0.03

    def silence(self) -> None:
        self.slow = self.silent = self.fails = self.overdue = 0.0


class MachineClock(Clock, Protocol):
    def until_s(self, boot_ms: int) -> float: ...


@dataclass
class Machine:
    """One boot of a machine: its clock and the keepers on it."""

    clock: MachineClock
    random: random.Random
    later: Callable[[float, Callable[[], object]], None]
    """Runs something after virtual seconds, whichever host lives by then."""
    witness: Witness
    chances: Chances
    keepers: dict[str, "Keeper"] = field(default_factory=dict[str, "Keeper"])
    down: bool = False

    def lose_power(self) -> None:
        self.down = True
        for keeper in self.keepers.values():
            keeper.die()

    @property
    def live(self) -> "list[Keeper]":
        return [keeper for keeper in self.keepers.values() if keeper.alive]


class Keeper:
    """One browser's only door, and its deadline."""

    def __init__(self, machine: Machine, spec: BrowserSpec) -> None:
        self.machine, self.spec = machine, spec
        self.instance, self.epoch, self.until_ms = spec.instance, spec.epoch, spec.until_ms
        self.alive = True
        self.gone_ms: int | None = None
        self.revision = 0
        self.wedged_until_ms = 0
        self._session: ModelSession | None = None
        machine.keepers[spec.instance] = self
        machine.witness.page(self, "up")
        self._watch()

    def _watch(self) -> None:
        self.machine.later(self.machine.clock.until_s(self.until_ms) + 0.002, self._deadline)

    def _deadline(self) -> None:
        if not self.alive or self.machine.clock.now_ms() < self.until_ms:
            return
        self.machine.witness.page(self, "overdue")
        if self.machine.random.random() < self.machine.chances.overdue:
            self.machine.witness.counted("overdue keeper")
            self.machine.later(self.machine.random.uniform(1, 20), self.die)
        else:
            self.die()

    def die(self) -> None:
        """Browser and egress are gone; nothing that is still in them leaves."""
        if not self.alive:
            return
        self.alive, self.gone_ms = False, self.machine.clock.now_ms()
        self.machine.witness.page(self, "gone")
        session, self._session = self._session, None
        if session is not None:
            session.lost(Away.GONE)

    def admit(self, session: "ModelSession") -> bool:
        """A higher epoch cuts the lower one; nobody else gets in."""
        is_first = self._session is None and session.epoch == self.epoch
        if not self.alive or not (is_first or session.epoch > self.epoch):
            return False
        cut, self._session = self._session, session
        self.epoch = session.epoch
        if cut is not None:
            cut.lost(Away.FENCED)
        return True

    def extend(self, epoch: int, until_ms: int) -> int | None:
        """The deadline that counts from here on. A late extension never revives."""
        if self.away(epoch) is not None:
            return None
        if until_ms > self.until_ms:
            self.until_ms = until_ms
            self._watch()
        return self.until_ms

    def away(self, epoch: int) -> Away | None:
        if not self.alive or self.machine.clock.now_ms() >= self.until_ms:
            return Away.GONE
        return Away.FENCED if epoch != self.epoch else None

    def take(self, epoch: int, text: str) -> int | None:
        """An input arrives: when it passes, the page has it and acts on it."""
        if self.away(epoch) is not None:
            return None
        machine, draw = self.machine, self.machine.random
        machine.witness.sent(self, epoch, text)
        self.revision += 1
        if draw.random() >= machine.chances.idle:
            is_slow = draw.random() < machine.chances.late
            wedged_s = max(0.0, machine.clock.until_s(self.wedged_until_ms))
            works_s = draw.uniform(0.5, 8) if is_slow else draw.uniform(0.001, 0.2)
            machine.later(wedged_s + works_s, lambda: self._leaves(epoch, text))
        return machine.clock.now_ms()

    def _leaves(self, epoch: int, text: str) -> None:
        """The page's request goes out, if there still is a page; from then on nothing stops it."""
        if not self.alive:
            return
        draw = self.machine.random
        is_late = draw.random() < self.machine.chances.long_way
        way_s = draw.uniform(0.5, LATE_S_MAX) if is_late else draw.uniform(0.001, 0.05)
        self.machine.later(way_s, lambda: self.machine.witness.hit(self, epoch, text))


class ModelSession(Dialogless):
    """`ports.Session`: a host's end of the way to a keeper."""

    def __init__(self, keeper: Keeper, epoch: int, on_gone: Callable[[], None]) -> None:
        self.keeper, self.epoch, self._on_gone = keeper, epoch, on_gone
        self._machine, self._random = keeper.machine, keeper.machine.random
        self._loop = asyncio.get_running_loop()
        self._waiting: dict[asyncio.Future[object], None] = {}
        self._reading: asyncio.Future[object] | None = None
        self._ended = False

    def __repr__(self) -> str:
        return f"<ModelSession {self.instance} epoch {self.epoch}>"

    @property
    def target(self) -> str:
        return f"target-{self.instance}"

    @property
    def instance(self) -> str:
        return self.keeper.instance

    def lost(self, why: Away) -> None:
        """Cut, or gone: whoever waits hears of it, and the owner, once."""
        self._loop.call_soon_threadsafe(self._lost, why)

    def _lost(self, why: Away) -> None:
        for future in self._waiting:
            if not future.done():
                future.set_result(why)
        if not self._ended:
            self._ended = True
            self._on_gone()

    async def _answer(self, work: Callable[[], object], deadline_ms: int, *, through_page: bool = True) -> object:
        """Ask the keeper: `work` happens there, whether this host lives or not. SILENT at the deadline."""
        away = self.keeper.away(self.epoch)
        if away is not None:
            await self._pause(0.001)
            return away
        answer: asyncio.Future[object] = self._loop.create_future()
        self._waiting[answer] = None
        draw, chances = self._random.random(), self._machine.chances

        def arrive() -> None:
            keeper, clock = self.keeper, self._machine.clock
            if draw < chances.silent and through_page:
                wedged_s = self._random.uniform(1, chances.wedged_s_max)
                keeper.wedged_until_ms = clock.now_ms() + round(wedged_s * 1000)
            told = work()
            if through_page and clock.now_ms() < keeper.wedged_until_ms:
                return
            seconds = self._random.uniform(0.3, 12) if draw < chances.silent + chances.slow else 0.02
            back_s = self._random.uniform(0.001, 1) * seconds
            self._machine.later(back_s, lambda: self._loop.call_soon_threadsafe(tell, told))

        def tell(told: object) -> None:
            if not answer.done():
                answer.set_result(self.keeper.away(self.epoch) or told)

        self._machine.later(self._random.uniform(0.0001, 0.002), arrive)
        left_s = max(0.0, (deadline_ms - self._machine.clock.now_ms()) / 1000)
        await asyncio.wait({answer}, timeout=left_s)
        del self._waiting[answer]
        return answer.result() if answer.done() else Away.SILENT

    async def _pause(self, seconds_max: float) -> None:
        await asyncio.sleep(self._random.random() * seconds_max)

    async def _read(self, work: Callable[[], object], deadline_ms: int) -> object:
        task = asyncio.ensure_future(self._answer(work, deadline_ms))
        self._reading = task
        await asyncio.wait({task})
        if task.cancelled():
            return problem(Code.NAVIGATION_CANCELLED, "The read was stopped before it ended: ask again.")
        return task.result()

    async def navigate(self, tab: str, url: str, deadline_ms: int) -> PageView | Problem | Away:
        def go() -> PageView:
            self.keeper.revision += 1
            return PageView(url=url, title="Shop", revision=self._revision(), status=200)

        found = await self._read(go, deadline_ms)
        assert isinstance(found, PageView | Problem | Away)
        return found

    async def observe(self, tab: str, deadline_ms: int) -> Observation | Problem | Away:
        def look() -> Observation:
            return Observation(url="https://shop.test/", title="Shop", revision=self._revision())

        found = await self._read(look, deadline_ms)
        assert isinstance(found, Observation | Problem | Away)
        return found

    def _revision(self) -> str:
        return f"r{self.keeper.revision}"

    async def aim(
        self, tab: str, revision: str, action: AnyAction, match: Match, deadline_ms: int
    ) -> Target | Problem | Away:
        assert isinstance(action, Type)

        def look() -> Target | Problem:
            if self._random.random() < self._machine.chances.refused:
                return problem(Code.PAGE_CHANGED, "The target changed: observe again.")
            return Target("textbox Order", action.text, changed=False, token=None)

        found = await self._answer(look, deadline_ms)
        assert isinstance(found, Target | Problem | Away)
        return found

    async def dispatch(self, tab: str, action: AnyAction, target: Target, deadline_ms: int) -> Sent | NotSent | Away:
        assert isinstance(action, Type)
        if self._random.random() < self._machine.chances.refused:
            return NotSent("the element went away")
        text = action.text
        self._machine.witness.ordered(self.keeper, self.epoch, text, self._machine.clock.now_ms())

        def press() -> object:
            at_ms = self.keeper.take(self.epoch, text)
            if at_ms is None:
                return Away.FENCED if self.keeper.alive else Away.GONE
            return Sent(at_ms, Observation(url="https://shop.test/", title="Shop", revision=self._revision()))

        found = await self._answer(press, deadline_ms)
        assert isinstance(found, Sent | Away)
        return found

    async def seal(self, generation: int, deadline_ms: int) -> SealedState | Problem | Away:
        def export() -> SealedState | Problem:
            if self._random.random() < self._machine.chances.fails:
                return problem(Code.SEAL_FAILED, "the export failed.")
            text = f"{self.keeper.spec.key} generation {generation} on {self.keeper.spec.generation} of {self.instance}"
            return SealedState(text.encode(), "1")

        found = await self._answer(export, deadline_ms)
        assert isinstance(found, SealedState | Problem | Away)
        return found

    async def check(self, wanted: HealthCheck, deadline_ms: int) -> Problem | Away | None:
        found = await self._answer(lambda: None, deadline_ms)
        assert isinstance(found, Away | None)
        return found

    async def extend(self, until_ms: int) -> int | None:
        deadline_ms = self._machine.clock.now_ms() + 1000
        told = await self._answer(lambda: self.keeper.extend(self.epoch, until_ms), deadline_ms, through_page=False)
        return told if isinstance(told, int) else None

    def leave(self) -> None:
        """Nobody is to hear of its end any more."""
        self._ended = True

    async def kill(self) -> int | None:
        self.leave()
        return await end(self.keeper, self.epoch, self._pause)

    async def cancel(self) -> None:
        if self._reading is not None:
            self._reading.cancel()


async def end(keeper: Keeper, epoch: int, pause: Callable[[float], Awaitable[None]]) -> int | None:
    """Kill the tree. Sometimes its end cannot be confirmed in time, whether it came or not."""
    machine = keeper.machine
    await pause(0.04)
    fails = machine.random.random() < machine.chances.fails
    if keeper.alive and epoch < keeper.epoch:
        return None
    if not fails or machine.random.random() < 0.5:
        keeper.die()
    return None if fails else keeper.gone_ms


class ModelBrowser(Fileless):
    """`ports.Browser` of one host process on a machine."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine

    async def _pause(self, seconds_max: float) -> None:
        await asyncio.sleep(self._machine.random.random() * seconds_max)

    async def start(self, spec: BrowserSpec, on_gone: Callable[[], None]) -> ModelSession | Problem:
        machine = self._machine
        await self._pause(0.15)
        if machine.random.random() < machine.chances.fails:
            return problem(Code.ENDPOINT_UNREACHABLE, "The browser did not start: acquire again.")
        keeper = Keeper(machine, spec)
        session = ModelSession(keeper, spec.epoch, on_gone)
        assert keeper.admit(session)
        await self._pause(4 if machine.random.random() < machine.chances.slow else 0.1)
        if keeper.alive:
            return session
        return problem(Code.ENDPOINT_UNREACHABLE, "The browser did not start: acquire again.")

    async def find(self, spec: BrowserSpec, on_gone: Callable[[], None]) -> ModelSession | None:
        machine = self._machine
        await self._pause(0.05)
        keeper = machine.keepers.get(spec.instance)
        if keeper is None or not keeper.alive:
            return None
        session = ModelSession(keeper, spec.epoch, on_gone)
        if not keeper.admit(session):
            return None
        keeper.extend(spec.epoch, spec.until_ms)
        await self._pause(0.3)
        if machine.random.random() < machine.chances.fails:
            session.leave()
            await end(keeper, spec.epoch, self._pause)
            return None
        return session if keeper.away(spec.epoch) is None else None

    async def reseal(self, sealed: bytes, was: Binding, becomes: Binding) -> SealedState | Problem:
        return SealedState(sealed, "1")

    async def confirm_gone(self, instance: str) -> int | None:
        await self._pause(0.01)
        keeper = self._machine.keepers.get(instance)
        return keeper.gone_ms if keeper is not None else None

    async def close(self) -> None:
        """Keepers outlive the host."""
