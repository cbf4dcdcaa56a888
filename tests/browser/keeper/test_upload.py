"""F03, the POST's half: a host that sleeps while its page uploads through the egress."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import signal
import socket
import struct
import sys
import termios
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest
import pytest_asyncio

from tests.browser.keeper.bench import Bench, exited, stop

pytestmark = pytest.mark.asyncio(loop_scope="session")

BODY_BYTES = 24 << 20  # more than all buffers on the way hold
RECEIVE_BYTES_MAX = 256 << 10
TTL_MS = 4000
TOP = Path(__file__).parents[3]
HOST = f"""
import asyncio, sys
from tests.browser.keeper.bench import RawClient
async def main():
    print("up", flush=True)
    raw = await RawClient.open(sys.stdin.readline().strip())
    session = await raw.attach()
    print("attached", flush=True)
    sys.stdin.readline()
    for number, method, parameters in (
        (3, "Page.navigate", {{"url": sys.argv[1]}}),
        (4, "Runtime.evaluate", {{"expression": "fetch('/', {{method: 'POST', body: 'x'.repeat({BODY_BYTES})}})"}}),
    ):
        raw.send({{"id": number, "method": method, "params": parameters, "sessionId": session}})
        await raw.receive(lambda message: message.get("id") == number)
    await asyncio.sleep(60)
asyncio.run(main())
"""


class Slow:
    """A site that answers GETs, and of a POST reads the beginning only, until it is told to go on."""

    def __init__(self) -> None:
        self.posts: list[socket.socket] = []
        self.posted = asyncio.Event()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BYTES_MAX)
        self._listener.setblocking(False)
        self._serving = asyncio.create_task(self._serve())

    @property
    def authority(self) -> str:
        return f"127.0.0.1:{self._listener.getsockname()[1]}"

    async def _serve(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            sock, _ = await loop.sock_accept(self._listener)
            head = await loop.sock_recv(sock, 4096)
            if head.startswith(b"POST"):
                self.posts.append(sock)
                self.posted.set()
            else:
                await loop.sock_sendall(sock, b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")
                sock.close()

    def arrived_bytes(self) -> int:
        """How much of the body lies in this machine's kernel, read by nobody."""
        return int(struct.unpack("i", fcntl.ioctl(self.posts[0], termios.FIONREAD, bytes(4)))[0])

    async def rest(self) -> int:
        """Read on to the end, which has to be a reset; answers how much that was."""
        loop = asyncio.get_running_loop()
        total = 0
        try:
            while data := await asyncio.wait_for(loop.sock_recv(self.posts[0], 1 << 20), 5):
                total += len(data)
        except ConnectionResetError:
            return total
        raise AssertionError("it ended as if it were whole")

    async def close(self) -> None:
        self._serving.cancel()
        await asyncio.wait([self._serving])
        for sock in (self._listener, *self.posts):
            sock.close()


@pytest_asyncio.fixture(loop_scope="session")
async def slow() -> AsyncIterator[Slow]:
    slow = Slow()
    yield slow
    await slow.close()


async def superseded(bench: Bench) -> None:
    assert (await bench.admit(bench.keepers[0], epoch=3)).epoch == 3


async def past_its_deadline(bench: Bench) -> None:
    await exited(bench.keepers[0].pid, 2 * TTL_MS / 1000)
    assert bench.record(bench.keepers[0])["why"] == "deadline"


@pytest.mark.parametrize("ending", [superseded, past_its_deadline])
async def test_f03_nothing_of_a_post_goes_out_once_its_host_is_out(
    bench: Bench, slow: Slow, ending: Callable[[Bench], Awaitable[None]]
) -> None:
    keeper = await bench.launch()
    host = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", HOST, f"http://{slow.authority}/"),
        env={**os.environ, "PYTHONPATH": str(TOP)},
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    assert host.stdin is not None
    assert host.stdout is not None
    try:
        assert await host.stdout.readline() == b"up\n"
        admitted = await bench.admit(keeper, epoch=2, ttl_ms=TTL_MS)
        host.stdin.write(f"{admitted.ws_url}\n".encode())
        assert await host.stdout.readline() == b"attached\n"
        assert await keeper.egress(2, True, [slow.authority]) is True
        host.stdin.write(b"go\n")
        await asyncio.wait_for(slow.posted.wait(), 5)
        stop(host.pid)

        await ending(bench)
        arrived = slow.arrived_bytes()
        os.kill(host.pid, signal.SIGCONT)
        assert 0 < arrived < BODY_BYTES
        assert await slow.rest() == arrived
        assert len(slow.posts) == 1
    finally:
        with contextlib.suppress(ProcessLookupError):
            host.kill()
        await host.communicate()
