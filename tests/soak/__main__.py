"""`make steps-soak N=10000`: N actions, one in ten of them killed at a named point, and what became of each step.

A step is two actions, the second of which is its commit. Host and worker are real processes that kill themselves
(SIGKILL), their browser or an actor as a seed says; broker and site are never killed. `--chromium`: over
real browsers and a real site. The last line is JSON; the exit code is 1 when a promise was broken.
"""

import argparse
import asyncio
import contextlib
import json
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import lessor
from lessor.audit import verify
from lessor.broker.connection import Connection, Settings, open_connection
from lessor.broker.embedded import Embedded, Endpoint
from lessor.broker.stream import open_stream
from lessor.broker.subjects import HOST_INBOX, Shard
from lessor.journal import Ledger, fold
from lessor.messages import wire
from lessor.messages.ids import ProfileKey, request_key
from lessor.messages.record import Entry
from lessor.messages.reply import StepState
from lessor.steps import view
from tests.soak.site import Site
from tests.soak.web import served

HOST_RATE, WORKER_RATE = 0.095, 0.008
SIGKILLS_OF_HOST = 0.3
"""Against one each of browsers and actors killed."""
ENDED = -9


async def kept_alive(module: str, job: dict[str, object], until_done: bool) -> None:
    """Run a process, and again whenever it was killed, with another seed."""
    for life in range(100_000):
        said = {**job, "seed": f"{job['seed']}-{module}-{life}"}
        child = await asyncio.create_subprocess_exec(sys.executable, "-m", module, json.dumps(said))
        try:
            code = await child.wait()
        finally:
            if child.returncode is None:
                child.kill()
                await child.wait()
        if code == 0 and until_done:
            return
        assert code == ENDED, f"{module} ended with {code}"


async def counted(endpoint: Endpoint, lanes: int, steps: int, directory: Path) -> dict[str, object]:
    """Site and journals, read by nobody who took part."""
    opened = await open_connection(
        Settings((endpoint.url,), "count", inbox_prefix=HOST_INBOX, credentials=endpoint.credentials)
    )
    assert isinstance(opened, Connection), opened
    states: dict[str, StepState] = {}
    broken = entries = 0
    try:
        stream = await open_stream(opened, Shard())
        assert not isinstance(stream, lessor.Problem), stream
        for lane in range(lanes):
            stored = await stream.scan(Shard().journal(ProfileKey("soak", f"lane{lane}")))
            broken += len(verify((one.sequence, one.data) for one in stored).broken)
            ledger = Ledger()
            for one in stored:
                fold(ledger, one.sequence, wire.decode(one.data, Entry))
            entries += len(stored)
            states.update({key: seen.state for key in ledger.steps if (seen := view(ledger, key)) is not None})
    finally:
        await opened.close()
    return figures(states, Site(directory / "site.log").submissions(), steps, lanes) | {
        "entries": entries,
        "chains_broken": broken,
    }


def figures(states: dict[str, StepState], there: Counter[str], steps: int, lanes: int) -> dict[str, object]:
    counts = [steps // lanes + (number < steps % lanes) for number in range(lanes)]
    wanted = {request_key(f"r-lane{lane}", f"s{number}") for lane in range(lanes) for number in range(counts[lane])}
    succeeded = {key for key, state in states.items() if state is StepState.SUCCEEDED}
    return {
        "steps": len(wanted),
        "succeeded": len(succeeded),
        "effects": sum(there.values()),
        "duplicates": sum(there.values()) - len(there),
        "lost": len(wanted - set(there)) + len(wanted - succeeded),
        "untrue": len(succeeded - set(there)) + len(set(there) - succeeded),
        "unknown_left": sum(state in (StepState.UNKNOWN, StepState.INTENDED) for state in states.values()),
    }


async def soak(arguments: argparse.Namespace, directory: Path, live: Path) -> dict[str, object]:
    steps = arguments.actions // 2
    broker = Embedded(directory / "broker")
    endpoint = broker.start()
    assert isinstance(endpoint, Endpoint), endpoint
    began = time.monotonic()
    with contextlib.ExitStack() as stack:
        stack.callback(broker.stop)
        origin = stack.enter_context(served(Site(directory / "site.log"))) if arguments.chromium else None
        job: dict[str, object] = {
            "directory": str(directory),
            "live_dir": str(live),
            "url": endpoint.url,
            "credentials": str(endpoint.credentials),
            "host": "soak",
            "tenant": "soak",
            "chromium": arguments.chromium,
            "lanes": arguments.lanes,
            "steps": steps,
            "seed": arguments.seed,
            "ways": {"sigkill": SIGKILLS_OF_HOST, "browser": 1.0, "actor": 1.0},
            "origin": origin or "http://127.0.0.1:1",
            "form": f"{origin or 'http://127.0.0.1:1'}/form",
            "look": f"{origin}/look?key={{key}}" if origin else "",
            "settle_s": 0.2 if origin else 0.0,
        }
        host = asyncio.create_task(kept_alive("tests.soak.host", {**job, "rate": HOST_RATE}, until_done=False))
        worker = asyncio.create_task(kept_alive("tests.soak.worker", {**job, "rate": WORKER_RATE}, until_done=True))
        telling = asyncio.create_task(tell(directory, arguments.lanes, steps))
        await asyncio.wait({host, worker}, return_when=asyncio.FIRST_COMPLETED)
        for task in (telling, worker, host):
            if not task.done():
                task.cancel()
        ended = await asyncio.gather(worker, host, telling, return_exceptions=True)
        for one in ended:
            if isinstance(one, Exception):
                raise one
        told = await counted(endpoint, arguments.lanes, steps, directory)
    kills = [json.loads(line) for line in (directory / "kills.log").read_text().splitlines()]
    ways = Counter(kill["way"] for kill in kills)
    for point, count in sorted(Counter(kill["point"] for kill in kills).items()):
        print(f"{point:<16} {count}")
    return told | {
        "kills": len(kills),
        "sigkills": ways["sigkill"],
        "browsers": ways["browser"],
        "actors": ways["actor"],
        "seconds": round(time.monotonic() - began, 1),
    }


async def tell(directory: Path, lanes: int, steps: int) -> None:
    while True:
        await asyncio.sleep(10)
        files = [directory / f"progress.{lane}" for lane in range(lanes)]
        done = sum(file.stat().st_size for file in files if file.exists())
        print(f"{done} of {steps} steps", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.soak", description=(__doc__ or "").split("\n", maxsplit=1)[0]
    )
    parser.add_argument("--actions", type=int, default=10_000)
    parser.add_argument("--lanes", type=int, default=6, help="profiles at once")
    parser.add_argument("--seed", default="1")
    parser.add_argument("--chromium", action="store_true")
    arguments = parser.parse_args()
    with (
        tempfile.TemporaryDirectory(prefix="lessor-soak-", ignore_cleanup_errors=True) as directory,
        tempfile.TemporaryDirectory(prefix="lessor-", ignore_cleanup_errors=True) as live,
    ):
        told = asyncio.run(soak(arguments, Path(directory), Path(live)))
    print(json.dumps(told))
    kept = told["duplicates"] == told["lost"] == told["untrue"] == told["chains_broken"] == 0
    return 0 if kept else 1


if __name__ == "__main__":
    raise SystemExit(main())
