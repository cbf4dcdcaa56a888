"""The demo's broker and host, in a process of their own that ends with the demo."""

import argparse
import asyncio
import signal
from collections.abc import Sequence
from pathlib import Path

from lessor.cli.demo.parent import die_with_parent
from lessor.config import Config
from lessor.runtime import Runtime


async def serve(config: Config) -> None:
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    async with Runtime(config):
        print("ready", flush=True)
        await stop.wait()


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m lessor.cli.demo.host", description=__doc__)
    parser.add_argument("--data-dir", type=Path, required=True)
    parser.add_argument("--live-dir", type=Path, required=True)
    asked = parser.parse_args(arguments)
    die_with_parent(signal.SIGTERM)
    asyncio.run(serve(Config(data_dir=asked.data_dir, live_dir=asked.live_dir, host="demo")))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
