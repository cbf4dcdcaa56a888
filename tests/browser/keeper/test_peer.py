"""The egress port is on loopback, where every user of the machine can knock; only its own is let in."""

from __future__ import annotations

import asyncio
import ctypes
import os
import socket
from collections.abc import Generator
from contextlib import closing, contextmanager

import pytest

from lessor.browser.keeper.egress import peer
from tests.browser.keeper.bench import Bench, Site

NOBODY = 65534


@contextmanager
def as_nobody() -> Generator[None]:
    """Sockets made in here, by this thread, are another user's."""
    if os.geteuid() != 0:
        pytest.skip("only root can make another user's socket")
    libc = ctypes.CDLL(None)
    libc.setfsuid(NOBODY)
    try:
        yield
    finally:
        libc.setfsuid(os.geteuid())


def connect(listener: socket.socket, family: socket.AddressFamily) -> tuple[socket.socket, socket.socket]:
    sock = socket.socket(family)
    port = listener.getsockname()[1]
    sock.connect(("::ffff:127.0.0.1" if family is socket.AF_INET6 else "127.0.0.1", port))
    return sock, listener.accept()[0]


@pytest.mark.parametrize("family", [socket.AF_INET, socket.AF_INET6])
def test_kernel_and_table_agree_on_whose_a_connection_is(family: socket.AddressFamily) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        own = listener.getsockname()[1]
        sock, accepted = connect(listener, family)
        with sock, accepted:
            number = accepted.getpeername()[1]
            assert peer.owner_by_kernel(number, own) == peer.owner_by_table(number, own) == os.geteuid()
            assert peer.is_ours(accepted)
            sock.close()
            assert not peer.is_ours(accepted), "who has gone cannot be told"


def test_another_users_connection_is_not_ours() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        own = listener.getsockname()[1]
        with as_nobody():
            sock, accepted = connect(listener, socket.AF_INET)
        with sock, accepted:
            number = accepted.getpeername()[1]
            assert peer.owner_by_kernel(number, own) == peer.owner_by_table(number, own) == NOBODY
            assert not peer.is_ours(accepted)


@pytest.mark.asyncio(loop_scope="session")
async def test_the_egress_port_lets_no_other_user_in(bench: Bench, site: Site) -> None:
    keeper = await bench.launch()
    admitted = await bench.admit(keeper)
    await bench.connect(admitted.ws_url)
    assert await keeper.egress(1, True, [site.authority]) is True
    request = f"GET http://{site.authority}/ HTTP/1.1\r\nhost: x\r\n\r\n".encode()

    async def ask(sock: socket.socket) -> bytes:
        sock.setblocking(False)
        loop = asyncio.get_running_loop()
        await loop.sock_connect(sock, ("127.0.0.1", admitted.egress_port))
        try:
            await loop.sock_sendall(sock, request)
            return await asyncio.wait_for(loop.sock_recv(sock, 4096), 5)
        except ConnectionError:
            return b""

    with closing(socket.socket()) as own:
        assert (await ask(own)).startswith(b"HTTP/1.1 200 ")
    with as_nobody():
        foreign = socket.socket()
    with closing(foreign):
        assert await ask(foreign) == b""
    assert len(site.requests) == 1
