"""WebSocket, the server's side: opening handshake and frames (RFC 6455), as far as one trusted client needs
them."""

from __future__ import annotations

from binascii import b2a_base64

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from hashlib import sha1
else:
    try:  # hashlib would bring OpenSSL along, a megabyte per keeper
        from _sha1 import sha1
    except ImportError:
        from hashlib import sha1

MESSAGE_BYTES_MAX = 64 << 20
GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
CONTINUATION, TEXT, BINARY, CLOSE, PING, PONG = 0, 1, 2, 8, 9, 10


class Broken(Exception):
    """The peer broke the protocol, exceeded a bound, or said goodbye."""


class Opening:
    """The request that opens a connection. Header names are lower case."""

    def __init__(self, head: bytes) -> None:
        first, *lines = head.decode("latin-1").split("\r\n")
        words = first.split(" ")
        if len(words) != 3 or words[0] != "GET":
            raise Broken("not a GET request")
        self.path = words[1]
        self.headers: dict[str, str] = {}
        for line in lines:
            name, _, value = line.partition(":")
            self.headers[name.strip().lower()] = value.strip()

    def accept(self) -> bytes:
        """The answer that turns the connection into a WebSocket."""
        key = self.headers["sec-websocket-key"].encode("latin-1")
        accept = b2a_base64(sha1(key + GUID, usedforsecurity=False).digest(), newline=False)
        return (
            b"HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nconnection: Upgrade\r\n"
            b"sec-websocket-accept: " + accept + b"\r\n\r\n"
        )


def refusal(status: str) -> bytes:
    """The answer to a request that is not let in."""
    return f"HTTP/1.1 {status}\r\nconnection: close\r\ncontent-length: 0\r\n\r\n".encode()


def header(kind: int, length: int) -> bytes:
    """What precedes an unmasked payload of that length."""
    if length < 126:
        return bytes((0x80 | kind, length))
    if length < 1 << 16:
        return bytes((0x80 | kind, 126)) + length.to_bytes(2, "big")
    return bytes((0x80 | kind, 127)) + length.to_bytes(8, "big")


class Frames:
    """Turns received bytes into whole messages."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._fragments = bytearray()

    def feed(self, data: bytes) -> Iterator[tuple[int, bytes]]:
        """(kind, payload) of each message or control frame completed by `data`; raises `Broken`."""
        self._buffer += data
        while (frame := self._next()) is not None:
            final, kind, payload = frame
            if kind == CLOSE:
                raise Broken("closed")
            if kind in (PING, PONG):
                yield kind, payload
                continue
            self._fragments += payload
            if len(self._fragments) > MESSAGE_BYTES_MAX:
                raise Broken("message too large")
            if final:
                message = bytes(self._fragments)
                self._fragments.clear()
                yield TEXT, message

    def _next(self) -> tuple[bool, int, bytes] | None:
        buffer = self._buffer
        if len(buffer) < 2:
            return None
        length, start = buffer[1] & 0x7F, 2
        if not buffer[1] & 0x80:
            raise Broken("a client's frames are masked")
        if length >= 126:
            start = 4 if length == 126 else 10
            if len(buffer) < start:
                return None
            length = int.from_bytes(buffer[2:start], "big")
        if length > MESSAGE_BYTES_MAX:
            raise Broken("frame too large")
        end = start + 4 + length
        if len(buffer) < end:
            return None
        payload = _unmask(buffer[start : start + 4], buffer[start + 4 : end])
        final, kind = bool(buffer[0] & 0x80), buffer[0] & 0x0F
        del buffer[:end]
        return final, kind, payload


def _unmask(mask: bytearray, payload: bytearray) -> bytes:
    """One big number xor another is the fastest way the standard library knows."""
    length = len(payload)
    key = (bytes(mask) * (length // 4 + 1))[:length]
    return (int.from_bytes(payload, "little") ^ int.from_bytes(key, "little")).to_bytes(length, "little")
