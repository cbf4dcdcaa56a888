"""The little HTTP a forward proxy speaks: one request a connection, heads rewritten, bodies passed on."""

from __future__ import annotations

from lessor.browser.keeper.egress.address import split_authority

HEAD_BYTES_MAX = 128 << 10
END = b"\r\n\r\n"
HOP_BY_HOP = ("connection:", "proxy-connection:", "proxy-authorization:", "keep-alive:")


class Refused(Exception):
    """The request gets this status and is not passed on."""

    def __init__(self, status: str) -> None:
        super().__init__(status)
        self.answer = (
            f"HTTP/1.1 {status}\r\nconnection: close\r\ncontent-type: text/plain\r\n"
            f"content-length: {len(status) + 8}\r\n\r\nlessor: {status}"
        ).encode()


class Request:
    """Where a request wants to go. `head` is what to send there, empty for a tunnel; `body_bytes` follow
    it."""

    def __init__(self, head: bytes) -> None:
        first, *lines = head.decode("latin-1").split("\r\n")
        words = first.split(" ")
        if len(words) != 3 or not words[2].startswith("HTTP/1."):
            raise Refused("400 Bad Request")
        method, target, version = words
        self.is_tunnel = method == "CONNECT"
        self.head = b""
        self.body_bytes = 0
        if self.is_tunnel:
            where = split_authority(target)
        else:
            scheme, _, rest = target.partition("://")
            authority, slash, path = rest.partition("/")
            where = split_authority(authority, 80) if scheme.lower() == "http" and "@" not in authority else None
            self.head = _origin_form(f"{method} {slash or '/'}{path} {version}", lines)
            self.body_bytes = _body_bytes(lines)
        if where is None:
            raise Refused("400 Bad Request")
        self.host, self.port = where


def close_after(head: bytes) -> bytes:
    """A response's head that tells the browser to use the connection once: the next request may go
    elsewhere."""
    first, *lines = head.decode("latin-1").split("\r\n")
    return _origin_form(first, lines)


def is_interim(head: bytes) -> bool:
    """A 1xx response, after which the real one comes."""
    return head[9:10] == b"1" and head[9:12] != b"101"


def _origin_form(first: str, lines: list[str]) -> bytes:
    kept = [line for line in lines if not line.lower().startswith(HOP_BY_HOP)]
    return "\r\n".join([first, *kept, "Connection: close", "", ""]).encode("latin-1")


def _body_bytes(lines: list[str]) -> int:
    lengths = {line.partition(":")[2].strip() for line in lines if line.lower().startswith("content-length:")}
    if any(line.lower().startswith("transfer-encoding:") for line in lines):
        raise Refused("411 Length Required")  # no browser sends one over HTTP/1
    if len(lengths) > 1 or not all(length.isascii() and length.isdigit() for length in lengths):
        raise Refused("400 Bad Request")
    return int(lengths.pop()) if lengths else 0
