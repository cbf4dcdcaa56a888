"""`ports.Browser` in memory: keepers with epochs and deadlines that outlive their host, one page each, an effect log.

Every named point of an operation can be held by a test (`hold`), which then knows, without sleeping,
that the operation has got there. Deadlines of operations and of keepers run on the given clock.
"""

import asyncio
import itertools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from lessor.errors import Code, Problem, problem
from lessor.findings import Away, NotSent, Sent, Target
from lessor.messages.action import AnyAction, Element, Match, Observation, PageView, Type
from lessor.messages.health import HealthCheck
from lessor.ports import Binding, BrowserSpec, Clock, SealedState
from tests.support.dialogless import Dialogless, Fileless

Point = Literal["start", "navigate", "observe", "aim", "dispatch", "dispatched", "check", "seal", "kill"]
"""`dispatch` lies before the effect, `dispatched` between the effect and the page's answer."""


@dataclass(frozen=True, slots=True)
class Hit:
    """One input that reached a page: what a site of its own would have recorded."""

    at_ms: int
    epoch: int
    instance: str
    action: AnyAction


class Gate:
    """A point that is held. `reached` is set when something has come there; `open` lets it go on."""

    def __init__(self) -> None:
        self.reached = asyncio.Event()
        self._opened = asyncio.Event()

    def open(self) -> None:
        self._opened.set()

    async def passed(self) -> None:
        self.reached.set()
        await self._opened.wait()


@dataclass
class Keeper:
    """A browser that lives on its own: whoever has the highest epoch is its client."""

    instance: str
    target: str
    epoch: int
    until_ms: int
    on_gone: Callable[[], None]
    generation: int
    url: str = "about:blank"
    text: str = ""
    clicks: int = 0
    gone_ms: int | None = None
    gone: asyncio.Event = field(default_factory=asyncio.Event)


@dataclass
class ModelBrowser(Fileless):
    """The machine's browsers; one object may serve several hosts, one after the other or at once."""

    clock: Clock
    keepers: dict[str, Keeper] = field(default_factory=dict[str, Keeper])
    hits: list[Hit] = field(default_factory=list[Hit])
    started: int = 0
    key_id: str = "model-1"
    seals_with: Problem | None = None
    reseals_with: Problem | None = None
    healthy: Callable[[str], bool] = lambda text: text != "logged out"
    """What the health check says to the text on the page."""
    start_fails: Problem | None = None
    """Every start is answered with this while it is set."""
    aims: list[Problem | Away] = field(default_factory=list[Problem | Away])
    """What the next dry runs find instead of the target."""
    dispatches: list[NotSent | Away] = field(default_factory=list[NotSent | Away])
    """What becomes of the next inputs instead of reaching the page."""
    _gates: dict[Point, Gate] = field(default_factory=dict[Point, Gate])
    _targets: "itertools.count[int]" = field(default_factory=lambda: itertools.count(1))
    _ended: asyncio.Event = field(default_factory=asyncio.Event)

    def hold(self, point: Point) -> Gate:
        """Hold the next operation that comes to this point, and only that one."""
        gate = self._gates[point] = Gate()
        return gate

    async def pass_by(self, point: Point) -> None:
        gate = self._gates.pop(point, None)
        if gate is not None:
            await gate.passed()

    @property
    def live(self) -> list[Keeper]:
        return [keeper for keeper in self.keepers.values() if self.lives(keeper)]

    async def none_lives(self, within_s: float = 5.0) -> None:
        """Wait until every browser was ended."""
        async with asyncio.timeout(within_s):
            while self.live:
                self._ended.clear()
                await self._ended.wait()

    def lives(self, keeper: Keeper) -> bool:
        if keeper.gone_ms is None and self.clock.now_ms() >= keeper.until_ms:
            keeper.gone_ms = keeper.until_ms
        return keeper.gone_ms is None

    def end(self, keeper: Keeper) -> int:
        """The browser is gone, whoever ended it."""
        if keeper.gone_ms is None:
            keeper.gone_ms = self.clock.now_ms()
        keeper.gone.set()
        self._ended.set()
        return keeper.gone_ms

    def crash(self, keeper: Keeper) -> None:
        """The browser dies by itself."""
        self.end(keeper)
        keeper.on_gone()

    async def start(self, spec: BrowserSpec, on_gone: Callable[[], None]) -> "ModelSession | Problem":
        await self.pass_by("start")
        if self.start_fails is not None:
            return self.start_fails
        self.started += 1
        target = f"target-{next(self._targets)}"
        keeper = Keeper(spec.instance, target, spec.epoch, spec.until_ms, on_gone, spec.generation)
        if spec.sealed is not None:
            keeper.text = spec.sealed.decode()
        self.keepers[spec.instance] = keeper
        return ModelSession(self, keeper, spec.epoch)

    async def find(self, spec: BrowserSpec, on_gone: Callable[[], None]) -> "ModelSession | None":
        keeper = self.keepers.get(spec.instance)
        if keeper is None or not self.lives(keeper) or spec.epoch < keeper.epoch or spec.target != keeper.target:
            return None
        keeper.epoch, keeper.on_gone = spec.epoch, on_gone
        return ModelSession(self, keeper, spec.epoch)

    async def reseal(self, sealed: bytes, was: Binding, becomes: Binding) -> SealedState | Problem:
        return self.reseals_with or SealedState(sealed, self.key_id)

    async def confirm_gone(self, instance: str) -> int | None:
        keeper = self.keepers.get(instance)
        if keeper is None:
            return self.clock.now_ms()
        return None if self.lives(keeper) else keeper.gone_ms

    async def close(self) -> None:
        """Keepers outlive the host."""


