"""Real processes, killed with SIGKILL at each named point of a commit: one effect, and the truth about it."""

import asyncio
import json
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

import lessor
from lessor import points
from lessor.client import Client
from lessor.messages.record import Intent, Outcome, Reconciled
from lessor.messages.reply import ActOutcome, StepState
from lessor.messages.step import StepRecord
from lessor.reconcilers import Asking, Found
from tests.soak.site import Site
from tests.support.stage import Stage

KILLED = -9
ORIGIN = "http://127.0.0.1:1"
CALL_S = 2.0


@pytest.fixture
def site(stage: Stage, tmp_path: Path) -> Site:
    """Where the hosts of these tests submit to: processes with a model browser of their own."""
    stage.browser = None
    return Site(tmp_path / "site.log")


def reconciler(site: Site, looks: list[str]) -> Asking:
    async def look(step: StepRecord) -> Found:
        looks.append(str(step.state))
        return Found("succeeded", "it is there") if site.has(step.request_key) else Found("not_sent", "it is not there")

    return Asking(look, tries_max=20)


@asynccontextmanager
async def process(module: str, stage: Stage, **job: object) -> AsyncGenerator[asyncio.subprocess.Process, None]:
    said = {
        "directory": str(stage.directory),
        "live_dir": str(stage.live),
        "url": stage.endpoint.url,
        "credentials": str(stage.endpoint.credentials),
        "host": f"{stage.tenant}-h",
        "tenant": stage.tenant,
        "chromium": False,
        "seed": "1",
        "ways": {"sigkill": 1.0},
        **job,
    }
    child = await asyncio.create_subprocess_exec(
        sys.executable, "-m", module, json.dumps(said), stdout=asyncio.subprocess.PIPE
    )
    try:
        yield child
    finally:
        if child.returncode is None:
            child.kill()
        await child.wait()


@asynccontextmanager
async def hosted(stage: Stage, at: str | None) -> AsyncGenerator[asyncio.subprocess.Process, None]:
    """A host over a model browser; killed when it comes to `at` in its second act."""
    async with process("tests.soak.host", stage, rate=1.0 if at else 0.0, at=[at or "none"], spared=1) as child:
        assert child.stdout is not None
        assert await asyncio.wait_for(child.stdout.readline(), 20) == b"up\n"
        yield child


async def committed(client: Client, stage: Stage, run_name: str = "r1") -> lessor.Step:
    """The step, tried until it is settled, by a worker that looks before it repeats."""
    run = await stage.take(client, run_name)
    for _ in range(20):
        try:
            lease = await run.acquire("shop")
            await lease.observe(timeout_s=CALL_S)
            async with run.step("pay", kind="order", evidence=["look-up"], task="t1") as step:
                if not step.done:
                    await step.act(lessor.Type(ref="box", text=step.request_key), timeout_s=CALL_S)
                    await step.commit(lessor.Click(ref="go"), timeout_s=CALL_S)
            if step.done:
                return step
        except lessor.LessorError:
            await client.clock.wait(0.1)
    raise AssertionError("not settled in 20 tries")


NO_TRACE = ("aim.before", "aim.after", "intent.before")
"""S01: nothing is on record, the step is run."""
UNSENT = ("intent.landed", "dispatch.before")
"""S02: UNKNOWN to the successor, looked up before any retry."""
SENT = ("dispatch.after", "outcome.before")
"""S03, S04: the site has it, nobody recorded it; UNKNOWN, reconciled."""
RECORDED = ("outcome.landed", "answer.before")
"""S03, S08: the answer is lost, the record is the answer."""


def test_every_point_of_a_host_has_its_row() -> None:
    assert (*NO_TRACE, *UNSENT, *SENT, *RECORDED) == points.HOST


@pytest.mark.parametrize("point", points.HOST)
async def test_s01_to_s04_a_host_killed_at_this_point_of_a_commit(stage: Stage, site: Site, point: str) -> None:
    client = await stage.worker()
    looks: list[str] = []
    client.reconcilers["order"] = reconciler(site, looks)
    async with hosted(stage, None):
        await client.create_profile("shop", origins=[ORIGIN], settle_s=0)
    async with hosted(stage, point) as host:
        working = asyncio.create_task(killed_at_commit(client, stage))
        assert await asyncio.wait_for(host.wait(), 20) == KILLED
    async with hosted(stage, None):
        assert await working == (point in RECORDED)
        looks.clear()
        step = await committed(client, stage)
        assert (step.record.state, site.submissions()) == (StepState.SUCCEEDED, {step.request_key: 1})
        outcomes = [one.outcome for one in await stage.written(Outcome)][1:2]
        tries = [one for one in await stage.written(Intent) if one.request_key is not None]
        verdicts = [one.verdict for one in await stage.written(Reconciled) if one.counted]
    if point in NO_TRACE:
        assert len(tries) == 1
    elif point in UNSENT:
        assert (outcomes, len(tries)) == ([ActOutcome.UNKNOWN], 2)
        assert (looks[0], verdicts) == ("UNKNOWN", ["not_sent", "succeeded"])
    elif point in SENT:
        assert (outcomes, len(tries), looks[0], verdicts) == ([ActOutcome.UNKNOWN], 1, "UNKNOWN", ["succeeded"])
    else:
        assert (outcomes, len(tries), looks[0], verdicts) == ([ActOutcome.APPLIED], 1, "DISPATCHED", ["succeeded"])


async def killed_at_commit(client: Client, stage: Stage) -> bool:
    """The commit is the second act, and what the host dies of. Whether its worker was told the recorded answer."""
    run = await stage.take(client, "r0")
    lease = await run.acquire("shop")
    await lease.observe()
    step = run.step("pay", kind="order", evidence=["look-up"], task="t1")
    await step.__aenter__()
    await step.act(lessor.Type(ref="box", text=step.request_key))
    try:
        return (await step.commit(lessor.Click(ref="go"), timeout_s=CALL_S)).recorded
    except lessor.LessorError:
        return False


@pytest.mark.parametrize("point", points.WORKER[:2])
async def test_s03_a_worker_killed_at_this_point_of_an_act(stage: Stage, site: Site, point: str) -> None:
    """Its successor has the same page, and is told what is on record."""
    client = await stage.worker()
    looks: list[str] = []
    client.reconcilers["order"] = reconciler(site, looks)
    job = {"lanes": 1, "steps": 1, "origin": ORIGIN, "form": f"{ORIGIN}/form", "look": "", "settle_s": 0}
    async with hosted(stage, None):
        async with process("tests.soak.worker", stage, rate=1.0, at=[point], **job) as worker:
            assert await asyncio.wait_for(worker.wait(), 20) == KILLED
        async with process("tests.soak.worker", stage, rate=0.0, **job) as worker:
            assert await asyncio.wait_for(worker.wait(), 20) == 0
        (step,) = await client.steps("lane0")
        assert (step.state, site.submissions()) == (StepState.SUCCEEDED, {step.request_key: 1})
    assert [one.outcome for one in await stage.written(Outcome, "lane0")] == [ActOutcome.APPLIED] * 2 + (
        [ActOutcome.APPLIED] if point == "act.after" else []
    )
