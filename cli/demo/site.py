"""A small local site with a login, an invoice form and a log of its own: the demo's ground truth.

It knows nothing of leases, so what it counted can be held against what lessor says. Every accepted
submission is on disk before it is answered, duplicates included. `POST /switches` makes it drop,
delay, hold, double or garble answers, or lose submissions; `GET /api/invoices?key=` looks a request key up.

Run it with `python -m lessor.cli.demo.site --directory D`, or in this process as `Site(D)`.
"""

import argparse
import json
import signal
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from lessor.cli.demo.parent import die_with_parent
from lessor.cli.demo.site_books import Books
from lessor.cli.demo.site_http import Server
from lessor.cli.demo.site_routes import ROUTES
from lessor.cli.demo.site_switches import Switches

_STOP_SIGNALS: Final = {signal.SIGTERM, signal.SIGINT}


class Site(Books):
    """The site, serving on loopback from construction until `close`, on threads of this process.

    A later Site on the same `directory` carries on with its log and its logins. `users` maps names to
    passwords, {"demo": "demo"} by default; port 0 picks a free one.
    """

    def __init__(self, directory: Path, *, port: int = 0, users: Mapping[str, str] | None = None) -> None:
        super().__init__(directory, users or {"demo": "demo"})
        self._server = Server(self, ROUTES, port)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), name="demo-site")
        self._thread.start()

    @property
    def port(self) -> int:
        return self._server.server_port

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def set(self, **changes: object) -> Switches:
        """Change the named switches. ValueError for an unknown name or a value out of its bounds."""
        changed = self.change(changes)
        if isinstance(changed, str):
            raise ValueError(changed)  # noqa: TRY004  # a sentence, not a type, says what is wrong
        return changed

    def close(self) -> None:
        """Stop serving. What is held ends unanswered, and unrecorded if it was not recorded yet."""
        self.interrupt()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
        super().close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Site({self.url}, {self.switches!r})"


def main(arguments: Sequence[str] | None = None) -> int:
    """Serve until SIGTERM or SIGINT. Prints {"port": …, "url": …} once it answers."""
    parser = argparse.ArgumentParser(prog="python -m lessor.cli.demo.site", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--directory", type=Path, required=True, help="where the log and the session secret live")
    parser.add_argument("--port", type=int, default=0, help="0 picks a free one")
    parser.add_argument("--seed-user", action="append", type=_user, metavar="USER:PASSWORD", help="default demo:demo")
    asked = parser.parse_args(arguments)
    die_with_parent()
    signal.pthread_sigmask(signal.SIG_BLOCK, _STOP_SIGNALS)  # before any thread exists, so none is interrupted
    with Site(asked.directory, port=asked.port, users=dict(asked.seed_user or [])) as site:
        print(json.dumps({"port": site.port, "url": site.url}), flush=True)
        signal.sigwait(_STOP_SIGNALS)
    return 0


def _user(text: str) -> tuple[str, str]:
    user, colon, password = text.partition(":")
    if not (user and colon and password):
        raise argparse.ArgumentTypeError("USER:PASSWORD")
    return user, password


if __name__ == "__main__":
    raise SystemExit(main())
