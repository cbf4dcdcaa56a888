"""lessor inside a web application: the host lives and ends with the app's lifespan.

Written as a bare ASGI application, so that any framework's lifespan hook can do the same. With a server such as
uvicorn: `ORIGIN=https://example.org uvicorn examples.embedded:app`, then `GET /title?path=/`.
"""

import contextlib
import json
import os
import secrets
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any
from urllib.parse import parse_qs

import lessor

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
PROFILE = "reader"
STATUS_OF = {lessor.Code.URL_DISALLOWED: 403, lessor.Code.PROFILE_BUSY: 503}


class App:
    """Answers `GET /title?path=` with the title of that page of one origin, as the profile sees it."""

    def __init__(self, config: lessor.Config, origin: str) -> None:
        self._config, self._origin = config, origin

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._live(receive, send)
        elif scope["type"] == "http":
            status, answer = await self._answer(scope)
            await _respond(send, status, answer)

    async def _live(self, receive: Receive, send: Send) -> None:
        await receive()
        async with contextlib.AsyncExitStack() as stack:
            try:
                await stack.enter_async_context(lessor.Runtime(self._config))
                connecting = lessor.connect(data_dir=self._config.data_dir)
                self._client = await stack.enter_async_context(connecting)
                await self._client.create_profile(PROFILE, origins=[self._origin])
            except lessor.LessorError as error:
                await send({"type": "lifespan.startup.failed", "message": str(error)})
                return
            await send({"type": "lifespan.startup.complete"})
            await receive()
        await send({"type": "lifespan.shutdown.complete"})

    async def _answer(self, scope: Message) -> tuple[int, dict[str, object]]:
        if (scope["method"], scope["path"]) != ("GET", "/title"):
            return 404, {"error": "GET /title?path="}
        path = parse_qs(scope["query_string"].decode()).get("path", ["/"])[0]
        try:
            return 200, await self._title(f"{self._origin}{path}")
        except lessor.LessorError as error:
            return STATUS_OF.get(error.code, 502), {"error": error.code, "message": error.problem.message}

    async def _title(self, url: str) -> dict[str, object]:
        """One run per request: requests at the same time wait for the profile one after the other."""
        async with self._client.run(f"title-{secrets.token_hex(6)}", deadline_s=120) as run:
            lease = await run.acquire(PROFILE, wait_s=20)
            page = await lease.navigate(url)
            return {"title": page.title, "status": page.status}


async def _respond(send: Send, status: int, answer: dict[str, object]) -> None:
    headers = [(b"content-type", b"application/json")]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": json.dumps(answer).encode()})


app = App(lessor.Config.of(os.environ), os.environ.get("ORIGIN", "https://example.org"))
