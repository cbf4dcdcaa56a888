"""A keeper's life as a process: configuration in, one line out, then silence until the end."""

from __future__ import annotations

import json
import os
import signal
import sys

from lessor.browser.keeper import linux
from lessor.browser.keeper.keeper import Keeper
from lessor.browser.keeper.loop import Loop

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import NoReturn

    from lessor.browser.keeper.config import Config


def main() -> NoReturn:
    """Keep one browser until it ends. Whatever goes wrong here ends the browser too."""
    os.umask(0o077)
    linux.become_subreaper()
    config: Config = json.load(sys.stdin.buffer)
    loop = Loop()
    keeper = Keeper(loop, config, _announce)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda _number, _frame: keeper.end("sigterm"))
    try:
        loop.run()
    except Exception:  # noqa: BLE001 - a bug ends the browser, and is told
        import traceback  # only now worth its memory

        keeper.end(f"bug: {traceback.format_exc()}")
    os._exit(1)


def _announce(message: Mapping[str, object]) -> None:
    """Tell whoever started this process, who may have gone."""
    try:
        os.write(1, json.dumps(message).encode() + b"\n")
    except OSError:
        pass
    linux.silence()
