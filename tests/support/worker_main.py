"""A worker in a process of its own: takes a run, acquires a profile, acts, says so, and then waits to be killed."""

import asyncio
import json
import sys

import lessor


def say(word: str, **more: object) -> None:
    sys.stdout.write(json.dumps({"said": word, **more}) + "\n")
    sys.stdout.flush()


async def main() -> None:
    job = json.loads(sys.argv[1])
    async with lessor.connect(tenant=job["tenant"], worker="doomed") as client, client.run(job["run"]) as run:
        lease = await run.acquire(job.get("profile", "shop"))
        if "url" in job:
            await lease.navigate(job["url"])
        page = await lease.observe()
        say("observed", lease=lease.id)
        ref = next(one.ref for one in page.elements if one.name == job.get("button", "Go"))
        for _ in range(job.get("acts", 0)):
            await lease.act(lessor.Click(ref=ref))
        say("acted", lease=lease.id)
        if "step" in job:
            await run.step(lease, job["step"], task=job["task"]).commit(lessor.Click(ref=ref))
            say("committed", lease=lease.id)
        await asyncio.Event().wait()


asyncio.run(main())
