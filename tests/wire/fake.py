"""The smallest browser there is: one page, one button, a count of clicks, and a gate to hold an operation at."""

import asyncio
import time
from collections.abc import Callable

from lessor.errors import Problem
from lessor.findings import Away, NotSent, Sent, Target
from lessor.messages.action import AnyAction, Element, Match, Observation, PageView
from lessor.messages.health import HealthCheck
from lessor.ports import Binding, BrowserSpec, SealedState
from tests.support.dialogless import Dialogless, Fileless


def now_ms() -> int:
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1_000_000


class Fake(Fileless):
    """The engine. `clicks` is what reached pages; `observed` counts looks; `fails` is raised by the next look."""

    def __init__(self) -> None:
        self.live: dict[str, Page] = {}
        self.clicks = 0
        self.observed = 0
        self.fails: Exception | None = None
        self.arrived = asyncio.Event()
        self.gate = asyncio.Event()
        self.gate.set()

    async def passed(self) -> None:
        self.arrived.set()
        await self.gate.wait()

    async def start(self, spec: BrowserSpec, on_gone: Callable[[], None]) -> "Page":
        page = self.live[spec.instance] = Page(self, spec)
        return page

    async def find(self, spec: BrowserSpec, on_gone: Callable[[], None]) -> "Page | None":
        return self.live.get(spec.instance)

    async def reseal(self, sealed: bytes, was: Binding, becomes: Binding) -> SealedState | Problem:
        return SealedState(sealed, "k1")

    async def confirm_gone(self, instance: str) -> int | None:
        return None if instance in self.live else now_ms()

    async def close(self) -> None:
        self.live.clear()


class Page(Dialogless):
    """One session. Dispatches and looks stop at the engine's gate."""

    target = "T1"

    def __init__(self, engine: Fake, spec: BrowserSpec) -> None:
        self.engine, self.instance, self.url = engine, spec.instance, "about:blank"

    def view(self) -> Observation:
        revision = f"r{self.engine.clicks}"
        button = Element(ref="e1.aa", role="button", name="Place order")
        return Observation(url=self.url, title="A page", revision=revision, text="A text", elements=(button,), total=1)

    async def navigate(self, tab: str, url: str, deadline_ms: int) -> PageView:
        self.url = url
        return PageView(url=url, title="A page", revision=self.view().revision, status=200)

    async def observe(self, tab: str, deadline_ms: int) -> Observation:
        await self.engine.passed()
        self.engine.observed += 1
        if self.engine.fails is not None:
            fails, self.engine.fails = self.engine.fails, None
            raise fails
        return self.view()

    async def aim(self, tab: str, revision: str, action: AnyAction, match: Match, deadline_ms: int) -> Target:
        return Target("button Place order", "fp", False, None)

    async def dispatch(self, tab: str, action: AnyAction, target: Target, deadline_ms: int) -> Sent | NotSent | Away:
        await self.engine.passed()
        self.engine.clicks += 1
        return Sent(now_ms(), self.view())

    async def seal(self, generation: int, deadline_ms: int) -> SealedState | Problem | Away:
        return SealedState(b"sealed", "k1")

    async def check(self, wanted: HealthCheck, deadline_ms: int) -> Problem | Away | None:
        return None

    async def extend(self, until_ms: int) -> int | None:
        return until_ms

    async def kill(self) -> int | None:
        self.engine.live.pop(self.instance, None)
        return now_ms()

    async def cancel(self) -> None:
        self.engine.gate.set()
