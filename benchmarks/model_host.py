"""A broker and a host whose browsers are models: what leases cost, without Chromium. Says one line when it is ready."""

import asyncio
import os
import signal
import sys

from lessor.actors.clock import BootClock
from lessor.config import Config
from lessor.errors import Problem
from lessor.ports import Browser
from lessor.runtime import Runtime
from tests.model.browser import ModelBrowser


async def main() -> None:
    model = ModelBrowser(BootClock())

    async def browser(_: Config) -> Browser | Problem:
        return model

    ended = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, ended.set)
    async with Runtime(Config.of(os.environ), browser=browser):
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        await ended.wait()
        os._exit(0)  # its leases are nobody's: sealing thousands of them is not what is measured


if __name__ == "__main__":
    asyncio.run(main())
