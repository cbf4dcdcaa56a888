"""A soak's worker: submits steps on several profiles at once, and may be killed at any point; its successor goes on."""

import asyncio
import json
import os
import sys
from collections import deque
from pathlib import Path

import lessor
from lessor import points
from lessor.cli.demo.parent import die_with_parent
from lessor.client import Client, Lease, Run
from lessor.messages.action import Observation
from lessor.messages.reply import StepState
from lessor.messages.step import StepRecord
from lessor.reconcilers import Asking, Found, HttpLookup
from tests.soak.kills import Kills
from tests.soak.site import Site

TRIES_MAX = 100
"""Of one step: each is lost to a kill, or settles it."""
CALL_S = 3.0
"""A request that had reached a host when it was killed is never answered."""


def ref(page: Observation, role: str) -> str:
    return next(one.ref for one in page.elements if one.role == role)


class Lane:
    """One profile's steps, one after the other."""

    def __init__(self, client: Client, number: int, job: dict[str, str]) -> None:
        self._client, self.profile, self._form = client, f"lane{number}", job["form"]
        self._progress = Path(job["directory"]) / f"progress.{number}"
        self._lease: Lease | None = None
        self._told: deque[str] = deque(maxlen=6)
        """What was refused last."""

    def begun(self) -> int:
        """How many steps an earlier worker had settled."""
        return self._progress.stat().st_size if self._progress.exists() else 0

    async def created(self, origin: str, settle_s: float) -> None:
        """The profile is there; the host may still be starting, or be killed meanwhile."""
        for _ in range(TRIES_MAX):
            try:
                await self._client.create_profile(self.profile, origins=[origin], settle_s=settle_s)
            except lessor.Unavailable:
                await self._client.clock.wait(0.1)
            else:
                return
        raise AssertionError("no host answers")

    async def work(self, count: int) -> None:
        if self.begun() >= count:
            return
        async with self._client.run(f"r-{self.profile}", deadline_s=7200) as run:
            for number in range(self.begun(), count):
                for _ in range(TRIES_MAX):
                    if await self._tried(run, f"s{number}"):
                        break
                else:
                    raise AssertionError(f"{self.profile} s{number} is not settled: {list(self._told)}")
                with self._progress.open("ab") as file:
                    file.write(b".")

    async def _tried(self, run: Run, name: str) -> bool:
        """One try; False when something was lost and has to be looked at or done again."""
        try:
            lease = self._lease = self._lease or await run.acquire(self.profile)
            key_text = lessor.Expectation(text=f"done {self._key(run, name)}")
            async with run.step(lease, name, kind="order", evidence=["look-up"], expect=key_text) as step:
                if not step.done:
                    await lease.navigate(self._form, timeout_s=CALL_S)
                    page = await lease.observe(timeout_s=CALL_S)
                    typing = lessor.Type(ref=ref(page, "textbox"), text=step.request_key)
                    typed = await step.act(typing, timeout_s=CALL_S)
                    click = lessor.Click(ref=ref(typed.page or await lease.observe(), "button"))
                    await step.commit(click, timeout_s=CALL_S)
            return step.record.state is StepState.SUCCEEDED
        except lessor.LessorError as error:
            self._told.append(str(error))
            if error.code.class_.drops_lease or isinstance(error, lessor.Unavailable):
                self._lease = None
            elif error.code is lessor.Code.ACTION_NOT_ALLOWED:
                # What an earlier try left open is settled by the next acquire.
                self._lease = None
            return False

    def _key(self, run: Run, name: str) -> str:
        from lessor.messages.ids import request_key

        return request_key(run.run, name)


async def main() -> None:
    job = json.loads(sys.argv[1])
    site = Site(Path(job["directory"]) / "site.log")

    async def look(step: StepRecord) -> Found:
        there = await asyncio.to_thread(site.has, step.request_key)
        return Found("succeeded", "in the site's log") if there else Found("not_sent", "not in the site's log")

    Kills(
        Path(job["directory"]) / "kills.log",
        job["seed"],
        "act.before",
        tuple(job.get("at", points.WORKER)),
        job["rate"],
        {"sigkill": 1.0},
    ).arm()
    connecting = lessor.connect(
        job["url"], credentials=Path(job["credentials"]), tenant=job["tenant"], principal="me", worker=f"w{os.getpid()}"
    )
    async with connecting as client:
        client.reconcilers["order"] = (
            HttpLookup(job["look"], tries_max=20) if job["look"] else Asking(look, tries_max=20)
        )
        lanes = [Lane(client, number, job) for number in range(job["lanes"])]
        for lane in lanes:
            await lane.created(job["origin"], job["settle_s"])
        counts = [job["steps"] // len(lanes) + (number < job["steps"] % len(lanes)) for number in range(len(lanes))]
        await asyncio.gather(*(lane.work(count) for lane, count in zip(lanes, counts, strict=True)))


if __name__ == "__main__":
    die_with_parent()
    asyncio.run(main())
