"""Where the demo plays: its directory, its site, its host and its workers, and how all of it ends."""

import asyncio
import contextlib
import json
import os
import secrets
import shutil
import signal
import tempfile
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import psutil

import lessor
from lessor.browser.keeper import state, tree
from lessor.browser.live import Live
from lessor.browser.secretstore import Secrets
from lessor.cli.demo.narrate import JournalReader
from lessor.cli.demo.plan import PROFILE, RUN, SECRET, SETTLE_S, TENANT, USER, Invoice
from lessor.cli.demo.processes import GONE_S_MAX, Broken, Census, Child
from lessor.cli.demo.reading import Entries, Reading
from lessor.cli.demo.site_client import SiteClient
from lessor.cli.demo.timeline import Timeline
from lessor.messages.record import AnyRecord, LeaseClosed, LeaseGranted

READY_S_MAX: Final = 20.0
STOP_S_MAX: Final = 20.0
TEARDOWN_S_MAX: Final = 10.0
MEMORY: Final = Path("/dev/shm")  # noqa: S108 - only a directory of ours, made by mkdtemp, is used below it


class Stage:
    """Everything that runs, between `async with` and its end, whatever comes in between. Raises Broken and
    LessorError."""

    def __init__(self, timeline: Timeline) -> None:
        self.timeline = timeline
        self.directory = Path(tempfile.mkdtemp(prefix="lessor-demo-"))
        in_memory = MEMORY if os.access(MEMORY, os.W_OK) else self.directory
        self.live = Path(tempfile.mkdtemp(prefix="lessor-demo-", dir=in_memory))
        self.data = self.directory / "data"
        self.site_directory = self.directory / "site"
        self.census = Census(self.directory)
        self._instance: str | None = None
        self._journal = JournalReader()
        self._workers = 0
        self._reading: Reading | None = None
        self._idle = asyncio.Event()
        """Set while no lease is open."""

    def __repr__(self) -> str:
        return f"<Stage {self.directory} workers={self._workers}>"

    async def __aenter__(self) -> Self:
        try:
            await self._begin()
        except BaseException:
            await self._end()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._end()

    async def _begin(self) -> None:
        password = secrets.token_urlsafe(9)
        Secrets(self.data / "secrets").store(TENANT, SECRET, password)
        site = ("--directory", str(self.site_directory), "--seed-user", f"{USER}:{password}")
        host = ("--data-dir", str(self.data))
        at_live = {"LESSOR_LIVE_DIR": str(self.live)}
        self._site_process, self._host = await asyncio.gather(
            Child.start("site", "lessor.cli.demo.site", site, self.directory),
            Child.start("host", "lessor.cli.demo.host", host, self.directory, at_live),
        )
        self.site = SiteClient(json.loads(await _first_line(self._site_process))["url"])
        self.timeline.row("site", f"serves {self.site.url}: a login, an invoice form, a log of its own")
        await _first_line(self._host)
        self.timeline.row("host", "is up, with its broker; there is no browser yet")
        self._reading = await Reading.open(self.data, self._told)
        async with lessor.connect(data_dir=self.data, worker="demo") as client:
            await client.create_profile(PROFILE, origins=[self.site.url], settle_s=SETTLE_S)
        self.timeline.row("you", f"create the profile {PROFILE!r}: this site alone, which settles in {SETTLE_S:g} s")

    async def _end(self) -> None:
        await self._stop_reading()
        await asyncio.to_thread(self.census.sweep)
        for left in (self.directory, self.live):
            shutil.rmtree(left, ignore_errors=True)

    async def _stop_reading(self) -> None:
        reading, self._reading = self._reading, None
        if reading is not None:
            await reading.close()

    def _told(self, record: AnyRecord) -> None:
        if isinstance(record, LeaseGranted):
            self._instance = record.instance
            self._idle.clear()
        elif isinstance(record, LeaseClosed):
            self._idle.set()
        words = self._journal.tell(record)
        if words is not None:
            self.timeline.row("journal", words)

    async def worker(self, run: str, invoices: Sequence[Invoice], *, naive: bool) -> Child:
        """Another worker for the run; it is told the whole list of work, and nothing of what was done."""
        self._workers += 1
        name = f"worker {self._workers}"
        work = [f"--invoice={invoice.number}={invoice.amount}" for invoice in invoices if run == RUN]
        arguments = ["--data-dir", str(self.data), "--site", self.site.url, "--run", run, *work]
        arguments += ["--name", name.replace(" ", "-"), *(["--naive"] if naive else [])]
        return await Child.start(name, "lessor.cli.demo.worker", arguments, self.directory)

    async def remember(self) -> None:
        """Note every process there is now. Call it before a kill, since orphans lose their parents."""
        await asyncio.to_thread(self.census.look)

    async def kill_worker(self, worker: Child) -> None:
        await worker.end(signal.SIGKILL, STOP_S_MAX)
        self.timeline.row(worker.name, f"is killed (SIGKILL, pid {worker.pid})", loud=True)

    def kill_browser(self) -> None:
        """The Chromium of the present lease, by the pid that its keeper wrote down."""
        assert self._instance is not None
        record = state.read(str(Live(self.live).directory(self._instance)))
        if record is None or not tree.is_alive(record["browser"], record["browser_start"]):
            raise Broken(f"there is no living browser of {self._instance}")
        os.kill(record["browser"], signal.SIGKILL)
        self.timeline.row("browser", f"is killed (SIGKILL, pid {record['browser']})", loud=True)

    async def entries(self) -> Entries:
        """The profile's journal, once the last lease is torn down; or as it is, when that takes too long."""
        assert self._reading is not None
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._idle.wait(), TEARDOWN_S_MAX)
        return await self._reading.entries()

    async def close(self) -> int:
        """End host and site as their operator would, and count what is left of anything: the orphans."""
        await self.remember()
        await self._stop_reading()
        await asyncio.gather(*(child.end(signal.SIGTERM, STOP_S_MAX) for child in (self._host, self._site_process)))
        orphans = await asyncio.to_thread(self.census.left, GONE_S_MAX)
        for orphan in orphans:
            with contextlib.suppress(psutil.Error):
                self.timeline.row("orphan", f"pid {orphan.pid}: {' '.join(orphan.cmdline())[:80]}", loud=True)
        self.timeline.row("host", "has ended, and its broker, its keepers and browsers with it")
        return len(orphans)


async def _first_line(child: Child) -> str:
    """What a process says when it serves."""
    said = await child.line(READY_S_MAX)
    if said is None:
        raise child.broken("did not start")
    return said
