"""Engines on real Chromium for tests, and nothing of them left afterwards."""

from __future__ import annotations

import secrets
import shutil
import tempfile
from pathlib import Path
from typing import Any

import msgspec

from lessor.browser.engine import Engine, Settings
from lessor.browser.keeper.linux import boot_ms
from lessor.browser.session import LiveSession
from lessor.errors import Code, Problem
from lessor.messages.action import AnyAction, Element, Match, Observation
from lessor.messages.ids import ProfileKey
from lessor.ports import BrowserSpec, Sent, Target

KEY = ProfileKey("acme", "crm")


def soon(ms: int = 10_000) -> int:
    return boot_ms() + ms


class Rig:
    """One key directory and one live directory, on which engines follow each other like restarted hosts."""

    def __init__(self, root: Path | None = None) -> None:
        self.root = root or Path(tempfile.mkdtemp(prefix="lessor-"))
        self.engines: list[Engine] = []
        self.sessions: list[LiveSession] = []
        self.gone: list[str] = []

    @staticmethod
    def later_ms() -> int:
        """Long enough for a whole test run."""
        return soon(1_800_000)

    def engine(self, live: str = "live", warm_max: int = 0) -> Engine:
        engine = Engine(
            Settings(live=self.root / live, keys=self.root / "keys", secrets=self.root / "secrets", warm_max=warm_max)
        )
        self.engines.append(engine)
        return engine

    def spec(self, *origins: str, **changes: Any) -> BrowserSpec:
        given: dict[str, Any] = {
            "key": KEY,
            "principal": "ann",
            "provider": "chromium",
            "epoch": 1,
            "instance": secrets.token_hex(8),
            "until_ms": soon(60_000),
            "origins": origins,
            "strict": False,
            "sealed": None,
            "generation": 0,
        }
        return BrowserSpec(**{**given, **changes})

    async def start(self, engine: Engine, spec: BrowserSpec) -> LiveSession:
        session = await engine.start(spec, lambda: self.gone.append(spec.instance))
        assert isinstance(session, LiveSession), session
        self.sessions.append(session)
        return session

    async def end(self) -> None:
        for session in self.sessions:
            await session.kill()
        for engine in self.engines:
            await engine.close()
        shutil.rmtree(self.root, ignore_errors=True)


async def look(session: LiveSession, tab: str = "main") -> Observation:
    page = await session.observe(tab, soon())
    assert isinstance(page, Observation), page
    return page


async def go(session: LiveSession, url: str) -> Observation:
    view = await session.navigate("main", url, soon())
    assert not isinstance(view, Problem), view
    return await look(session)


def named(page: Observation, name: str) -> Element:
    found = [element for element in page.elements if element.name == name]
    assert len(found) == 1, (name, msgspec.to_builtins(page.elements))
    return found[0]


async def do(session: LiveSession, action: AnyAction, page: Observation, match: Match = "target") -> Observation:
    """Aim and dispatch; the page afterwards."""
    target = await session.aim("main", page.revision, action, match, soon())
    assert isinstance(target, Target), target
    sent = await session.dispatch("main", action, target, soon())
    assert isinstance(sent, Sent), sent
    assert sent.page is not None
    return sent.page


async def refused(session: LiveSession, action: AnyAction, page: Observation, match: Match = "target") -> Code:
    """The code of a dry run that must not pass, well within its five seconds."""
    began_ms = boot_ms()
    found = await session.aim("main", page.revision, action, match, soon())
    assert isinstance(found, Problem), found
    assert boot_ms() - began_ms < 5000
    return found.code


async def script(session: LiveSession, source: str) -> object:
    """Run what a page's own script could do."""
    return await session.main.page.evaluate(source)
