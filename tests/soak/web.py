"""The site of a soak over HTTP, for real browsers: a form, its confirmation, and a look-up by request key."""

import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

from tests.soak.site import Site

FORM = """<!doctype html><title>order</title><form method=post action=/submit>
<input name=key aria-label=Key autocomplete=off><button>Order</button></form>"""


def _handler(site: Site) -> Callable[..., BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            parts = urlsplit(self.path)
            if parts.path == "/form":
                self._answer(200, FORM)
            elif parts.path == "/look":
                self._answer(200 if site.has(parse_qs(parts.query)["key"][0]) else 404, "")
            else:
                self._answer(404, "")

        def do_POST(self) -> None:
            length = int(self.headers.get("content-length") or 0)
            key = parse_qs(self.rfile.read(length).decode())["key"][0]
            site.submit(key)
            self._answer(200, f"<!doctype html><title>done</title><p>done {key}")

        def _answer(self, status: int, body: str) -> None:
            self.send_response(status)
            self.send_header("content-type", "text/html; charset=utf-8")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body.encode())

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 -- the base class names it
            pass

    return Handler


@contextmanager
def served(site: Site) -> Generator[str, None, None]:
    """The site's origin."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(site))
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
