"""What a check of `lessor doctor` finds. Each check is bounded, changes nothing that lasts, and knows its remedy."""

import asyncio
import subprocess
from collections.abc import Awaitable, Callable
from typing import Final, Literal

import msgspec

from lessor.config import Config

VERSION_S: Final = 5.0


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One line. `remedy` is empty where nothing needs mending."""

    check: str
    result: Literal["ok", "warn", "fail"]
    found: str
    remedy: str = ""


def ok(check: str, found: str) -> Finding:
    return Finding(check=check, result="ok", found=found)


def warn(check: str, found: str, remedy: str) -> Finding:
    return Finding(check=check, result="warn", found=found, remedy=remedy)


def fail(check: str, found: str, remedy: str) -> Finding:
    return Finding(check=check, result="fail", found=found, remedy=remedy)


Check = Callable[[Config], Awaitable[Finding]]


async def version(binary: str) -> str | None:
    """The first line of what a program says of itself; None when it cannot be run."""

    def ask() -> str | None:
        try:
            done = subprocess.run([binary, "--version"], capture_output=True, text=True, timeout=VERSION_S, check=False)
        except (OSError, subprocess.TimeoutExpired):
            return None
        return done.stdout.strip().splitlines()[0] if done.returncode == 0 and done.stdout.strip() else None

    return await asyncio.to_thread(ask)
