"""The egress process: it holds its port for the browser's life and serves while the keeper says so."""

from __future__ import annotations

import json
import os
import socket

from lessor.browser.keeper import linux, loop
from lessor.browser.keeper.egress.address import Policy
from lessor.browser.keeper.egress.connection import Connection
from lessor.browser.keeper.egress.peer import is_ours
from lessor.browser.keeper.egress.resolver import Resolver

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

CONNECTIONS_MAX = 256
ORDER_BYTES_MAX = 64 << 10


def serve(listener: socket.socket, line: socket.socket) -> NoReturn:
    """Proxy on `listener` as ordered over `line`, until that ends."""
    _Egress(listener, line).run()
    os._exit(0)


class _Egress:
    def __init__(self, listener: socket.socket, line: socket.socket) -> None:
        self._events = loop.Loop()
        self._listener = listener
        self._line = line
        self._policy: Policy | None = None
        self._resolver = Resolver(self._events)
        self._connections: set[Connection] = set()
        self._timer = linux.BootTimer()
        listener.setblocking(False)
        self._events.watch(listener.fileno(), loop.READ, self._accept)
        self._events.watch(line.fileno(), loop.READ, self._ordered)
        self._events.watch(self._timer.fd, loop.READ, self._give_up)

    def run(self) -> None:
        self._events.run()

    def _ordered(self, _events: int) -> None:
        data = self._line.recv(ORDER_BYTES_MAX)
        if not data:
            os._exit(0)
        order = json.loads(data)
        # Whatever a new order allows, nothing begun under the last one goes on.
        for connection in list(self._connections):
            connection.cut()
        self._policy = Policy(order["allow_private"]) if order["open"] else None
        self._line.send(str(order["order"]).encode())

    def _accept(self, _events: int) -> None:
        try:
            client, _ = self._listener.accept()
        except OSError:
            return
        if self._policy is None or len(self._connections) >= CONNECTIONS_MAX or not is_ours(client):
            return client.close()
        client.setblocking(False)
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection = Connection(
            self._events, client, self._policy, self._resolver, self._arm, self._connections.discard
        )
        self._connections.add(connection)
        self._arm()

    def _arm(self) -> None:
        """One timer for all that are still connecting."""
        ends = [connection.give_up_at_ms for connection in self._connections if connection.give_up_at_ms]
        if ends:
            self._timer.arm(min(ends))

    def _give_up(self, _events: int) -> None:
        self._timer.read()
        now_ms = linux.boot_ms()
        for connection in list(self._connections):
            if 0 < connection.give_up_at_ms <= now_ms:
                connection.give_up()
        self._arm()
