"""One of a connection's two sockets, and what waits to be sent to it."""

from __future__ import annotations

import socket

BUFFER_BYTES_MAX = 64 << 10


class Side:
    """`ended`: it sends nothing more; `shut`: we have told it so for the other; `broken`: it was reset."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.outgoing = bytearray()
        self.ended = False
        self.shut = False
        self.broken = False

    def receive(self) -> bytes:
        """What there is; nothing when it has ended, or there is nothing yet."""
        if self.ended:
            return b""
        try:
            data = self.sock.recv(BUFFER_BYTES_MAX)
        except BlockingIOError:
            return b""
        except OSError:
            self.broken = True
            data = b""
        self.ended = not data
        return data

    def flush(self) -> None:
        """Send what it takes now. What a broken one said before can still be received."""
        try:
            while self.outgoing:
                sent = self.sock.send(self.outgoing)
                del self.outgoing[:sent]
        except BlockingIOError:
            pass
        except OSError:
            self.broken = True
            self.outgoing.clear()

    def shut_down(self) -> None:
        """Tell it, once, that nothing more comes."""
        if not self.shut:
            self.shut = True
            try:
                self.sock.shutdown(socket.SHUT_WR)
            except OSError:
                self.broken = True
