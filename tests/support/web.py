"""A small web server on the loopback address with a log of its own: what really arrived."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit


class Web:
    """`pages` maps a path to HTML, or to `(status, headers, body)`. Every request is in `log` as
    `(method, host:port, path)` before it is answered; `/hold` sets `held` and answers when `release` is set."""

    def __init__(self, **pages: str) -> None:
        self.pages: dict[str, str | tuple[int, dict[str, str], str]] = {
            f"/{name}": html for name, html in pages.items()
        }
        self.log: list[tuple[str, str, str]] = []
        self.bodies: list[str] = []
        self.held = threading.Event()
        self.release = threading.Event()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = True
        self.port: int = self._server.server_address[1]
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(5)

    @property
    def origin(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def other(self) -> str:
        """The same server under a name of another origin."""
        return f"http://localhost:{self.port}"

    def paths(self) -> list[str]:
        return [path for _, _, path in self.log]


def _handler(web: Web) -> Callable[..., BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            web.log.append((self.command, self.headers.get("host", ""), self.path))
            length = int(self.headers.get("content-length") or 0)
            if length:
                web.bodies.append(self.rfile.read(length).decode())
            parts = urlsplit(self.path)
            if parts.path == "/to":
                self._answer(302, {"location": parts.query}, "")
            elif parts.path == "/hold":
                web.held.set()
                web.release.wait(10)
                self._answer(200, {}, "held")
            else:
                page = web.pages.get(parts.path, (404, {}, "not here"))
                self._answer(*((200, {}, page) if isinstance(page, str) else page))

        do_POST = do_GET  # noqa: N815 - the base class looks for that name

        def _answer(self, status: int, headers: dict[str, str], body: str) -> None:
            self.send_response(status)
            for name, value in {"content-type": "text/html; charset=utf-8", **headers}.items():
                self.send_header(name, value)
            self.send_header("content-length", str(len(body.encode())))
            self.end_headers()
            if "x-hold" in headers:  # the first half, and the rest when it is released
                self.wfile.write(body.encode()[: len(body) // 2])
                self.wfile.flush()
                web.release.wait(10)
                body = body[len(body) // 2 :]
            with contextlib.suppress(OSError):
                self.wfile.write(body.encode())

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class names it
            pass

    return Handler