class ModelSession(Dialogless):
    """`ports.Session` of one epoch."""

    def __init__(self, browser: ModelBrowser, keeper: Keeper, epoch: int) -> None:
        self._browser, self._keeper, self._epoch = browser, keeper, epoch
        self._cancelled = asyncio.Event()

    @property
    def target(self) -> str:
        return self._keeper.target

    @property
    def instance(self) -> str:
        return self._keeper.instance

    def _away(self) -> Away | None:
        if not self._browser.lives(self._keeper):
            return Away.GONE
        return Away.FENCED if self._keeper.epoch != self._epoch else None

    async def _until(self, point: Point, deadline_ms: int) -> bool:
        """Pass the point by the deadline, or until the browser is gone; False when it was held for longer."""
        left_s = max(0.0, (deadline_ms - self._browser.clock.now_ms()) / 1000)
        ways = {asyncio.ensure_future(self._browser.pass_by(point)), asyncio.ensure_future(self._keeper.gone.wait())}
        try:
            done, _ = await asyncio.wait(ways, timeout=left_s, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for way in ways:
                way.cancel()
        return bool(done)

    async def _read(self, point: Point, deadline_ms: int) -> Problem | Away | None:
        self._cancelled.clear()
        passing = asyncio.ensure_future(self._until(point, deadline_ms))
        cancelled = asyncio.ensure_future(self._cancelled.wait())
        await asyncio.wait({passing, cancelled}, return_when=asyncio.FIRST_COMPLETED)
        cancelled.cancel()
        if not passing.done():
            passing.cancel()
            return problem(Code.NAVIGATION_CANCELLED, "The read was cancelled.")
        return self._away() or (None if passing.result() else Away.SILENT)

    def _page(self) -> Observation:
        keeper = self._keeper
        button = Element(ref="go", role="button", name="Go")
        box = Element(ref="box", role="textbox", name="Text", value=keeper.text)
        return Observation(
            url=keeper.url,
            title="Model",
            revision=f"r{keeper.clicks}",
            text=keeper.text,
            elements=(box, button),
            total=2,
        )

    async def navigate(self, tab: str, url: str, deadline_ms: int) -> PageView | Problem | Away:
        stopped = await self._read("navigate", deadline_ms)
        if stopped is not None:
            return stopped
        self._keeper.url = url
        return PageView(url=url, title="Model", revision=f"r{self._keeper.clicks}", status=200)

    async def observe(self, tab: str, deadline_ms: int) -> Observation | Problem | Away:
        return await self._read("observe", deadline_ms) or self._page()

    async def aim(
        self, tab: str, revision: str, action: AnyAction, match: Match, deadline_ms: int
    ) -> Target | Problem | Away:
        if not await self._until("aim", deadline_ms):
            return Away.SILENT
        if self._browser.aims:
            return self._browser.aims.pop(0)
        return self._away() or Target("button Go", "f" * 16, changed=False, token=None, url=self._keeper.url)

    async def dispatch(self, tab: str, action: AnyAction, target: Target, deadline_ms: int) -> Sent | NotSent | Away:
        if not await self._until("dispatch", deadline_ms):
            return Away.SILENT
        if self._browser.dispatches:
            return self._browser.dispatches.pop(0)
        away = self._away()
        if away is not None:
            return away
        sent_ms = self._browser.clock.now_ms()
        self._keeper.clicks += 1
        if isinstance(action, Type):
            self._keeper.text = action.text
        self._browser.hits.append(Hit(sent_ms, self._epoch, self.instance, action))
        if not await self._until("dispatched", deadline_ms):
            return Away.SILENT
        return self._away() or Sent(sent_ms, self._page())

    async def seal(self, generation: int, deadline_ms: int) -> SealedState | Problem | Away:
        if not await self._until("seal", deadline_ms):
            return Away.SILENT
        if self._browser.seals_with is not None:
            return self._browser.seals_with
        return self._away() or SealedState(self._keeper.text.encode(), self._browser.key_id)

    async def check(self, wanted: HealthCheck, deadline_ms: int) -> Problem | Away | None:
        if not await self._until("check", deadline_ms):
            return Away.SILENT
        if self._browser.healthy(self._keeper.text):
            return self._away()
        return self._away() or problem(Code.AUTHENTICATION_REQUIRED, "The health check failed: logged out.")

    async def extend(self, until_ms: int) -> int | None:
        if self._away() is not None:
            return None
        self._keeper.until_ms = max(self._keeper.until_ms, until_ms)
        return self._keeper.until_ms

    async def kill(self) -> int | None:
        await self._browser.pass_by("kill")
        if self._away() is Away.FENCED:
            return None
        return self._browser.end(self._keeper)

    async def cancel(self) -> None:
        self._cancelled.set()
