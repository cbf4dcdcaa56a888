"""The door: a private unix socket where a client opens its WebSocket, if it may come in."""

from __future__ import annotations

import os
import socket

from lessor.browser.keeper import loop, websocket

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

HEAD_BYTES_MAX = 16 << 10
WAITING_MAX = 8


def listen(path: str) -> socket.socket:
    """A non-blocking unix socket that only this user may connect to."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)
    before = os.umask(0o177)
    try:
        listener.bind(path)
    finally:
        os.umask(before)
    listener.listen(WAITING_MAX)
    return listener


class Door:
    """`refuse(path)` answers an HTTP status, or None for a client to be let in; `enter` then gets its socket
    and what it has sent already. A browser page carries an Origin and never comes in."""

    def __init__(
        self,
        events: loop.Loop,
        path: str,
        refuse: Callable[[str], str | None],
        enter: Callable[[socket.socket, bytes], None],
    ) -> None:
        self._events = events
        self._listener = listen(path)
        self._refuse = refuse
        self._enter = enter
        self._waiting: dict[int, tuple[socket.socket, bytearray]] = {}
        events.watch(self._listener.fileno(), loop.READ, self._accept)

    def _accept(self, _events: int) -> None:
        try:
            client, _ = self._listener.accept()
        except OSError:
            return
        client.setblocking(False)
        if len(self._waiting) >= WAITING_MAX:
            self._dismiss(next(iter(self._waiting)))
        fd = client.fileno()
        self._waiting[fd] = (client, bytearray())
        self._events.watch(fd, loop.READ, lambda _events: self._read(fd))

    def _dismiss(self, fd: int, answer: bytes = b"") -> None:
        client, _ = self._waiting.pop(fd)
        self._events.forget(fd)
        try:
            client.send(answer)
        except OSError:
            pass
        client.close()

    def _read(self, fd: int) -> None:
        client, head = self._waiting[fd]
        try:
            data = client.recv(HEAD_BYTES_MAX)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        head += data
        end = head.find(b"\r\n\r\n")
        if end >= 0:
            self._decide(fd, client, bytes(head[:end]), bytes(head[end + 4 :]))
        elif not data or len(head) > HEAD_BYTES_MAX:
            self._dismiss(fd)

    def _decide(self, fd: int, client: socket.socket, head: bytes, rest: bytes) -> None:
        try:
            opening = websocket.Opening(head)
            accept = opening.accept()
        except (websocket.Broken, KeyError):
            return self._dismiss(fd, websocket.refusal("400 Bad Request"))
        status = "403 Forbidden" if "origin" in opening.headers else self._refuse(opening.path)
        if status is not None:
            return self._dismiss(fd, websocket.refusal(status))
        self._waiting.pop(fd)
        self._events.forget(fd)
        client.send(accept)
        self._enter(client, rest)
