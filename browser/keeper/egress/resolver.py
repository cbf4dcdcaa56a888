"""Names to addresses, off the loop: the system's resolver blocks."""

from __future__ import annotations

import os
import queue
import socket
import threading

from lessor.browser.keeper import loop

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

THREADS_MAX = 8
STACK_BYTES = 256 << 10
ADDRESSES_MAX = 8


class Resolver:
    """Calls back on the loop with the addresses of a name, none when it has none. Threads start when
    needed."""

    def __init__(self, events: loop.Loop) -> None:
        self._asked: queue.SimpleQueue[tuple[str, Callable[[list[str]], None]]] = queue.SimpleQueue()
        self._found: queue.SimpleQueue[tuple[list[str], Callable[[list[str]], None]]] = queue.SimpleQueue()
        self._bell_out, self._bell_in = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self._threads = 0
        self._under_way = 0
        threading.stack_size(STACK_BYTES)
        events.watch(self._bell_out, loop.READ, self._deliver)

    def resolve(self, name: str, then: Callable[[list[str]], None]) -> None:
        """Ask for a name; whoever asks keeps the time."""
        self._under_way += 1
        if self._threads < min(self._under_way, THREADS_MAX):
            self._threads += 1
            threading.Thread(target=self._work, daemon=True).start()
        self._asked.put((name, then))

    def _work(self) -> None:
        while True:
            name, then = self._asked.get()
            try:
                # Bytes, since a str would be taken through IDNA, whose tables are large; Chromium has done
                # that.
                found = socket.getaddrinfo(name.encode("ascii"), None, type=socket.SOCK_STREAM)
            except (OSError, UnicodeError):
                found = []
            addresses = list(dict.fromkeys(str(entry[4][0]) for entry in found))
            self._found.put((addresses[:ADDRESSES_MAX], then))
            try:
                os.write(self._bell_in, b"!")
            except BlockingIOError:
                pass

    def _deliver(self, _events: int) -> None:
        os.read(self._bell_out, 4096)
        while not self._found.empty():
            addresses, then = self._found.get()
            self._under_way -= 1
            then(addresses)
