"""A host in a process of its own: says `up` when it serves, and then lives until somebody ends it."""

import asyncio
import json
import os
import signal
import sys
from pathlib import Path

import msgspec

from lessor.config import Config
from lessor.limits import Limits
from lessor.runtime import Host


def say(word: str, **more: object) -> None:
    print(json.dumps({"said": word, **more}), flush=True)


async def main() -> None:
    job = json.loads(sys.argv[1])
    config = Config.of(os.environ, Path(job["data_dir"]))
    config = msgspec.structs.replace(
        config,
        host=job["host"],
        live_dir=Path(job["live_dir"]),
        limits=msgspec.convert(job["limits"], Limits),
    )
    host = Host(config, None)
    await host.open()
    say("up")
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    await stop.wait()
    await host.drain()
    await host.close()


asyncio.run(main())
