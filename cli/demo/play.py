"""The demo: two runs of real processes, killed at the worst moments, and a count of what came of it.

Run 1 logs in, and the profile is sealed. Run 2 starts from the seal and submits invoices, while its
workers and its browser are killed between a click and its answer. Nothing is sent twice.
"""

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from lessor.cli.demo import narrate
from lessor.cli.demo.figures import Figures, read, shortcomings
from lessor.cli.demo.plan import LOGIN_RUN, RUN, Fault, Invoice
from lessor.cli.demo.processes import Broken, Child
from lessor.cli.demo.stage import Stage
from lessor.cli.demo.timeline import Timeline

SILENT_S_MAX: Final = 45.0
"""A worker that says nothing for this long is broken: a look-up may take 30 s."""

HELD_S_MAX: Final = 20.0
END_S_MAX: Final = 10.0
LATE_S: Final = 1.0
"""How late the site records in the fault of that name: within what it declares (plan.SETTLE_S)."""

SWITCHES: Final[Mapping[Fault, Mapping[str, object]]] = {
    Fault.WORKER_AT_ANSWER: {"answer": "hold"},
    Fault.BROWSER_RECORDED: {"answer": "hold"},
    Fault.BROWSER_LATE: {"answer": "normal", "record_delay_s": LATE_S},
    Fault.BROWSER_LOST: {"answer": "lose"},
}


@dataclass(frozen=True, slots=True)
class Play:
    """What to play. `answer` is the site's switch for invoices without a fault; `naive` workers ask nobody."""

    invoices: tuple[Invoice, ...]
    answer: str = "normal"
    naive: bool = False


async def perform(play: Play, timeline: Timeline) -> tuple[Figures, list[str]]:
    """The figures, and what is not as promised. Raises Broken and LessorError; whatever happens, nothing is left."""
    async with Stage(timeline) as stage:
        timeline.heading("Run 1: log in")
        await _Run(stage, play, LOGIN_RUN).work()
        timeline.heading(f"Run 2: submit {len(play.invoices)} invoice{'s' if len(play.invoices) > 1 else ''}")
        await _Run(stage, play, RUN).work()
        timeline.heading("The end")
        entries = await stage.entries()
        orphans = await stage.close()
        figures = read(stage.site_directory, entries, orphans, time.monotonic() - timeline.began_s)
        return figures, shortcomings(figures, play.invoices, stage.site_directory, entries)


class _Run:
    """One run, from its first worker to the one that finishes it. Each invoice's fault strikes once."""

    def __init__(self, stage: Stage, play: Play, run: str) -> None:
        self._stage, self._play, self._run = stage, play, run
        self._faults = {invoice.number: invoice.fault for invoice in play.invoices}

    async def work(self) -> None:
        while not await self._one_worker():
            pass

    async def _one_worker(self) -> bool:
        """Whether the worker finished the run; False when it was killed."""
        worker = await self._stage.worker(self._run, self._play.invoices, naive=self._play.naive)
        async for event in worker.events(SILENT_S_MAX):
            words = narrate.of_worker(event)
            if words is not None:
                self._stage.timeline.row(worker.name, words)
            if event["event"] == "failed":
                raise Broken(f"{worker.name} failed: {event['code']}: {event['message']}")
            if event["event"] == "ready" and await self._strike(worker, event):
                return False
        if await worker.code(END_S_MAX) != 0:
            raise worker.broken("failed")
        return True

    async def _strike(self, worker: Child, event: Mapping[str, Any]) -> bool:
        """Say go, with what is planned for this invoice. True when the worker was killed."""
        stage, site = self._stage, self._stage.site
        fault = self._faults.pop(event["number"], Fault.NONE)
        await stage.remember()
        if fault is Fault.WORKER_BEFORE_CLICK:
            await stage.kill_worker(worker)
            return True
        switches = {"answer": self._play.answer, "times": None} if fault is Fault.NONE else {"times": 1}
        await asyncio.to_thread(site.switch, **{**switches, **SWITCHES.get(fault, {})})
        await worker.go()
        if fault is Fault.NONE:
            return False
        if event["number"] not in await asyncio.to_thread(site.held, HELD_S_MAX):
            raise worker.broken(f"did not get {event['number']} to the site")
        told = "has recorded it" if fault in (Fault.WORKER_AT_ANSWER, Fault.BROWSER_RECORDED) else "has not recorded it"
        stage.timeline.row("site", f"holds {event['number']} at its gate: it {told}, and has not answered")
        if fault.kills_worker:
            await stage.kill_worker(worker)
        else:
            stage.kill_browser()
        if fault is not Fault.BROWSER_LATE:
            await asyncio.to_thread(site.release)
        return fault.kills_worker
