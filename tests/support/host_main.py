"""A host in a process of its own, with its own broker when no URL is given: says `up`, and lives until it is ended."""

import asyncio
import json
import os
import signal
import sys
from pathlib import Path

import msgspec

from lessor.config import Config
from lessor.limits import Limits
from lessor.runtime import Runtime


def say(word: str, **more: object) -> None:
    sys.stdout.write(json.dumps({"said": word, **more}) + "\n")
    sys.stdout.flush()


async def main() -> None:
    job = json.loads(sys.argv[1])
    config = Config.of(os.environ, Path(job["data_dir"]))
    config = msgspec.structs.replace(
        config,
        host=job["host"],
        live_dir=Path(job["live_dir"]),
        limits=msgspec.convert(job["limits"], Limits),
    )
    async with Runtime(config):
        say("up")
        stop = asyncio.Event()
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
        await stop.wait()


asyncio.run(main())
