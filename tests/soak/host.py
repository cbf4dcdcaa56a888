"""A host that is killed at named points, by itself, as its seed says. Says `up` when it serves."""

import asyncio
import json
import sys
from pathlib import Path

from lessor import points
from lessor.actors.clock import BootClock
from lessor.cli.demo.parent import die_with_parent
from lessor.config import Config
from lessor.errors import Problem
from lessor.limits import Limits
from lessor.ports import Browser
from lessor.runtime import Host, chromium
from tests.soak.kills import Kills
from tests.soak.model import SiteBrowser
from tests.soak.site import Site
from tests.support.keepers import trees

LIMITS = Limits(
    restarts_max=100,
    restarts_s=0.5,
    warm_max=0,
    horizon_s_max=900,
    session_ttl_s=15,
    outage_s=5,
    beat_s=1,
    margin_s=0.5,
    reconnect_s=0.5,
)
"""Actors are killed by the hundred here: the crash of one is no crash loop."""


def crash_chromium(live_dir: Path) -> None:
    """SIGKILL one of this soak's browsers."""
    for tree in trees(live_dir):
        if tree.pid("browser") in tree.living:
            tree.kill("browser")
            return


async def main() -> None:
    job = json.loads(sys.argv[1])
    directory = Path(job["directory"])
    live_dir = Path(job["live_dir"])
    config = Config(
        data_dir=directory / "host",
        nats_url=job["url"],
        nats_credentials=Path(job["credentials"]),
        host=job["host"],
        limits=LIMITS,
        live_dir=live_dir,
    )
    loop = asyncio.get_running_loop()
    browser = SiteBrowser(BootClock())
    browser.site = Site(directory / "site.log")

    async def model(_: Config) -> Browser | Problem:
        return browser

    def crash() -> None:
        if job["chromium"]:
            crash_chromium(live_dir)
        else:
            loop.call_soon_threadsafe(browser.crash_one)

    host = Host(config, None, chromium if job["chromium"] else model)
    await host.open()
    sys.stdout.write("up\n")
    sys.stdout.flush()
    Kills(
        directory / "kills.log",
        job["seed"],
        "aim.before",
        tuple(job.get("at", points.HOST)),
        job["rate"],
        job["ways"],
        crash,
        job.get("spared", 0),
    ).arm()
    await host.failed.wait()
    raise SystemExit(f"the host failed: {host.why}")


if __name__ == "__main__":
    die_with_parent()
    asyncio.run(main())
