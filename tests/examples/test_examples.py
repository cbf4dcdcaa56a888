"""The examples do what they say, on a real page."""

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
import structlog

import lessor.sync
from examples import embedded, hello, sync_script
from lessor.cli.demo.site import Site
from lessor.config import Config
from lessor.errors import Code, LessorError
from lessor.messages.reply import StepState
from lessor.runtime import Runtime


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    with Site(tmp_path / "site") as site:
        yield site


@pytest.fixture
async def runtime(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Runtime]:
    """What `lessor up` runs, where the examples look for it."""
    monkeypatch.setenv("LESSOR_DATA_DIR", str(tmp_path / "data"))
    structlog.reset_defaults()  # as in a program that never configured it
    async with Runtime(Config(data_dir=tmp_path / "data")) as runtime:
        yield runtime


async def test_hello_presses_one_button(runtime: Runtime, site: Site, capsys: pytest.CaptureFixture[str]) -> None:
    await hello.main(f"{site.url}/table")
    said = capsys.readouterr().out
    assert said.startswith("Amounts · Demo books: Approve applied\n"), said
    assert "sealed" in said
    assert len(site.approvals()) == 1


async def test_the_script_commits_its_step_once_however_often_it_runs(
    runtime: Runtime, site: Site, capsys: pytest.CaptureFixture[str]
) -> None:
    for _ in range(2):
        await asyncio.to_thread(sync_script.main, f"{site.url}/table", "order-81")
    said = capsys.readouterr().out.splitlines()
    assert said == ["attempt 1: done now, DISPATCHED", "attempt 2: was done before, DISPATCHED"]
    assert len(site.approvals()) == 1

    def look_it_up() -> StepState:
        with lessor.sync.connect() as client, client.run("look") as run:
            step = run.step(run.acquire("script"), "approve", task="order-81")
            return step.reconcile(lambda key: f"{key} is in the log", by="look-up")

    assert await asyncio.to_thread(look_it_up) is StepState.SUCCEEDED


class Server:
    """What an ASGI server does, in process."""

    def __init__(self, app: embedded.App) -> None:
        self._app = app
        self._in: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self._out: asyncio.Queue[dict[str, Any]] = asyncio.Queue()

    async def start(self) -> dict[str, Any]:
        self._lifespan = asyncio.ensure_future(self._app({"type": "lifespan"}, self._in.get, self._put))
        await self._in.put({"type": "lifespan.startup"})
        return await self._out.get()

    async def stop(self) -> dict[str, Any]:
        await self._in.put({"type": "lifespan.shutdown"})
        said = await self._out.get()
        await self._lifespan
        return said

    async def _put(self, message: Any) -> None:
        await self._out.put(message)

    async def get(self, path: str, query: str = "") -> tuple[int, dict[str, Any]]:
        said: list[Any] = []

        async def send(message: Any) -> None:
            said.append(message)

        scope = {"type": "http", "method": "GET", "path": path, "query_string": query.encode()}
        await self._app(scope, self._in.get, send)
        return said[0]["status"], json.loads(said[1]["body"])


async def test_the_web_application_leases_a_profile_per_request(tmp_path: Path, site: Site) -> None:
    server = Server(embedded.App(Config(data_dir=tmp_path / "data"), site.url))
    assert (await server.start())["type"] == "lifespan.startup.complete"
    asked = (server.get("/title", f"path={path}") for path in ("/login", "/table"))
    assert list(await asyncio.gather(*asked)) == [
        (200, {"title": "Log in · Demo books", "status": 200}),
        (200, {"title": "Amounts · Demo books", "status": 200}),
    ]
    assert (await server.get("/elsewhere"))[0] == 404
    refused = await server.get("/title", "path=@127.0.0.1:1/")
    assert (refused[0], refused[1]["error"]) == (403, "url_disallowed")
    assert (await server.stop())["type"] == "lifespan.shutdown.complete"


async def test_the_web_application_says_why_it_cannot_start(tmp_path: Path, site: Site) -> None:
    (tmp_path / "data").write_text("a file, not a directory")
    server = Server(embedded.App(Config(data_dir=tmp_path / "data"), site.url))
    said = await server.start()
    assert said["type"] == "lifespan.startup.failed"
    assert "data" in said["message"]


def test_a_script_without_a_broker_is_told_so_and_leaves_no_thread(tmp_path: Path) -> None:
    before = threading.active_count()
    with pytest.raises(LessorError) as refused, lessor.sync.connect(data_dir=tmp_path):
        pass
    assert refused.value.code is Code.SETUP_FAILED
    assert threading.active_count() == before


async def test_the_sync_face_raises_what_the_async_one_does(runtime: Runtime) -> None:
    def script() -> None:
        with lessor.sync.connect() as client:
            with pytest.raises(LessorError) as refused:
                client.show_profile("never")
            assert refused.value.code is Code.NOT_FOUND
            assert client.profiles() == ()
            with client.run("r1") as run:
                assert run.claim == 1
            assert client.show_run("r1").record.status.ended

    await asyncio.to_thread(script)
