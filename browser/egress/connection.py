"""One connection of the browser and the one it leads to."""

from __future__ import annotations

import errno
import socket
import struct

from lessor.browser.egress import http
from lessor.browser.egress.address import parse
from lessor.browser.keeper import linux, loop

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from lessor.browser.egress.address import Policy
    from lessor.browser.egress.resolver import Resolver

BUFFER_BYTES_MAX = 64 << 10
CONNECT_MS_MAX = 5000
FAREWELL_MS_MAX = 10_000
ESTABLISHED = b"HTTP/1.1 200 Connection established\r\n\r\n"
# Closing discards what the kernel has not sent yet, also when this process is killed.
DISCARD = struct.pack("ii", 1, 0)


class Side:
    """A socket and what waits to be sent to it."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.outgoing = bytearray()
        self.ended = False  # it sends nothing more
        self.shut = False  # we have told it so for the other


class Connection:
    """Reads one request, resolves and checks its host, connects to the very address it checked, then passes
    bytes on until both sides have ended. `bounded()` is called when `give_up_at_ms` has changed (0: no
    bound), and `gone(self)` once, when it is over."""

    def __init__(
        self,
        events: loop.Loop,
        client: socket.socket,
        policy: Policy,
        resolver: Resolver,
        bounded: Callable[[], None],
        gone: Callable[[Connection], None],
    ) -> None:
        self._events = events
        self._policy = policy
        self._resolver = resolver
        self._bounded = bounded
        self._gone = gone
        self._client = Side(client)
        self._server: Side | None = None
        self._head = bytearray()
        self._response_head: bytearray | None = None
        self._request: http.Request | None = None
        self._body_left: int | None = None
        self._addresses: list[str] = []
        self._connecting = False
        self._over = False
        self.give_up_at_ms = linux.boot_ms() + CONNECT_MS_MAX
        events.watch(client.fileno(), loop.READ, self._client_ready)

    def close(self) -> None:
        """Cut both sides at once; nothing more goes out."""
        if self._over:
            return
        self._over = True
        for side in (self._client, self._server):
            if side is not None:
                self._events.forget(side.sock.fileno())
                side.sock.close()
        self._gone(self)

    def _give_up_in(self, bound_ms: int) -> None:
        self.give_up_at_ms = linux.boot_ms() + bound_ms
        self._bounded()

    # Before there is a server

    def _read_head(self) -> None:
        data = self._receive(self._client)
        if not data:
            return self.close() if self._client.ended else None
        self._head += data
        end = self._head.find(http.END)
        if end < 0:
            if len(self._head) > http.HEAD_BYTES_MAX:
                self._refuse("431 Request Header Fields Too Large")
            return
        try:
            request = http.Request(bytes(self._head[:end]))
        except http.Refused as refused:
            return self._answer(refused.answer)
        del self._head[: end + len(http.END)]
        self._request = request
        self._give_up_in(CONNECT_MS_MAX)
        self._events.forget(self._client.sock.fileno())
        if parse(request.host) is not None:
            self._resolved([request.host])
        else:
            self._resolver.resolve(request.host, self._resolved)

    def _resolved(self, addresses: list[str]) -> None:
        if self._over or self._request is None:
            return
        if not addresses:
            return self._refuse("502 Name Not Resolved")
        host, port = self._request.host, self._request.port
        parsed = [address for text in addresses if (address := parse(text)) is not None]
        self._addresses = [str(address) for address in parsed if self._policy.permits(host, port, address)]
        if not self._addresses:
            return self._refuse("403 Address Refused")
        self._connect()

    def _connect(self) -> None:
        """Try the next address that was checked."""
        assert self._request is not None
        if not self._addresses:
            return self._refuse("502 Not Reachable")
        address = self._addresses.pop(0)
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        sock = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, DISCARD)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._server = Side(sock)
        error = sock.connect_ex((address, self._request.port))
        if error not in (0, errno.EINPROGRESS):
            return self._try_next()
        self._connecting = True
        self._events.watch(sock.fileno(), loop.WRITE, self._server_ready)

    def _try_next(self) -> None:
        assert self._server is not None
        self._events.forget(self._server.sock.fileno())
        self._server.sock.close()
        self._server = None
        self._connect()

    def _connected(self) -> None:
        assert self._server is not None
        assert self._request is not None
        sock, request = self._server.sock, self._request
        if sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
            return self._try_next()
        own, peer = sock.getsockname()[0], sock.getpeername()[0]
        if own == peer and not self._policy.permits_own(request.host, request.port):
            return self._refuse("403 Address Refused")  # a public address, but this machine's
        self._connecting = False
        self.give_up_at_ms = 0
        if request.is_tunnel:
            self._client.outgoing += ESTABLISHED
        else:
            self._server.outgoing += request.head
            self._body_left = request.body_bytes
            self._response_head = bytearray()
        rest = bytes(self._head)
        self._head.clear()
        self._from_client(rest)
        self._pump()

    def _refuse(self, status: str) -> None:
        self._answer(http.Refused(status).answer)

    def _answer(self, answer: bytes) -> None:
        try:
            self._client.sock.send(answer)
            self._client.sock.shutdown(socket.SHUT_WR)
        except OSError:
            pass
        self.close()

    # With a server

    def _client_ready(self, events: int) -> None:
        if self._request is None:
            return self._read_head()
        if events & (loop.READ | loop.BROKEN):
            self._from_client(self._receive(self._client))
        self._pump()

    def _server_ready(self, events: int) -> None:
        if self._connecting:
            return self._connected()
        if self._server is not None and events & (loop.READ | loop.BROKEN):
            self._from_server(self._receive(self._server))
        self._pump()

    def _from_client(self, data: bytes) -> None:
        if self._server is None or self._over:
            return
        if self._body_left is not None:
            if len(data) > self._body_left:  # a second request: this connection leads to the first one's host only
                return self.close()
            self._body_left -= len(data)
        self._server.outgoing += data

    def _from_server(self, data: bytes) -> None:
        if self._response_head is None:
            self._client.outgoing += data
            return
        self._response_head += data
        while (end := self._response_head.find(http.END)) >= 0:
            head = bytes(self._response_head[:end])
            del self._response_head[: end + len(http.END)]
            if http.is_interim(head):
                self._client.outgoing += head + http.END
                continue
            self._client.outgoing += http.close_after(head) + self._response_head
            self._response_head = None
            return
        if len(self._response_head) > http.HEAD_BYTES_MAX or (self._server is not None and self._server.ended):
            self.close()

    def _receive(self, side: Side) -> bytes:
        if self._over or side.ended:
            return b""
        try:
            data = side.sock.recv(BUFFER_BYTES_MAX)
        except BlockingIOError:
            return b""
        except OSError:
            self.close()
            return b""
        side.ended = not data
        return data

    def _pump(self) -> None:
        server = self._server
        if self._over or server is None or not (self._flush(self._client) and self._flush(server)):
            return
        for side, other in ((self._client, server), (server, self._client)):
            if side.ended and not other.outgoing and not other.shut:
                other.shut = True
                try:
                    other.sock.shutdown(socket.SHUT_WR)
                except OSError:
                    return self.close()
                self._give_up_in(FAREWELL_MS_MAX)
        if server.ended and not self._client.outgoing:
            return self.close()  # nothing more can reach the browser
        self._watch(self._client, server, self._client_ready)
        self._watch(server, self._client, self._server_ready)

    def _flush(self, side: Side) -> bool:
        try:
            while side.outgoing:
                sent = side.sock.send(side.outgoing)
                del side.outgoing[:sent]
        except BlockingIOError:
            pass
        except OSError:
            self.close()
            return False
        return True

    def _watch(self, side: Side, other: Side, ready: Callable[[int], None]) -> None:
        reads = not side.ended and len(other.outgoing) < BUFFER_BYTES_MAX
        wanted = (loop.READ if reads else 0) | (loop.WRITE if side.outgoing else 0)
        if wanted:
            self._events.watch(side.sock.fileno(), wanted, ready)
        else:
            self._events.forget(side.sock.fileno())
