"""A small site behind TLS that keeps connections alive and answers every POST by ending the connection."""

from __future__ import annotations

import contextlib
import datetime as dt
import ipaddress
import socket
import ssl
import struct
import threading
from enum import StrEnum, auto
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

PAGE = b"<title>kept</title>"
PREFACE_BYTES = 24
DATA, HEADERS, SETTINGS = 0, 1, 4


class End(StrEnum):
    """How a connection ends: bare, reset, with TLS's goodbye, with a goodbye and no end, or never."""

    FIN = auto()
    RESET = auto()
    GOODBYE = auto()
    GOODBYE_ONLY = auto()
    NEVER = auto()


class Scene:
    """`posts` says for each POST how many requests its connection had carried before."""

    def __init__(self, folder: Path, end: End, *, http2: bool = False, tls12: bool = False) -> None:
        self.posts: list[int] = []
        self.posted = threading.Semaphore(0)
        self._end = end
        self._context = _context(folder)
        self._context.set_alpn_protocols(["h2"] if http2 else ["http/1.1"])
        if tls12:
            self._context.maximum_version = ssl.TLSVersion.TLSv1_2
        self._serve = self._serve_http2 if http2 else self._serve_http1
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.authority = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self._open: list[socket.socket] = []
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self.end_all()
        for thread in self._threads:
            thread.join()
        for sock in (self._listener, *self._open):
            sock.close()

    def end_all(self) -> None:
        """End every connection, as a server does with idle ones."""
        for sock in self._open:
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)

    def _accept(self) -> None:
        while True:
            try:
                plain, _ = self._listener.accept()
            except OSError:
                return
            self._open.append(plain)
            self._threads.append(threading.Thread(target=self._begin, args=(plain,)))
            self._threads[-1].start()

    def _begin(self, plain: socket.socket) -> None:
        with contextlib.suppress(OSError, ValueError):
            sock = self._context.wrap_socket(plain, server_side=True)
            self._open.append(sock)
            self._serve(sock)

    def _serve_http1(self, sock: ssl.SSLSocket) -> None:
        before = 0
        while True:
            head = b""
            while b"\r\n\r\n" not in head:
                data = sock.recv(1 << 16)
                if not data:
                    return
                head += data
            if head.startswith(b"POST"):
                return self._drop(sock, before)
            sock.sendall(
                b"HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: %d\r\n\r\n%b" % (len(PAGE), PAGE)
            )
            before += 1

    def _serve_http2(self, sock: ssl.SSLSocket) -> None:
        """As much of it as one browser needs: an answer of one indexed header, no flow control."""
        sock.sendall(_frame(SETTINGS, 0, 0, b""))
        stream = sock.makefile("rb")
        stream.read(PREFACE_BYTES)
        before = 0
        while header := stream.read(9):
            length, kind, flags, number = int.from_bytes(header[:3]), header[3], header[4], int.from_bytes(header[5:])
            payload = stream.read(length)
            if kind == SETTINGS and not flags & 1:
                sock.sendall(_frame(SETTINGS, 1, 0, b""))
            if kind == HEADERS:
                block = payload[5:] if flags & 0x20 else payload
                if 0x83 in block[:4]:  # :method POST of the static table
                    sock.sendall(_frame(SETTINGS, 0, 0, b""))  # it is not the browser that speaks last
                    return self._drop(sock, before)
                sock.sendall(_frame(HEADERS, 4, number, b"\x88") + _frame(DATA, 1, number, PAGE))
                before += 1

    def _drop(self, sock: ssl.SSLSocket, before: int) -> None:
        self.posts.append(before)
        self.posted.release()
        if self._end in (End.GOODBYE, End.GOODBYE_ONLY):
            sock.setblocking(False)
            with contextlib.suppress(ssl.SSLWantReadError):
                sock.unwrap()
        if self._end in (End.GOODBYE_ONLY, End.NEVER):
            return
        if self._end is End.RESET:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        sock.close()


def _frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    return len(payload).to_bytes(3) + bytes((kind, flags)) + stream.to_bytes(4) + payload


def _context(folder: Path) -> ssl.SSLContext:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "test")])
    now = dt.datetime.now(dt.UTC)
    alternatives = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(alternatives, critical=False)
        .sign(key, hashes.SHA256())
    )
    path = folder / "tls.pem"
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    path.write_bytes(private + certificate.public_bytes(serialization.Encoding.PEM))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(path)
    return context
