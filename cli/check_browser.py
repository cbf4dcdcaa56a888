"""`lessor doctor`: is there a browser, does it start, and in which sandbox."""

import asyncio
import os
import tempfile
import time
from pathlib import Path
from typing import Final

from lessor.cli.finding import Finding, fail, ok, version, warn
from lessor.config import Config
from lessor.errors import Problem

START_S: Final = 10.0


async def browser(config: Config) -> Finding:
    from lessor.browser.find import find_chromium, resolve

    check = "browser"
    install = "Install chromium-headless-shell, chromium or google-chrome, or name a binary in LESSOR_CHROMIUM."
    if config.chromium is not None:
        binary = await asyncio.to_thread(resolve, config.chromium)
        if binary is None:
            return fail(check, f"LESSOR_CHROMIUM={config.chromium} is no browser binary", install)
    else:
        binary = await asyncio.to_thread(find_chromium)
    if binary is None:
        return fail(check, "no Chromium on the PATH, and none of Playwright's", install)
    told = await version(str(binary))
    if told is None:
        return fail(check, f"{binary} does not tell its version", install)
    return ok(check, f"{told}, {binary}")


async def start(config: Config) -> Finding:
    """A real browser in its keeper, in a directory of its own, ended again."""
    check = "browser start"
    began_s = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="lessor-doctor-") as place:
        try:
            told = await asyncio.wait_for(_start(config, Path(place)), START_S)
        except ImportError as error:
            return fail(check, f"a host's packages are missing ({error})", "pip install 'lessor[host]'")
        except (OSError, TimeoutError) as error:
            return fail(check, f"{type(error).__name__}: {error}", "Mend the lines above, then run doctor again.")
    if told is not None:
        return fail(check, told.message, "Run the browser by hand to see what it lacks; as another user than root.")
    return ok(check, f"started in its keeper and ended, {time.monotonic() - began_s:.1f} s")


async def _start(config: Config, place: Path) -> Problem | None:
    from lessor.actors.clock import BootClock
    from lessor.browser.engine import Engine, Settings
    from lessor.ids import fresh_id
    from lessor.messages.ids import ProfileKey
    from lessor.ports import BrowserSpec

    settings = Settings(
        live=place / "live",
        keys=place / "keys",
        secrets=place / "secrets",
        chromium=config.chromium,
        sandbox=_sandboxed(config),
        warm_max=0,
    )
    spec = BrowserSpec(
        key=ProfileKey("doctor", "doctor"),
        principal="doctor",
        provider="chromium",
        epoch=1,
        instance=fresh_id(),
        until_ms=BootClock().now_ms() + round(START_S * 1000),
        origins=("http://127.0.0.1:1",),
        strict=True,
        sealed=None,
        generation=0,
    )
    engine = Engine(settings)
    try:
        session = await engine.start(spec, lambda: None)
        if isinstance(session, Problem):
            return session
        await session.kill()
    finally:
        await engine.close()
    return None


async def sandbox(config: Config) -> Finding:
    check = "sandbox"
    if _sandboxed(config):
        return ok(check, "on; whether the kernel allows it is seen by starting a browser")
    if os.geteuid() == 0:
        return warn(check, "off: Chromium's sandbox does not work as root", "Run hosts as a user of their own.")
    return warn(check, "off by configuration", "Leave it on wherever the kernel allows it.")


def _sandboxed(config: Config) -> bool:
    return os.geteuid() != 0 if config.sandbox is None else config.sandbox
