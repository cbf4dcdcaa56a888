"""Whose socket is at the other end of a loopback connection: a port, unlike a file, is open to every user.

The kernel is asked for that one connection (sock_diag, 5 microseconds); where it does not answer, its table of all
connections is read (5 milliseconds and more).
"""

from __future__ import annotations

import os
import socket
import struct

NETLINK_SOCK_DIAG = 4
SOCK_DIAG_BY_FAMILY = 20
NLM_F_REQUEST = 1
ANSWER_BYTES_MAX = 4096
ANSWER_S_MAX = 0.1
LOOPBACK = socket.inet_aton("127.0.0.1")
QUESTION = struct.Struct("=IHHIIBBBBI2s2s4s12x4s12xI8s")  # header, what is asked, which connection
ANSWER = struct.Struct("=IHHII4x48xIIIII")  # header, which connection, its queues, uid, inode
TABLES = (("/proc/net/tcp", b""), ("/proc/net/tcp6", b"0000000000000000FFFF0000"))


def is_ours(client: socket.socket) -> bool:
    """Does the peer belong to this process's user? One that cannot be told, or has gone, does not."""
    try:
        peer, own = client.getpeername()[1], client.getsockname()[1]
        try:
            uid = owner_by_kernel(peer, own)
        except OSError:
            uid = owner_by_table(peer, own)
    except OSError:
        return False
    return uid == os.geteuid()


def owner_by_kernel(peer: int, own: int) -> int | None:
    """The uid at port `peer` of the connection with our port `own`; None when it has closed its socket. OSError when
    there is no such connection, or the kernel does not answer such questions."""
    question = QUESTION.pack(
        *(QUESTION.size, SOCK_DIAG_BY_FAMILY, NLM_F_REQUEST, 1, 0),
        *(socket.AF_INET, socket.IPPROTO_TCP, 0, 0, 0xFFFFFFFF),
        *(peer.to_bytes(2, "big"), own.to_bytes(2, "big"), LOOPBACK, LOOPBACK, 0, b"\xff" * 8),
    )
    with socket.socket(socket.AF_NETLINK, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC, NETLINK_SOCK_DIAG) as kernel:
        kernel.settimeout(ANSWER_S_MAX)
        kernel.send(question)
        answer = kernel.recv(ANSWER_BYTES_MAX)
    if len(answer) < ANSWER.size:
        raise OSError("no such connection, or none that the kernel would tell")
    _, kind, _, _, _, _, _, _, uid, inode = ANSWER.unpack_from(answer)
    if kind != SOCK_DIAG_BY_FAMILY:
        raise OSError("no such connection, or none that the kernel would tell")
    return uid if inode else None  # closed by its owner, a socket counts as root's


def owner_by_table(peer: int, own: int) -> int | None:
    """The same from /proc; None as well when there is no such connection."""
    address = b"%08X" % int.from_bytes(LOOPBACK, "little")
    for table, prefix in TABLES:
        wanted = b" %b%b:%04X %b%b:%04X " % (prefix, address, peer, prefix, address, own)
        with open(table, "rb") as file:
            _, _, entry = file.read().partition(wanted)
        fields = entry.partition(b"\n")[0].split()
        if fields:
            return int(fields[4]) if fields[6] != b"0" else None
    return None
