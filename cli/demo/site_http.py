"""The demo site's web server: connections, forms, cookies and answers, but no page of its own."""

import contextlib
import json
import socket
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from http.cookies import CookieError, SimpleCookie
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Final, TypeAlias, cast
from urllib.parse import parse_qs, quote, urlsplit

from lessor.cli.demo import site_pages
from lessor.cli.demo.site_books import Books
from lessor.cli.demo.site_switches import PAUSE_S_MAX

COOKIE: Final = "demo_session"
BODY_BYTES_MAX: Final = 64 * 1024
IDLE_S_MAX: Final = 30.0

_Connection: TypeAlias = socket.socket | tuple[bytes, socket.socket]


@dataclass(frozen=True, slots=True)
class Routes:
    """(method, path) to what answers it: without a login, or behind one and told the session's name."""

    open: "Mapping[tuple[str, str], Callable[[Exchange], None]]"
    behind_login: "Mapping[tuple[str, str], Callable[[Exchange, str], None]]"


class Server(ThreadingHTTPServer):
    """Keeps its open connections, so that closing ends them and waits for their threads."""

    daemon_threads = False
    request_queue_size = 64

    def __init__(self, books: Books, routes: Routes, port: int) -> None:
        self.books = books
        self.routes = routes
        self._connections: set[socket.socket] = set()
        super().__init__(("127.0.0.1", port), Exchange)

    def process_request(self, request: _Connection, client_address: object) -> None:
        self._connections.add(cast("socket.socket", request))
        super().process_request(request, client_address)

    def shutdown_request(self, request: _Connection) -> None:
        self._connections.discard(cast("socket.socket", request))
        super().shutdown_request(request)

    def handle_error(self, request: _Connection, client_address: object) -> None:
        """A client that left is no error of the site's."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)

    def server_close(self) -> None:
        for connection in list(self._connections):
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        super().server_close()


class Exchange(BaseHTTPRequestHandler):
    """One connection, closed after its answer unless `keep_alive` is switched on: a browser may send a
    request again by itself when a connection it had used before closes without an answer."""

    protocol_version = "HTTP/1.1"
    timeout = IDLE_S_MAX
    query: Mapping[str, str]
    body: bytes

    @property
    def books(self) -> Books:
        return cast("Server", self.server).books

    @property
    def target(self) -> str:
        """The path without its query."""
        return urlsplit(self.path).path

    @property
    def form(self) -> Mapping[str, str]:
        return _fields(self.body.decode(errors="replace"))

    def do_GET(self) -> None:  # the base class looks these names up
        self.body = b""
        self._route()

    def do_POST(self) -> None:
        length = self.headers.get("Content-Length", "")
        if not (length.isascii() and length.isdigit() and int(length) <= BODY_BYTES_MAX):
            self.close_connection = True
            self.refuse(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"A body needs a length of at most {BODY_BYTES_MAX}.")
            return
        self.body = self.rfile.read(int(length))
        if len(self.body) == int(length):
            self._route()

    def _route(self) -> None:
        self.query = _fields(urlsplit(self.path).query)
        routes, wanted = cast("Server", self.server).routes, (self.command, self.target)
        if (answer := routes.open.get(wanted)) is not None:
            answer(self)
        elif (session := self._session()) is None:
            back = f"?next={quote(self.path, safe='')}" if self.command == "GET" else ""
            self.redirect(f"/login{back}")
        elif (answer_behind := routes.behind_login.get(wanted)) is not None:
            answer_behind(self, session)
        else:
            self.refuse(HTTPStatus.NOT_FOUND, "There is no such page.")

    def _session(self) -> str | None:
        try:
            cookie = SimpleCookie(self.headers.get("Cookie", "")).get(COOKIE)
        except CookieError:
            return None
        return None if cookie is None else self.books.logins.session_of(cookie.value)

    def seconds(self, name: str, default: str) -> float | None:
        """A number of seconds from the query; answers 400 and gives None if it is not one, or too large."""
        try:
            value = float(self.query.get(name, default))
        except ValueError:
            value = -1.0
        if 0 <= value <= PAUSE_S_MAX:
            return value
        self.send_json({"error": f"{name}: seconds from 0 to {PAUSE_S_MAX:g}"}, HTTPStatus.BAD_REQUEST)
        return None

    def refuse(self, status: HTTPStatus, why: str) -> None:
        self.send_page(site_pages.refusal(status.phrase, why), status)

    def redirect(self, path: str, headers: Mapping[str, str] | None = None) -> None:
        self._send(HTTPStatus.SEE_OTHER, "", "text/html", {"Location": path, **(headers or {})})

    def send_page(self, page: str, status: HTTPStatus = HTTPStatus.OK) -> None:
        self._send(status, page, "text/html")

    def send_json(self, content: Mapping[str, object], status: HTTPStatus = HTTPStatus.OK) -> None:
        self._send(status, json.dumps(content), "application/json")

    def leave(self) -> None:
        """Close the connection without an answer."""
        self.close_connection = True

    def _send(self, status: HTTPStatus, text: str, content_type: str, headers: Mapping[str, str] | None = None) -> None:
        body = text.encode()
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Type", f"{content_type}; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        if self.close_connection or not self.books.switches.keep_alive:
            self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # the base class's name
        """Say nothing: the site's record is its log of submissions."""


def _fields(encoded: str) -> Mapping[str, str]:
    return {name: values[-1] for name, values in parse_qs(encoded, keep_blank_values=True).items()}
