"""One connection of the browser and the one it leads to."""

from __future__ import annotations

import errno
import socket
import struct

from lessor.browser.keeper import linux, loop
from lessor.browser.keeper.egress import http
from lessor.browser.keeper.egress.address import parse
from lessor.browser.keeper.egress.exchange import Exchange
from lessor.browser.keeper.egress.side import BUFFER_BYTES_MAX, Side
from lessor.browser.keeper.egress.tunnel import Tunnel

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from lessor.browser.keeper.egress.address import Policy
    from lessor.browser.keeper.egress.resolver import Resolver

CONNECT_MS_MAX = 5000
FAREWELL_MS_MAX = 10_000
HOLD_MS_MAX = 1000
# Closing discards what the kernel has not sent yet, also when this process is killed.
DISCARD = struct.pack("ii", 1, 0)


class Connection:
    """Reads one request, resolves and checks its host, connects to the very address it checked, then passes on
    what its exchange or tunnel says until both sides have ended. `bounded()` is called when `give_up_at_ms` has
    changed (0: no bound), and `gone(self)` once, when it is over."""

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
        self._request: http.Request | None = None
        self._passage: Exchange | Tunnel | None = None
        self._addresses: list[str] = []
        self._parting = False
        self._over = False
        self.give_up_at_ms = linux.boot_ms() + CONNECT_MS_MAX
        events.watch(client.fileno(), loop.READ, self._client_ready)

    def cut(self) -> None:
        """Nothing more goes out from here on; the browser is told so."""
        self._part(is_cut=True)

    def give_up(self) -> None:
        """The bound has passed."""
        if self._passage is None and self._request is not None:
            return self._refuse("504 Not Reachable In Time")
        if self._parting or self._passage is None or not self._passage.holds_back:
            return self.close()
        assert isinstance(self._passage, Tunnel)
        passed = self._passage.decide()
        if passed is None:
            return self._part(is_cut=False)
        self.give_up_at_ms = 0
        self._client.outgoing += passed
        self._pump()

    def close(self) -> None:
        """Close both sides at once."""
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
        data = self._client.receive()
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
            return self._answer(refused)
        del self._head[: end + len(http.END)]
        self._request = request
        self._give_up_in(CONNECT_MS_MAX)
        self._events.forget(self._client.sock.fileno())
        if parse(request.host) is not None:
            self._resolved([request.host])
        else:
            self._resolver.resolve(request.host, self._resolved)

    def _resolved(self, addresses: list[str]) -> None:
        if self._over or self._parting or self._request is None:
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
        self._events.watch(sock.fileno(), loop.WRITE, lambda _events: self._connected())

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
        self.give_up_at_ms = 0
        self._passage = Tunnel() if request.is_tunnel else Exchange(request)
        self._client.outgoing += self._passage.greeting
        self._server.outgoing += self._passage.opening
        rest = bytes(self._head)
        self._head.clear()
        self._from_client(rest)
        self._pump()

    def _refuse(self, status: str) -> None:
        self._answer(http.Refused(status))

    def _answer(self, refused: http.Refused) -> None:
        """Nothing has gone out, nothing will."""
        self._client.outgoing += refused.answer
        self._leave_server()

    # With a server

    def _client_ready(self, events: int) -> None:
        if self._parting:
            self._client.receive()  # what it still sends, nobody wants
        elif self._passage is None:
            return self._read_head()
        elif events & (loop.READ | loop.BROKEN):
            self._from_client(self._client.receive())
        self._pump()

    def _server_ready(self, events: int) -> None:
        if self._server is not None and events & (loop.READ | loop.BROKEN):
            self._from_server(self._server.receive())
        self._pump()

    def _from_client(self, data: bytes) -> None:
        if self._server is None or self._passage is None:
            return
        try:
            passed = self._passage.from_browser(data)
        except http.Refused as refused:
            return self._answer(refused)
        if not self._server.broken:
            self._server.outgoing += passed

    def _from_server(self, data: bytes) -> None:
        assert self._passage is not None
        held_back = self._passage.holds_back
        try:
            self._client.outgoing += self._passage.from_server(data)
        except http.Refused as refused:
            return self._answer(refused)
        if self._passage.holds_back is not held_back:
            self.give_up_at_ms = 0 if held_back else linux.boot_ms() + HOLD_MS_MAX
            self._bounded()

    def _part(self, *, is_cut: bool) -> None:
        """The server's side is over, or has to be. What the browser gets last keeps it from asking again."""
        if self._passage is None:
            return self.close()
        if not self._parting:
            self._client.outgoing += self._passage.end(is_cut=is_cut)
            self._leave_server()

    def _leave_server(self) -> None:
        """Go on with the browser alone, until it has taken what there is and closed its side: to close with
        bytes of its unread would be a reset."""
        self._parting = True
        server, self._server = self._server, None
        if server is not None:
            self._events.forget(server.sock.fileno())
            server.sock.close()
        self._give_up_in(FAREWELL_MS_MAX)
        self._pump()

    def _pump(self) -> None:
        client, server = self._client, self._server
        if self._over:
            return
        client.flush()
        if client.broken or (self._parting and client.ended):
            return self.close()
        if server is None:
            if not client.outgoing:
                client.shut_down()
            return self._watch(client, None, self._client_ready)
        server.flush()
        if server.ended:
            return self._part(is_cut=server.broken)
        if client.ended and self._passage is not None and not self._passage.is_whole:
            return self.close()  # half a request is none
        if client.ended and not server.outgoing and not server.shut:
            server.shut_down()
            self._give_up_in(FAREWELL_MS_MAX)
        self._watch(client, server.outgoing, self._client_ready)
        self._watch(server, client.outgoing, self._server_ready)

    def _watch(self, side: Side, onward: bytearray | None, ready: Callable[[int], None]) -> None:
        reads = not side.ended and (onward is None or len(onward) < BUFFER_BYTES_MAX)
        wanted = (loop.READ if reads else 0) | (loop.WRITE if side.outgoing else 0)
        if wanted:
            self._events.watch(side.sock.fileno(), wanted, ready)
        else:
            self._events.forget(side.sock.fileno())
