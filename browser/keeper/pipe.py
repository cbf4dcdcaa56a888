"""Chromium's debugging pipe: messages of JSON, each ended by a NUL.

Two kinds go out: the keeper's own commands, and those of the admitted client. The latter pass a gate right
before they are written, so that nothing queued is sent after the deadline, and are forgotten with their
client.
"""

from __future__ import annotations

import json
from collections import deque

from lessor.browser.keeper import loop

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Mapping
    from typing import Any

READ_BYTES = 1 << 18
UNSENT_BYTES_HIGH = 4 << 20


class Pipe:
    """`received` gets every message that is not an answer to `command`; `drained` is called when a full pipe
    has room again; `closed` when Chromium has hung up."""

    def __init__(
        self,
        events: loop.Loop,
        pipe: socket.socket,
        may_pass: Callable[[], bool],
        passed: Callable[[], None],
        closed: Callable[[], None],
    ) -> None:
        self.received: Callable[[bytes], None] = lambda _message: None
        self.drained: Callable[[], None] = lambda: None
        self._events = events
        self._pipe = pipe
        self._may_pass = may_pass
        self._passed = passed
        self._closed = closed
        self._incoming = bytearray()
        self._queue: deque[tuple[bool, bytes]] = deque()
        self._unsent_bytes = 0
        self._head = memoryview(b"")
        self._head_is_clients = False
        self._reading = True
        self._commands = 0
        self._answers: dict[tuple[str, int], Callable[[Mapping[str, Any]], None]] = {}
        self._watch()

    @property
    def is_full(self) -> bool:
        """Chromium is not keeping up; the client should be held back."""
        return self._unsent_bytes > UNSENT_BYTES_HIGH

    def command(
        self,
        method: str,
        parameters: Mapping[str, object],
        answered: Callable[[Mapping[str, Any]], None],
        session: str = "",
    ) -> None:
        """Send a command of the keeper's own, on the root session unless another is given."""
        self._commands += 1
        self._answers[session, self._commands] = answered
        message = {"id": self._commands, "method": method, "params": parameters}
        if session:
            message["sessionId"] = session
        self._send(False, json.dumps(message).encode())

    def pass_on(self, message: bytes) -> None:
        """Send a client's command, in time or never."""
        self._send(True, message)

    def forget_unsent(self) -> None:
        """Drop what the client has queued, but for the rest of a message that has begun to go out."""
        self._queue = deque(entry for entry in self._queue if not entry[0])
        self._unsent_bytes = len(self._head) + sum(len(message) + 1 for _, message in self._queue)

    def hold(self, on: bool) -> None:
        """Stop reading from Chromium, because nobody takes what it says; or go on."""
        if self._reading is on:
            self._reading = not on
            self._watch()

    def answer(self, message: bytes) -> None:
        """Take what no client is to see: an answer to one of the keeper's own commands, or nothing of
        interest."""
        decoded = json.loads(message)
        answered = self._answers.pop((decoded.get("sessionId", ""), decoded.get("id", 0)), None)
        if answered is not None:
            answered(decoded)

    def _send(self, is_clients: bool, message: bytes) -> None:
        self._queue.append((is_clients, message))
        self._unsent_bytes += len(message) + 1
        self._flush()

    def _flush(self) -> None:
        was_full = self.is_full
        while self._head or self._queue:
            if not self._head:
                self._head_is_clients, message = self._queue.popleft()
                self._head = memoryview(message + b"\0")
            if self._head_is_clients and not self._may_pass():
                return
            try:
                sent = self._pipe.send(self._head)
            except BlockingIOError:
                break
            except OSError:
                return self._closed()
            if self._head_is_clients:
                self._passed()
            self._head = self._head[sent:]
            self._unsent_bytes -= sent
        self._watch()
        if was_full and not self.is_full:
            self.drained()

    def _watch(self) -> None:
        wanted = (loop.READ if self._reading else 0) | (loop.WRITE if self._head or self._queue else 0)
        self._events.watch(self._pipe.fileno(), wanted, self._ready)

    def _ready(self, events: int) -> None:
        if events & loop.WRITE:
            self._flush()
        if events & (loop.READ | loop.BROKEN):
            self._read()

    def _read(self) -> None:
        try:
            data = self._pipe.recv(READ_BYTES)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            return self._closed()
        start = 0
        while (end := data.find(b"\0", start)) >= 0:
            self._incoming += memoryview(data)[start:end]
            message = bytes(self._incoming)
            self._incoming.clear()
            self.received(message)
            start = end + 1
        self._incoming += memoryview(data)[start:]
