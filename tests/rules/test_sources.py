"""An application's own word on its runs: how it is read, and what an outage of it means (contract 16; L29, L30)."""

import asyncio
import threading
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from lessor.errors import Code, LessorError, Problem, problem
from lessor.http_source import HttpSource
from lessor.messages.ids import RunKey
from lessor.messages.run import RunReading, RunRecord, RunStatus
from lessor.sources import READINGS_MAX, RunSource, SourcedRuns
from tests.model.runs import MemoryRuns
from tests.model.world import VirtualClock, World

KEY = RunKey("acme", "r1")
RECORD = RunRecord(
    principal="ann", status=RunStatus.RUNNING, attempt=1, deadline_unix_ms=2_000_000_000_000, claim=3, holder="h"
)
AWAY = problem(Code.BROKER_UNAVAILABLE, "Away.")


class Scripted:
    """Says the statuses one after the other, the last one for ever."""

    def __init__(self, *statuses: RunStatus | Problem | None, waits: bool | Problem = False) -> None:
        self.statuses, self.waits, self.asked = list(statuses), waits, 0

    async def status(self, key: RunKey) -> RunStatus | Problem | None:
        self.asked += 1
        return self.statuses.pop(0) if len(self.statuses) > 1 else self.statuses[0]

    async def waits_for_own(self, key: RunKey) -> bool | Problem:
        return self.waits


async def read(source: RunSource) -> RunReading | Problem:
    clock = VirtualClock()
    records = MemoryRuns(World(clock, lambda: asyncio.sleep(0)))
    await records.write(KEY, RECORD, 0)
    return await SourcedRuns(records, source, clock).read(KEY)


async def keeps(source: RunSource) -> bool:
    reading = await read(source)
    assert isinstance(reading, RunReading)
    return reading.record is not None and reading.record.needs_page


@pytest.mark.parametrize("status", RunStatus)
@pytest.mark.parametrize("waits", [False, True])
async def test_l29_only_running_queued_and_an_own_approval_keep_the_page(status: RunStatus, waits: bool) -> None:
    wanted = status in (RunStatus.RUNNING, RunStatus.QUEUED) or (status is RunStatus.PARKED and waits)
    assert await keeps(Scripted(status, waits=waits)) is wanted


async def test_l30_approval_granted_between_the_two_readings_is_never_read_as_ended() -> None:
    assert await keeps(Scripted(RunStatus.PARKED, RunStatus.RUNNING, waits=False))


async def test_l30_three_inconsistent_readings_keep_the_page() -> None:
    source = Scripted(*[RunStatus.PARKED, RunStatus.RUNNING] * 10)
    reading = await read(source)
    assert isinstance(reading, Problem)
    assert (reading.code, reading.retryable, source.asked) == (Code.BROKER_UNAVAILABLE, True, 2 * READINGS_MAX)


@pytest.mark.parametrize(
    "source", [Scripted(AWAY), Scripted(RunStatus.PARKED, waits=AWAY), Scripted(RunStatus.RUNNING, AWAY)]
)
async def test_source_that_cannot_be_read_says_nothing(source: RunSource) -> None:
    assert await read(source) == AWAY


async def test_run_that_the_source_does_not_know_has_ended() -> None:
    reading = await read(Scripted(None))
    assert isinstance(reading, RunReading)
    assert reading.record is None


async def test_claim_and_holder_stay_lessors_own() -> None:
    reading = await read(Scripted(RunStatus.WAITING_USER))
    assert isinstance(reading, RunReading)
    assert reading.record is not None
    assert (reading.record.claim, reading.record.holder, reading.record.status) == (3, "h", RunStatus.WAITING_USER)


# -- over HTTP


class Application:
    """What the endpoint answers, by path: status code and body; `heard` is what was asked, with its credentials."""

    def __init__(self) -> None:
        self.pages: dict[str, tuple[int, bytes]] = {}
        self.heard: list[tuple[str, str | None]] = []


@contextmanager
def served(application: Application) -> Generator[str]:
    class Endpoint(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            application.heard.append((self.path, self.headers["Authorization"]))
            code, body = application.pages.get(self.path, (404, b""))
            self.send_response(code)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 -- the base class names it so
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Endpoint)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/runs"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


async def test_endpoint_is_asked_for_status_and_approvals() -> None:
    application = Application()
    application.pages["/runs/acme/r1"] = (200, b'{"status":"parked","more":1}')
    application.pages["/runs/acme/r1/approvals"] = (200, b'{"pending":true}')
    with served(application) as base:
        assert await keeps(HttpSource(base, "secret"))
        assert {token for _, token in application.heard} == {"Bearer secret"}
        assert await HttpSource(base).status(RunKey("acme", "other")) is None
        assert "secret" not in repr(HttpSource(base, "secret"))


@pytest.mark.parametrize(
    ("code", "body"),
    [
        (500, b""),
        (302, b""),
        (200, b"<html>"),
        (200, b'{"status":"asleep"}'),
        (200, b'{"status":"running","fill":"' + b"x" * 70_000 + b'"}'),
    ],
)
async def test_answers_that_are_none_say_nothing(code: int, body: bytes) -> None:
    application = Application()
    application.pages["/runs/acme/r1"] = (code, body)
    with served(application) as base:
        told = await read(HttpSource(base))
        assert isinstance(told, Problem)
        assert told.code is Code.BROKER_UNAVAILABLE


async def test_an_endpoint_that_is_away_says_nothing_in_time() -> None:
    with served(Application()) as base:
        pass
    told = await HttpSource(base, timeout_s=0.5).status(KEY)
    assert isinstance(told, Problem)
    ended = asyncio.Event()

    async def listen(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Say nothing until the other side has gone."""
        while await reader.read(1024):
            pass
        writer.close()
        await writer.wait_closed()
        ended.set()

    silent = await asyncio.start_server(listen, "127.0.0.1", 0)
    port = silent.sockets[0].getsockname()[1]
    began = asyncio.get_running_loop().time()
    assert isinstance(await HttpSource(f"http://127.0.0.1:{port}", timeout_s=0.2).status(KEY), Problem)
    assert asyncio.get_running_loop().time() - began < 2
    await asyncio.wait_for(ended.wait(), 5)
    silent.close()
    await silent.wait_closed()


def test_an_address_that_is_none_is_refused_at_the_start() -> None:
    with pytest.raises(LessorError) as caught:
        HttpSource("shop.example/runs")
    assert caught.value.code is Code.SETUP_FAILED
