"""Real Chromium behind real keepers, one site, and a client that speaks raw frames."""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

from lessor.browser.keeper import client, linux, state

SECRET = "s3cret"
TTL_MS = 30_000


async def exited(pid: int, within_s: float = 2.0) -> None:
    """Wait until that process has ended; `TimeoutError` when it has not in time."""
    loop = asyncio.get_running_loop()
    try:
        fd = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    ended = asyncio.Event()
    loop.add_reader(fd, ended.set)
    try:
        await asyncio.wait_for(ended.wait(), within_s)
    finally:
        loop.remove_reader(fd)
        os.close(fd)


class Bench:
    """Starts keepers and sees to it that none outlives its test."""

    def __init__(self, root: Path, chromium: Path) -> None:
        self.root = root
        self.chromium = chromium
        self.keepers: list[client.Keeper] = []
        self.clients: list[RawClient] = []

    def spec(self, epoch: int = 1, ttl_ms: int = TTL_MS, **changes: Any) -> client.KeeperSpec:
        return client.KeeperSpec(
            directory=self.root / secrets.token_hex(3),
            chromium=changes.pop("chromium", self.chromium),
            epoch=epoch,
            until_ms=linux.boot_ms() + ttl_ms,
            secret=SECRET,
            sandbox=changes.pop("sandbox", os.geteuid() != 0),
            **changes,
        )

    async def launch(self, epoch: int = 1, ttl_ms: int = TTL_MS, **changes: Any) -> client.Keeper:
        keeper = await client.launch(self.spec(epoch, ttl_ms, **changes))
        self.keepers.append(keeper)
        return keeper

    async def admit(self, keeper: client.Keeper, epoch: int = 1, ttl_ms: int = TTL_MS) -> client.Admitted:
        admitted = await keeper.admit(epoch, SECRET, linux.boot_ms() + ttl_ms)
        assert isinstance(admitted, client.Admitted)
        return admitted

    async def connect(self, ws_url: str, extra: str = "") -> RawClient:
        raw = await RawClient.open(ws_url, extra)
        self.clients.append(raw)
        return raw

    def files(self, keeper: client.Keeper) -> list[str]:
        """What lies in its directory."""
        return sorted(path.name for path in keeper.directory.iterdir())

    def record(self, keeper: client.Keeper) -> state.State:
        record = state.read(str(keeper.directory))
        assert record is not None
        return record

    def tree(self, keeper: client.Keeper) -> list[int]:
        return state.living(self.record(keeper))

    async def end(self) -> None:
        for raw in self.clients:
            raw.writer.close()
        for keeper in self.keepers:
            for pid in self.tree(keeper):
                os.kill(pid, signal.SIGCONT)
            await keeper.kill(1 << 60)
            await keeper.close()
            assert not self.tree(keeper)


class Site:
    """A site that keeps what it was asked, and counts."""

    def __init__(self) -> None:
        self.requests: list[str] = []
        self.changed = asyncio.Condition()
        self.port = 0

    @property
    def authority(self) -> str:
        return f"127.0.0.1:{self.port}"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            length = [line for line in head.split("\r\n") if line.lower().startswith("content-length:")]
            body = await reader.readexactly(int(length[0].split(":")[1])) if length else b""
            async with self.changed:
                self.requests.append(head.split("\r\n")[0] + (f" {body.decode()}" if body else ""))
                self.changed.notify_all()
            page = b"<title>site</title><p>hello"
            writer.write(
                b"HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: %d\r\n\r\n%b" % (len(page), page)
            )
            await writer.drain()
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    async def asked(self, times: int) -> None:
        """Wait until it has been asked that often."""
        async with self.changed:
            await asyncio.wait_for(self.changed.wait_for(lambda: len(self.requests) >= times), 5)


class RawClient:
    """A WebSocket client that sends whatever it is told, and never waits for answers unless asked to."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, status: int) -> None:
        self.reader = reader
        self.writer = writer
        self.status = status

    @classmethod
    async def open(cls, ws_url: str, extra: str = "") -> RawClient:
        place, _, path = ws_url.removeprefix("ws+unix://").partition(":")
        reader, writer = await asyncio.open_unix_connection(place, limit=1 << 24)
        writer.write(
            f"GET {path} HTTP/1.1\r\nhost: x\r\nupgrade: websocket\r\nconnection: Upgrade\r\n{extra}"
            f"sec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA==\r\nsec-websocket-version: 13\r\n\r\n".encode()
        )
        head = await reader.readuntil(b"\r\n\r\n")
        return cls(reader, writer, int(head.split()[1]))

    def send(self, message: dict[str, object]) -> None:
        payload = json.dumps(message, separators=(",", ":")).encode()
        length = len(payload)
        short = bytes((0x81, 0x80 | length)) if length < 126 else bytes((0x81, 0xFE)) + length.to_bytes(2, "big")
        self.writer.write(short + b"\0\0\0\0" + payload)  # a mask of zeros changes nothing

    async def receive(self, wanted: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        while True:
            length = (await self.reader.readexactly(2))[1]
            if length >= 126:
                length = int.from_bytes(await self.reader.readexactly(2 if length == 126 else 8), "big")
            message: dict[str, Any] = json.loads(await self.reader.readexactly(length))
            if wanted(message):
                return message

    async def call(self, number: int, method: str, **parameters: object) -> dict[str, Any]:
        self.send({"id": number, "method": method, "params": parameters})
        return await self.receive(lambda message: message.get("id") == number)

    async def attach(self) -> str:
        """A session with the first page."""
        targets = (await self.call(1, "Target.getTargets"))["result"]["targetInfos"]
        page = next(target["targetId"] for target in targets if target["type"] == "page")
        answer = await self.call(2, "Target.attachToTarget", targetId=page, flatten=True)
        return str(answer["result"]["sessionId"])


def stop(pid: int) -> None:
    os.kill(pid, signal.SIGSTOP)
