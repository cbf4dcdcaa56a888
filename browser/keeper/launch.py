"""Starting a keeper with its browser: all of it comes up, or nothing of it stays."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lessor.browser.arguments import chromium_arguments, chromium_environment
from lessor.browser.keeper import ending
from lessor.browser.keeper.link import Keeper, find
from lessor.browser.keeper.remedy import remedy_for

if TYPE_CHECKING:
    from lessor.browser.keeper.config import Config

BOOT_SCRIPT = str(Path(__file__).with_name("boot.py"))
START_S_MAX = 5.0
LINE_BYTES_MAX = 64 << 10
SOCKET_PATH_BYTES_MAX = 107
FORBIDDEN_SWITCHES = ("--remote-debugging", "--user-data-dir", "--proxy-")


class KeeperFailed(Exception):
    """The browser did not come up; nothing of it is left. `log` is the tail of what it said, `remedy` what to do
    about it, as far as that is known."""

    def __init__(self, reason: str, log: str = "") -> None:
        self.reason = reason
        self.log = log
        self.remedy = remedy_for(log)
        super().__init__("\n".join(part.rstrip() for part in (reason, self.remedy, log) if part))


@dataclass(frozen=True, slots=True)
class KeeperSpec:
    """One browser to start. `until_ms` is the first deadline on CLOCK_BOOTTIME; no deadline may ever lie
    further ahead than `max_ttl_ms`. The secret is what `admit` must show. `user_data` is best on tmpfs; it is
    removed when the browser ends, and lies in `directory` unless given."""

    directory: Path
    chromium: Path
    epoch: int
    until_ms: int
    secret: str = field(repr=False)
    arguments: tuple[str, ...] = field(default_factory=chromium_arguments)
    sandbox: bool = True
    user_data: Path | None = None
    max_ttl_ms: int = 3_600_000
    guard_ms: int = 200


async def launch(spec: KeeperSpec, timeout_s: float = START_S_MAX) -> Keeper:
    """Start a keeper with its browser, in at most `timeout_s`; raises `KeeperFailed`, with nothing left
    behind.

    The keeper leads a session of its own and outlives this process, but not its deadline."""
    directory = str(spec.directory)
    config = _config(spec)
    os.makedirs(directory, mode=0o700, exist_ok=True)
    pid, output = _spawn(config)
    try:
        line = await _first_line(output, timeout_s)
        message: Mapping[str, Any] = json.loads(line)
    except asyncio.CancelledError:  # nobody waits any more; what was started still has to go
        asyncio.get_running_loop().run_in_executor(None, ending.abandon, pid, directory, config["user_data"])
        raise
    except (TimeoutError, ValueError) as error:
        said = error.doc if isinstance(error, json.JSONDecodeError) else ""
        message = {"ok": False, "reason": "no_answer" if not said else "keeper_failed", "log": said}
    if message["ok"]:
        keeper = await find(spec.directory)
        if keeper is not None:
            return keeper
        message = {"ok": False, "reason": "no_answer", "log": ""}
    await asyncio.to_thread(ending.abandon, pid, directory, config["user_data"])
    raise KeeperFailed(message["reason"], message["log"])


def _config(spec: KeeperSpec) -> Config:
    directory = os.path.abspath(spec.directory)
    if len(os.fsencode(os.path.join(directory, "control.sock"))) > SOCKET_PATH_BYTES_MAX:
        raise KeeperFailed("path_too_long", f"{directory}: a socket in it needs a shorter path")
    doors = [argument for argument in spec.arguments if argument.startswith(FORBIDDEN_SWITCHES)]
    if doors:
        raise KeeperFailed("bad_argument", f"{doors[0]} is the keeper's to give")
    return {
        "directory": directory,
        "user_data": os.path.abspath(spec.user_data or spec.directory / "profile"),
        "chromium": str(spec.chromium),
        "arguments": [*spec.arguments, *(() if spec.sandbox else ("--no-sandbox",))],
        "environment": chromium_environment(),
        "epoch": spec.epoch,
        "until_ms": spec.until_ms,
        "secret": spec.secret,
        "max_ttl_ms": spec.max_ttl_ms,
        "guard_ms": spec.guard_ms,
    }


def _spawn(config: Config) -> tuple[int, int]:
    """The keeper's pid, and the descriptor on which it says how its start went."""
    config_out, config_in = os.pipe()
    said_out, said_in = os.pipe()
    try:
        pid = os.posix_spawn(
            sys.executable,
            [sys.executable, "-I", "-S", BOOT_SCRIPT],
            os.environ,
            file_actions=[
                (os.POSIX_SPAWN_DUP2, config_out, 0),
                (os.POSIX_SPAWN_DUP2, said_in, 1),
                (os.POSIX_SPAWN_DUP2, said_in, 2),
            ],
            setsid=True,
        )
    except OSError:
        os.close(said_out)
        raise
    finally:
        os.close(config_out)
        os.close(said_in)
    with open(config_in, "wb") as file:  # far below a pipe's buffer: does not block
        file.write(json.dumps(config).encode())
    return pid, said_out


async def _first_line(fd: int, timeout_s: float) -> bytes:
    """The first line, or all there is when that ends before one is whole."""
    reader = asyncio.StreamReader(limit=LINE_BYTES_MAX)
    protocol = asyncio.StreamReaderProtocol(reader)
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(lambda: protocol, os.fdopen(fd, "rb", 0))
    try:
        return await asyncio.wait_for(_line_or_rest(reader), timeout_s)
    finally:
        transport.close()


async def _line_or_rest(reader: asyncio.StreamReader) -> bytes:
    line = await reader.readline()
    return line if line.startswith(b"{") else line + await reader.read()
