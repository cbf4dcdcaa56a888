"""All checks of `lessor doctor`, in the order in which they are told."""

import asyncio
from collections.abc import Callable
from typing import Final

from lessor.cli import check_broker, check_browser, check_machine
from lessor.cli.finding import Check, Finding
from lessor.config import Config


def _aside(look: Callable[[Config], Finding]) -> Check:
    """A blocking check, on a thread."""

    async def check(config: Config) -> Finding:
        return await asyncio.to_thread(look, config)

    return check


CHECKS: Final[dict[str, Check]] = {
    "browser": check_browser.browser,
    "browser start": check_browser.start,
    "sandbox": check_browser.sandbox,
    "broker": check_broker.broker,
    "data directory": _aside(check_machine.directory),
    "keys": _aside(check_machine.keys),
    "live directory": _aside(check_machine.memory),
    "clock": _aside(check_machine.clock),
}
