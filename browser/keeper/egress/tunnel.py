"""A tunnel: bytes that are not ours to read, but for the record headers of the TLS inside.

A browser sends a request again by itself, POST included, when a connection it did not open just now ends before
the answer begins. Such an end is therefore never passed on: the browser gets a record that does not
authenticate, fails with a protocol error, and leaves it at that. It is told the truth when that is harmless.
"""

from __future__ import annotations

HANDSHAKE, ALERT, APPLICATION_DATA = 22, 21, 23
HEADER_BYTES = 5
RECORD_BYTES_MAX = (1 << 14) + 256
# TLS 1.3 hides an alert among the data, but not its length: two bytes, their type and the seal.
SEALED_ALERT_BYTES = 19
HELLO_BYTES_MAX = 8 << 10
OFFERS_HTTP2 = b"\x02h2"
IS_TLS13 = b"\x00\x2b\x00\x02\x03\x04"
CHOSE_HTTP2 = b"\x00\x10\x00\x05\x00\x03\x02h2"
# Sealed in TLS 1.3: after the handshake's last word, Chromium opens HTTP/2 with a record of 87 bytes, and HTTP/1
# with a request, which has some 500.
HTTP2_OPENING_BYTES_MAX = 200
FORGED = bytes((APPLICATION_DATA, 3, 3, 0, 64)) + bytes(64)


class Records:
    """Follows one direction from record to record."""

    def __init__(self) -> None:
        self._header = b""
        self._left = 0

    @property
    def is_between(self) -> bool:
        """Is the last record whole, and no other begun?"""
        return not self._header and not self._left

    def feed(self, data: bytes) -> list[tuple[int, int]]:
        """Type and length of each record whose header is complete with `data`."""
        begun: list[tuple[int, int]] = []
        at = 0
        while at < len(data):
            if self._left:
                step = min(self._left, len(data) - at)
                self._left -= step
            else:
                step = min(HEADER_BYTES - len(self._header), len(data) - at)
                self._header += data[at : at + step]
                if len(self._header) == HEADER_BYTES:
                    self._left = int.from_bytes(self._header[3:])
                    begun.append((self._header[0], self._left))
                    self._header = b""
            at += step
        return begun

    def spoil(self) -> bytes:
        """What makes the record under way, or the next one, fail to authenticate."""
        if self._left:
            return bytes(self._left)
        return FORGED if not self._header else FORGED[len(self._header) :] + bytes(RECORD_BYTES_MAX)


class Tunnel:
    """What to pass on of what either side says. While `holds_back` something waits for what comes next: an
    alert that would be an answer if it were data. Who waits no longer calls `decide`."""

    greeting = b"HTTP/1.1 200 Connection established\r\n\r\n"
    opening = b""
    is_whole = True

    def __init__(self) -> None:
        self._browser = Records()
        self._server = Records()
        self._browser_hello = bytearray()
        self._server_hello = bytearray()
        self._is_tls = True
        self._asked_bytes: list[int] = []
        self._is_unanswered = False
        self._said_goodbye = False
        self._held = b""

    @property
    def holds_back(self) -> bool:
        return bool(self._held)

    def from_browser(self, data: bytes) -> bytes:
        """What goes to the server: everything."""
        if self._is_tls and len(self._asked_bytes) < 2:
            if len(self._browser_hello) < HELLO_BYTES_MAX and not self._asked_bytes:
                self._browser_hello += data
            self._is_tls = not self._browser_hello or self._browser_hello[0] == HANDSHAKE
            begun = self._browser.feed(data) if self._is_tls else []
            self._asked_bytes += [length for kind, length in begun if kind == APPLICATION_DATA]
        if data and self._asked_bytes:
            self._is_unanswered = True
        return data

    def from_server(self, data: bytes) -> bytes:
        """What goes to the browser: everything, but not an alert in place of an answer."""
        if not self._is_tls or not data:
            return data
        if len(self._server_hello) < HELLO_BYTES_MAX and not self._asked_bytes:
            self._server_hello += data
        may_hold = self._is_unanswered and (self._held or self._server.is_between)
        begun = self._server.feed(data)
        if begun:
            self._said_goodbye = _may_be_alert(*begun[-1])
        if may_hold and all(_may_be_alert(*record) for record in begun):
            self._held += data
            return b""
        return self._release(data)

    def decide(self) -> bytes | None:
        """Nothing followed what is held back: on a WebSocket's connection (which offers no HTTP/2) it is data
        and goes to the browser; elsewhere it must have been an alert, so this answers None: it is over."""
        return None if OFFERS_HTTP2 in self._browser_hello else self._release(b"")

    def end(self, *, is_cut: bool) -> bytes:
        """The last that the browser gets when the server's side is over: nothing, if a plain end is safe. It is
        before there was a request, after an alert that left nothing unanswered, and after an answer of HTTP/1,
        where the end may be the answer's own; HTTP/2 may have other requests under way."""
        if not self._asked_bytes:
            return b""
        is_answered = not self._is_unanswered and (self._said_goodbye or not self._may_be_http2)
        if is_answered and not is_cut:
            return b""
        return FORGED if self._held else self._server.spoil()

    @property
    def _may_be_http2(self) -> bool:
        if OFFERS_HTTP2 not in self._browser_hello:
            return False
        if IS_TLS13 in self._server_hello:
            return not any(length > HTTP2_OPENING_BYTES_MAX for length in self._asked_bytes[1:2])
        return CHOSE_HTTP2 in self._server_hello

    def _release(self, data: bytes) -> bytes:
        held, self._held = self._held, b""
        self._is_unanswered = False
        return held + data


def _may_be_alert(kind: int, length: int) -> bool:
    return kind == ALERT or (kind == APPLICATION_DATA and length == SEALED_ALERT_BYTES)
