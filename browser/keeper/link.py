"""A live keeper as its host sees it: finding it, speaking to it, ending it.

Refusals are values. Every call is bounded; one without an answer in time is `Refused("no_answer")`, and whether it
took effect is then unknown: an unacknowledged extension counts for nothing (contract, numbers).
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, cast

from lessor.browser.keeper import ending, state, tree

if TYPE_CHECKING:
    from lessor.browser.keeper.state import State

CALL_S_MAX = 2.0
ADMIT_S_MAX = 3.0  # two bounded waits of one second each, and the teardown
LINE_BYTES_MAX = 64 << 10


@dataclass(frozen=True, slots=True)
class Admitted:
    """The browser is this epoch's until `deadline_ms`; connect a client to `ws_url`. Not `is_drained`: a page
    is stuck, and may yet act on input of the client before."""

    epoch: int
    deadline_ms: int
    ws_url: str = field(repr=False)
    egress_port: int
    is_drained: bool


@dataclass(frozen=True, slots=True)
class Refused:
    """Why not: `stale_epoch`, `bad_secret`, `too_late`, `bad_deadline`, `no_client`, `superseded`,
    `bad_request`, or `no_answer` when the keeper is gone or silent, `still_alive` when a kill could not be
    confirmed."""

    reason: str


@dataclass(frozen=True, slots=True)
class Gone:
    """A browser that has ended, with nothing of its tree left. `last_command_ms` says by epoch when commands
    last passed to it (invariant P7)."""

    why: str
    gone_at_ms: int
    last_command_ms: Mapping[int, int]


class Keeper:
    """A live keeper as its host sees it. Belongs to the event loop it was made on; `close` lets go of it
    without ending it."""

    def __init__(self, directory: Path, record: State, pidfd: int) -> None:
        self.directory = directory
        self.pid = record["keeper"]
        self.chromium_pid = record["browser"]
        self.gone: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._record = record
        self._pidfd = pidfd
        self._numbers = 0
        self._answers: dict[int, asyncio.Future[Mapping[str, object]]] = {}
        self._writer: asyncio.StreamWriter | None = None
        self._listening: asyncio.Task[None] | None = None
        asyncio.get_running_loop().add_reader(pidfd, self._died)

    def __repr__(self) -> str:
        return f"<Keeper pid={self.pid} {'gone' if self.gone.done() else 'live'} {self.directory}>"

    async def admit(self, epoch: int, secret: str, until_ms: int, timeout_s: float = ADMIT_S_MAX) -> Admitted | Refused:
        """Take the browser over for `epoch` (the present one or higher). When this answers `Admitted`, the
        client before is cut, its session torn down in Chromium, and egress is closed."""
        answer = await self._ask(timeout_s, op="admit", epoch=epoch, secret=secret, until_ms=until_ms)
        match answer:
            case {
                "ok": True,
                "deadline_ms": int(deadline_ms),
                "ws": str(ws_url),
                "egress_port": int(port),
                "drained": bool(is_drained),
            }:
                return Admitted(epoch, deadline_ms, ws_url, port, is_drained)
            case _:
                return _refused(answer)

    async def assign(self, epoch: int, secret: str, until_ms: int, timeout_s: float = CALL_S_MAX) -> int | Refused:
        """Give a browser that is nobody's (epoch 0) to its first owner; the connected client keeps its connection.
        Answers the deadline."""
        answer = await self._ask(timeout_s, op="assign", epoch=epoch, secret=secret, until_ms=until_ms)
        match answer:
            case {"ok": True, "deadline_ms": int(deadline_ms)}:
                return deadline_ms
            case _:
                return _refused(answer)

    async def extend(self, epoch: int, until_ms: int, timeout_s: float = CALL_S_MAX) -> int | Refused:
        """Move the deadline forward; answers the one now in force, which is the only one to rely on. Within
        an epoch it never moves back."""
        answer = await self._ask(timeout_s, op="extend", epoch=epoch, until_ms=until_ms)
        match answer:
            case {"ok": True, "deadline_ms": int(deadline_ms)}:
                return deadline_ms
            case _:
                return _refused(answer)

    async def egress(
        self, epoch: int, is_open: bool, allow_private: Sequence[str] = (), timeout_s: float = CALL_S_MAX
    ) -> bool | Refused:
        """Open or close the page's way to the network; answers what it now is. Opening needs a connected
        client (`no_client`) and closes what was open before. `allow_private` names `host:port`s as the page
        writes them."""
        allowed = list(allow_private)
        answer = await self._ask(timeout_s, op="egress", epoch=epoch, open=is_open, allow_private=allowed)
        match answer:
            case {"ok": True, "open": bool(now_open)}:
                return now_open
            case _:
                return _refused(answer)

    async def status(self, timeout_s: float = CALL_S_MAX) -> Mapping[str, object] | Refused:
        """What the keeper says of itself: the fields of its state, `client`, `egress_open`, `egress_port`,
        `now_ms`."""
        answer = await self._ask(timeout_s, op="status")
        return answer if answer.get("ok") is True else _refused(answer)

    async def kill(self, epoch: int, timeout_s: float = CALL_S_MAX) -> Gone | Refused:
        """End the browser and confirm that nothing of its tree is left. A keeper that does not do so in half
        the time is killed, and its tree from here. Refused with `stale_epoch` when a higher epoch has it."""
        answer = await self._ask(timeout_s / 2, op="kill", epoch=epoch)
        refused = answer.get("reason")
        if refused not in (None, "no_answer", "too_late"):
            return _refused(answer)
        record = await asyncio.to_thread(ending.end, str(self.directory), epoch, timeout_s / 2)
        if record is None:
            return Refused("still_alive")
        if record["phase"] != "dead":
            return Refused("stale_epoch")
        await asyncio.wait([self.gone], timeout=timeout_s / 2)
        last_command_ms = {int(number): at_ms for number, at_ms in record["last_command_ms"].items()}
        return Gone(record["why"], record["gone_at_ms"], last_command_ms)

    async def close(self) -> None:
        """Let go of the keeper; it lives on until its deadline."""
        self._release()
        if self._listening is not None:
            self._listening.cancel()
            await asyncio.wait([self._listening])

    async def connect(self, timeout_s: float = CALL_S_MAX) -> bool:
        """Open the control connection; False when the keeper does not take it."""
        try:
            opening = asyncio.open_unix_connection(str(self.directory / "control.sock"), limit=LINE_BYTES_MAX)
            reader, self._writer = await asyncio.wait_for(opening, timeout_s)
        except (OSError, TimeoutError):
            return False
        self._listening = asyncio.create_task(self._listen(reader))
        return True

    async def _ask(self, timeout_s: float, **request: object) -> Mapping[str, object]:
        if self._writer is None and not await self.connect(timeout_s):
            return {"reason": "no_answer"}
        assert self._writer is not None
        self._numbers += 1
        number = self._numbers
        answer: asyncio.Future[Mapping[str, object]] = asyncio.get_running_loop().create_future()
        self._answers[number] = answer
        self._writer.write(json.dumps({"id": number, **request}).encode() + b"\n")
        try:
            return await asyncio.wait_for(answer, timeout_s)
        except TimeoutError:
            return {"reason": "no_answer"}
        finally:
            self._answers.pop(number, None)

    async def _listen(self, reader: asyncio.StreamReader) -> None:
        try:
            while line := await reader.readline():
                answer = cast("Mapping[str, object]", json.loads(line))
                waiting = self._answers.get(cast("int", answer.get("id")))
                if waiting is not None and not waiting.done():
                    waiting.set_result(answer)
        except (OSError, ValueError):
            pass
        finally:
            self._hang_up()

    def _hang_up(self) -> None:
        if self._writer is not None:
            self._writer.close()
            self._writer = None
        for waiting in self._answers.values():
            if not waiting.done():
                waiting.set_result({"reason": "no_answer"})

    def _release(self) -> None:
        if self._pidfd >= 0:
            asyncio.get_running_loop().remove_reader(self._pidfd)
            os.close(self._pidfd)
            self._pidfd = -1

    def _died(self) -> None:
        self._release()
        with contextlib.suppress(ChildProcessError):  # it is another host's child, or nobody's
            os.waitpid(self.pid, os.WNOHANG)
        if not self.gone.done():
            self.gone.set_result(None)


async def find(directory: Path, timeout_s: float = CALL_S_MAX) -> Keeper | None:
    """The live keeper of that directory, after a restart of its host; None when it is gone or belongs to an
    earlier boot. It need not answer: one that is stopped is found, too, and can be killed."""
    record = state.read(str(directory))
    if record is None or record["phase"] == "dead" or not state.is_of_this_boot(record):
        return None
    try:
        pidfd = os.pidfd_open(record["keeper"])
    except ProcessLookupError:
        return None
    if not tree.is_alive(record["keeper"], record["keeper_start"]):
        os.close(pidfd)
        return None
    keeper = Keeper(directory, record, pidfd)
    await keeper.connect(timeout_s)
    return keeper


def _refused(answer: Mapping[str, object]) -> Refused:
    return Refused(str(answer.get("reason", "bad_answer")))
