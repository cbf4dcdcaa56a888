"""The keeper's end of its egress process: starting it, opening and closing it, and knowing when it has
closed."""

from __future__ import annotations

import json
import os
import signal
import socket

from lessor.browser.keeper import linux, loop

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import NoReturn

ANSWER_MS_MAX = 1000
ANSWER_BYTES_MAX = 64
BACKLOG = 128


class Outlet:
    """Egress is closed when it starts. `lost(why)` is called when it has died or does not answer: nobody can
    know then what it lets through."""

    def __init__(self, events: loop.Loop, lost: Callable[[str], None]) -> None:
        self._events = events
        self._lost = lost
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=BACKLOG)
        self.port: int = self._listener.getsockname()[1]
        self.pid = 0
        self.is_open = False
        self._orders = 0
        self._unanswered: dict[int, Callable[[], None]] = {}
        self._line, self._its_line = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._timer = linux.BootTimer()

    def start(self) -> None:
        """Fork the process; the caller must have one thread only."""
        keeper = os.getpid()
        self.pid = os.fork()
        if self.pid == 0:
            self._become(keeper)
        self._its_line.close()
        self._listener.close()
        self._line.setblocking(False)
        self._events.watch(os.pidfd_open(self.pid), loop.READ, lambda _events: self._lost("egress_exited"))
        self._events.watch(self._line.fileno(), loop.READ, lambda _events: self._answered())
        self._events.watch(self._timer.fd, loop.READ, lambda _events: self._lost("egress_hung"))

    def open(self, allow_private: Sequence[str], then: Callable[[], None]) -> None:
        """Let traffic pass, to the private `host:port`s named as well; `then` follows when it does."""
        self.is_open = True
        self._order({"open": True, "allow_private": list(allow_private)}, then)

    def close(self, then: Callable[[], None]) -> None:
        """Cut all traffic; `then` follows when it is cut, at once when it already was."""
        if self.is_open or self._unanswered:
            self.is_open = False
            self._order({"open": False}, then)
        else:
            then()

    def _order(self, order: dict[str, object], then: Callable[[], None]) -> None:
        self._orders += 1
        self._unanswered[self._orders] = then
        self._timer.arm(linux.boot_ms() + ANSWER_MS_MAX)
        try:
            self._line.send(json.dumps({"order": self._orders, **order}).encode())
        except OSError:
            self._lost("egress_hung")

    def _answered(self) -> None:
        try:
            number = int(self._line.recv(ANSWER_BYTES_MAX) or b"0")
        except BlockingIOError:
            return
        except OSError:
            number = 0
        then = self._unanswered.pop(number, None)
        if then is None:
            return self._lost("egress_exited")
        if not self._unanswered:
            self._timer.disarm()
        then()

    def _become(self, keeper: int) -> NoReturn:
        try:
            linux.die_with(keeper)
            os.setsid()
            linux.silence()
            for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
                signal.signal(number, signal.SIG_IGN)
            # Imported here, so that only this process pays for it.
            from lessor.browser.keeper.egress.process import serve

            serve(self._listener, self._its_line)
        finally:
            os._exit(1)
