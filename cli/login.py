"""`lessor login`: a person signs in, in a window on the host's machine (contract 28)."""

import asyncio
import os
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from lessor.cli.answer import Answer, tell
from lessor.cli.call import Call, Where, call
from lessor.cli.options import DataDir, Json, Nats, Profile, Timeout
from lessor.errors import Code, LessorError, Problem, error_of, problem

if TYPE_CHECKING:
    from lessor.browser.session import LiveSession
    from lessor.cli.tools import Tools
    from lessor.messages.reply import CeremonyTold, ProfileTold

NAVIGATE_S = 20.0
UNWIND_S = 15.0
"""How long a login that is broken off may take to end its browser and its ceremony."""
SEAL_S = 20.0
CLOSES_S = 15.0
"""How much longer than its ceremony the window may stay: for the last seal."""


def login(
    name: Profile, data_dir: DataDir = None, nats: Nats = None, as_json: Json = False, timeout: Timeout = 360.0
) -> None:
    """Sign the profile in by hand: a window opens here, and what you leave in it is sealed. Five minutes, one login.

    Needs a display, and runs where the host runs. Elsewhere: sign in with Playwright, save its
    storage state, `lessor profile import`.
    """
    answer = Answer(as_json)
    if not (os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")):
        none = (
            "There is no display here. Sign in where there is one, save the context's storage state with Playwright,"
            f" bring the file here, and: lessor profile import {name} FILE"
        )
        answer.refuse(problem(Code.NEEDS_USER, none))
    where = Where(data_dir, nats)
    told = call(lambda at: _ceremony(at, where, name), where, timeout, answer, "opening the window", unwind_s=UNWIND_S)
    answer.give(told, lambda out: out.print(f"logged in: generation {told.generation} of {told.profile}"))


async def _ceremony(at: Call, where: Where, name: str) -> "ProfileTold":
    from lessor.cli.session import name as checked
    from lessor.cli.tools import tools
    from lessor.ids import fresh_id

    profile, ceremony = checked(name, "profile"), fresh_id()
    async with tools(where) as with_:
        opened = await _ask(at, profile, ceremony, end=False)
        try:
            async with _window(at, with_, profile, opened.left_s) as session:
                at.progress.end()
                return await _signed_in(at, with_, profile, ceremony, session, opened.left_s)
        finally:
            await _ask(at, profile, ceremony, end=True)


async def _ask(at: Call, profile: str, ceremony: str, *, end: bool) -> "CeremonyTold":
    from lessor.ids import fresh_id
    from lessor.messages.reply import CeremonyTold
    from lessor.messages.request import Ceremony

    request = Ceremony(id=fresh_id(), ceremony=ceremony, end=end)
    return await at.client.ask(at.client.talk.to.profile(profile, "login"), request, CeremonyTold, 10.0)


@asynccontextmanager
async def _window(at: Call, with_: "Tools", name: str, left_s: float) -> "AsyncGenerator[LiveSession, None]":
    """A browser with the current state in it, held to the profile's origins; its keeper ends it if we do not."""
    from lessor.actors.clock import BootClock
    from lessor.browser.engine import Engine, Settings
    from lessor.browser.live import live_directory
    from lessor.ids import fresh_id
    from lessor.messages.ids import ProfileKey
    from lessor.ports import BrowserSpec

    profile, told = await at.client.show_profile(name), await at.client.generations(name)
    current = next((one for one in told.generations if one.current), None)
    config, now_ms = with_.config, BootClock().now_ms()
    settings = Settings(
        # Short: Chromium with a window makes a socket below it, whose path has 107 bytes at most.
        live=live_directory("login", config.data_dir) if config.live_dir is None else config.live_dir / "login",
        keys=config.data_dir / "keys",
        secrets=config.data_dir / "secrets",
        chromium=config.chromium,
        sandbox=os.geteuid() != 0 if config.sandbox is None else config.sandbox,
        warm_max=0,
        headed=True,
    )
    spec = BrowserSpec(
        key=ProfileKey(at.client.caller.tenant, name),
        principal=profile.principal,
        provider="chromium",
        epoch=1,
        instance=fresh_id()[:8],
        until_ms=now_ms + round((left_s + CLOSES_S) * 1000),
        origins=profile.origins,
        strict=profile.strict,
        sealed=await with_.fetch(current) if current is not None else None,
        generation=current.generation if current is not None else 0,
        sealed_origins=current.origins if current is not None else None,
    )
    engine, closed = Engine(settings), asyncio.Event()
    try:
        session = await engine.start(spec, closed.set)
        if isinstance(session, Problem):
            raise error_of(session)
        try:
            first = profile.health.url if profile.health is not None else f"{profile.origins[0]}/"
            await session.navigate("main", first, now_ms + round(NAVIGATE_S * 1000))
            yield session
        finally:
            await session.kill()
    finally:
        await engine.close()


async def _signed_in(
    at: Call, with_: "Tools", profile: str, ceremony: str, session: "LiveSession", left_s: float
) -> "ProfileTold":
    """Until what is in the window passes the health check, or the ceremony's time is over."""
    from lessor.actors.clock import BootClock
    from lessor.cli.carrying import commit

    async with _lines() as lines:
        until = asyncio.get_running_loop().time() + left_s
        tell(f"lessor: sign in in the window, then press Enter here: {round(left_s)} s are left")
        while True:
            left = until - asyncio.get_running_loop().time()
            try:
                line = await asyncio.wait_for(lines.readline(), max(0.0, left))
            except TimeoutError:
                over = "The five minutes are over and nothing was sealed: begin anew."
                raise error_of(problem(Code.NEEDS_USER, over)) from None
            if not line:
                raise error_of(problem(Code.NEEDS_USER, "Nobody pressed Enter, and nothing was sealed: begin anew."))
            state = await session.export(BootClock().now_ms() + round(SEAL_S * 1000))
            if not isinstance(state, bytes):
                gone = "The window was closed before Enter was pressed, and nothing was sealed: begin anew."
                raise error_of(problem(Code.NEEDS_USER, gone))
            try:
                return await commit(at, with_, profile, state, ceremony)
            except LessorError as error:
                if error.code is not Code.AUTHENTICATION_REQUIRED:
                    raise
                tell(f"lessor: {error.problem.message} Go on in the window, then press Enter again")


@asynccontextmanager
async def _lines() -> AsyncGenerator[asyncio.StreamReader, None]:
    reader = asyncio.StreamReader()
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(os.dup(sys.stdin.fileno()), "rb", 0)
    )
    try:
        yield reader
    finally:
        transport.close()
