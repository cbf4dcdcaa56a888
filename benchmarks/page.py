"""The page under measurement: a counter, a form, a cookie and a little storage, served on loopback by a thread."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

PAGE = (
    b"""<!doctype html><title>Bench</title>
<h1>Orders</h1><p>Clicked <output id=n>0</output> times.</p>
<button onclick="n.textContent = +n.textContent + 1">Count</button>
<form><label>Name <input name=name></label><label><input type=checkbox name=keep> Keep</label>
<select name=how><option>Post<option>Courier</select></form>
<table>"""
    + b"".join(b"<tr><td>Order %d<td>%d.00" % (i, i * 7) for i in range(60))
    + b"""</table>
<script>localStorage.setItem("seen", new Date().toISOString())</script>"""
)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(PAGE)))
        self.send_header("Set-Cookie", "session=bench; HttpOnly")
        self.end_headers()
        self.wfile.write(PAGE)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 -- the base class names it so
        """Silent: the benchmark's output is its figures."""


@contextmanager
def served() -> Iterator[str]:
    """The page's origin, while the block lasts."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
