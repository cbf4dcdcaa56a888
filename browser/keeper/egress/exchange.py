"""One request without TLS, and its answer: heads rewritten, bodies passed on, an answer in every case.

A browser that did not open a connection just now (it may have opened it ahead, too) takes a close without an
answer for an accident of idle connections and sends its request again, POST included. So whatever becomes of
the request, it is answered once, and its connection is used once.
"""

from __future__ import annotations

from lessor.browser.keeper.egress import http


class Exchange:
    """What to pass on of what either side says. `greeting` opens towards the browser, `opening` towards the
    server."""

    greeting = b""
    holds_back = False

    def __init__(self, request: http.Request) -> None:
        self.opening = request.head
        self._body_left = request.body_bytes
        self._head = bytearray()
        self._is_answered = False

    @property
    def is_whole(self) -> bool:
        """Has the browser sent all of its request?"""
        return self._body_left == 0

    def from_browser(self, data: bytes) -> bytes:
        """What goes to the server. A second request does not: this connection leads to the first one's host."""
        if len(data) > self._body_left:
            raise http.Refused("400 One Request Only")
        self._body_left -= len(data)
        return data

    def from_server(self, data: bytes) -> bytes:
        """What goes to the browser: nothing until the head of a response is whole."""
        if self._is_answered:
            return data
        self._head += data
        passed = b""
        while not self._is_answered and (end := self._head.find(http.END)) >= 0:
            head = bytes(self._head[:end])
            del self._head[: end + len(http.END)]
            self._is_answered = not http.is_interim(head)
            passed += http.close_after(head) if self._is_answered else head + http.END
        if self._is_answered:
            passed += self._head
        elif len(self._head) > http.HEAD_BYTES_MAX:
            raise http.Refused("502 Response Header Too Large")
        return passed

    def end(self, *, is_cut: bool) -> bytes:
        """The last that the browser gets when the server's side is over."""
        if self._is_answered:
            return b""
        return http.Refused("503 Egress Closed" if is_cut else "502 No Answer").answer
