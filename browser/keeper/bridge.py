"""The bridge: one WebSocket client at a time <-> Chromium's pipe, each client in a session of its own.

A client believes it speaks to the root of the debugging protocol. Its messages without a session go into a
browser session made for it (`Target.attachToBrowserTarget`), which is detached when the client goes: that
resets everything it had set and discards what it had begun, as closing a debugging port's WebSocket does. On
a shared root session a second client would not even find the pages again.
"""

from __future__ import annotations

import json

from lessor.browser.keeper import loop, websocket

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Mapping
    from typing import Any

    from lessor.browser.keeper.pipe import Pipe

READ_BYTES = 1 << 18
UNSENT_BYTES_HIGH = 4 << 20
EARLY_MESSAGES_MAX = 256


class Bridge:
    """`close_network(then)` stops the page's traffic before a departed client's session is detached:
    detaching releases requests that the client had paused."""

    def __init__(self, events: loop.Loop, pipe: Pipe, close_network: Callable[[Callable[[], None]], None]) -> None:
        self._events = events
        self._pipe = pipe
        self._close_network = close_network
        self._client: socket.socket | None = None
        self._frames = websocket.Frames()
        self._outgoing = bytearray()
        self._early: list[bytes] = []
        self._session = b""
        self._sessions = 0  # attached or being attached; more than the client's own while a teardown is under way
        self._settled: list[Callable[[], None]] = []
        pipe.received = self._from_chromium
        pipe.drained = self._watch

    @property
    def has_client(self) -> bool:
        return self._client is not None

    def adopt(self, client: socket.socket, received: bytes) -> None:
        """Serve a client whose opening handshake is done; its session starts when its predecessor's has
        ended."""
        assert self._client is None
        self._client = client
        self._frames = websocket.Frames()
        self._watch()
        self.when_settled(lambda: self._attach(client))
        if received:
            self._take(received)

    def cut(self) -> None:
        """Part with the client: its connection, all it has queued, the page's network, its whole session."""
        client, self._client = self._client, None
        if client is None:
            return
        self._events.forget(client.fileno())
        client.close()
        self._pipe.forget_unsent()
        self._pipe.hold(False)
        self._outgoing.clear()
        self._early.clear()
        session, self._session = self._session, b""
        self._close_network(lambda: self._detach(session))

    def when_settled(self, then: Callable[[], None]) -> None:
        """Call `then` once Chromium has torn down every session of departed clients."""
        self._settled.append(then)
        self._check_settled()

    def _check_settled(self) -> None:
        while self._settled and self._sessions == 0:
            self._settled.pop(0)()

    def _attach(self, client: socket.socket) -> None:
        if self._client is client:
            self._sessions += 1
            self._pipe.command("Target.attachToBrowserTarget", {}, lambda answer: self._attached(client, answer))

    def _attached(self, client: socket.socket, answer: Mapping[str, Any]) -> None:
        session: object = answer.get("result", {}).get("sessionId")
        if not isinstance(session, str):
            self._detached()
            self.cut()
        elif self._client is not client:
            self._detach(session.encode())
        else:
            self._session = session.encode()
            early, self._early = self._early, []
            for message in early:
                self._to_chromium(message)

    def _detach(self, session: bytes) -> None:
        if session:
            parameters = {"sessionId": session.decode()}
            self._pipe.command("Target.detachFromTarget", parameters, lambda _answer: self._detached())

    def _detached(self) -> None:
        self._sessions -= 1
        self._check_settled()

    def _from_chromium(self, message: bytes) -> None:
        tail = b',"sessionId":"' + self._session + b'"}'
        if self._session and message.endswith(tail):
            self._send(websocket.TEXT, message[: -len(tail)] + b"}")
        elif self._session and _ends_with_session(message):
            self._send(websocket.TEXT, message)
        else:
            self._pipe.answer(message)

    def _to_chromium(self, message: bytes) -> None:
        """A valid object that ENDS in a session has it at top level, and one without the word has none; both
        cover all that Playwright sends. Anything else is parsed."""
        if not self._session:
            self._early.append(message)
            if len(self._early) > EARLY_MESSAGES_MAX:
                self.cut()
            return
        message = message.strip()
        if b"\0" in message or message[-1:] != b"}":
            return self.cut()
        if b'"sessionId"' not in message:
            message = message[:-1] + b',"sessionId":"' + self._session + b'"}'
        elif not _ends_with_session(message):
            decoded = json.loads(message)
            decoded.setdefault("sessionId", self._session.decode())
            message = json.dumps(decoded).encode()
        self._pipe.pass_on(message)

    def _watch(self) -> None:
        if self._client is not None:
            wanted = (0 if self._pipe.is_full else loop.READ) | (loop.WRITE if self._outgoing else 0)
            self._events.watch(self._client.fileno(), wanted, self._ready)

    def _ready(self, events: int) -> None:
        if events & loop.WRITE:
            self._flush()
        if self._client is None or not events & (loop.READ | loop.BROKEN):
            return
        try:
            data = self._client.recv(READ_BYTES)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if data:
            self._take(data)
        else:
            self.cut()

    def _take(self, data: bytes) -> None:
        try:
            for kind, payload in self._frames.feed(data):
                if kind == websocket.TEXT:
                    self._to_chromium(payload)
                elif kind == websocket.PING:
                    self._send(websocket.PONG, payload)
                if self._client is None:
                    return
        except (websocket.Broken, ValueError):
            return self.cut()
        self._watch()

    def _send(self, kind: int, payload: bytes) -> None:
        if self._client is not None:
            self._outgoing += websocket.header(kind, len(payload))
            self._outgoing += payload
            self._flush()

    def _flush(self) -> None:
        if self._client is None:
            return
        try:
            while self._outgoing:
                sent = self._client.send(memoryview(self._outgoing)[:READ_BYTES])
                del self._outgoing[:sent]
        except BlockingIOError:
            pass
        except OSError:
            return self.cut()
        self._pipe.hold(len(self._outgoing) > UNSENT_BYTES_HIGH)
        self._watch()


def _ends_with_session(message: bytes) -> bool:
    return message[-2:] == b'"}' and message[-48:-34] == b',"sessionId":"' and message[-34:-2].isalnum()
