"""The control socket: one JSON object a line, answered by one carrying the same `id`, in any order."""

from __future__ import annotations

import json
import os
import socket
import struct

from lessor.browser.keeper import loop
from lessor.browser.keeper.door import listen

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    Answer = Callable[[Mapping[str, object]], None]

READ_BYTES = 1 << 14
LINE_BYTES_MAX = 1 << 16
PEERS_MAX = 16


class Control:
    """Calls `asked(request, answer)` for each request; the answer may be given later, once."""

    def __init__(self, events: loop.Loop, path: str, asked: Callable[[Mapping[str, Any], Answer], None]) -> None:
        self._events = events
        self._listener = listen(path)
        self._asked = asked
        self._peers: dict[int, tuple[socket.socket, bytearray]] = {}
        events.watch(self._listener.fileno(), loop.READ, self._accept)

    def _accept(self, _events: int) -> None:
        try:
            peer, _ = self._listener.accept()
        except OSError:
            return
        credentials = peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
        if struct.unpack("3i", credentials)[1] not in (os.getuid(), 0):
            return peer.close()
        peer.setblocking(False)
        if len(self._peers) >= PEERS_MAX:
            self._dismiss(next(iter(self._peers)))
        fd = peer.fileno()
        self._peers[fd] = (peer, bytearray())
        self._events.watch(fd, loop.READ, lambda _events: self._read(fd))

    def _dismiss(self, fd: int) -> None:
        peer, _ = self._peers.pop(fd)
        self._events.forget(fd)
        peer.close()

    def _read(self, fd: int) -> None:
        peer, buffer = self._peers[fd]
        try:
            data = peer.recv(READ_BYTES)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        buffer += data
        while (end := buffer.find(b"\n")) >= 0:
            line = bytes(buffer[:end])
            del buffer[: end + 1]
            self._serve(peer, line)
        if not data or len(buffer) > LINE_BYTES_MAX:
            self._dismiss(fd)

    def _serve(self, peer: socket.socket, line: bytes) -> None:
        try:
            request: Mapping[str, Any] = json.loads(line) if line.startswith(b"{") else {}
        except ValueError:
            request = {}
        number: object = request.get("id")
        self._asked(request, lambda answer: _send(peer, {"id": number, **answer}))


def _send(peer: socket.socket, answer: Mapping[str, object]) -> None:
    """A peer that does not take a small answer at once has gone, or does not deserve one."""
    try:
        peer.sendall(json.dumps(answer).encode() + b"\n")
    except OSError:
        pass
