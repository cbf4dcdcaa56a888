"""The keeper itself: its browser, who may use it until when, and how it ends."""

from __future__ import annotations

import fcntl
import os
import signal

from lessor.browser.keeper import burial, chromium, guard, linux, loop, state, tree
from lessor.browser.keeper.bridge import Bridge
from lessor.browser.keeper.control import Control
from lessor.browser.keeper.door import Door
from lessor.browser.keeper.drain import Drain
from lessor.browser.keeper.outlet import Outlet
from lessor.browser.keeper.pipe import Pipe
from lessor.browser.keeper.shared import Shared
from lessor.browser.keeper.tenure import Tenure, same

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any, NoReturn

    from lessor.browser.keeper.config import Config
    from lessor.browser.keeper.control import Answer
    from lessor.browser.keeper.state import State

EPOCHS_REMEMBERED_MAX = 16
GUARD_RESTARTS_MAX = 3


class Keeper:
    """One browser, from its exec to its confirmed end. Lives on one thread and one loop.

    `announce` is called once, with `{"ok": true}` when Chromium answers on its pipe, or with why it never
    will.
    """

    def __init__(self, events: loop.Loop, config: Config, announce: Callable[[Mapping[str, object]], None]) -> None:
        self._events = events
        self._config = config
        self._announce = announce
        self._directory = config["directory"]
        self._tenure = Tenure(config["epoch"], config["until_ms"], config["secret"], config["max_ttl_ms"])
        self._token = ""
        self._log = chromium.Log(-1)
        self._phase = "starting"
        self._last_command_ms: dict[str, int] = {}
        self._guard_restarts = -1
        self._pid = os.getpid()
        self._start = tree.start_of(self._pid)
        self._boot_id = linux.boot_id()
        self._browser = self._browser_start = self._guard = self._guard_start = self._egress_start = 0
        self._is_drained = True
        self._lock = os.open(self._path("lock"), os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)

        self._shared = Shared()
        self._timer, self._guard_timer = linux.BootTimer(), linux.BootTimer()
        events.watch(self._timer.fd, loop.READ, self._timer_fired)
        self._set_deadline()
        self._outlet = Outlet(events, self.end)
        self._pipe = self._start_chromium()
        self._outlet.start()
        self._egress_start = tree.start_of(self._outlet.pid)
        self._write_state()
        self._start_guard()
        self._bridge = Bridge(events, self._pipe, self._outlet.close)
        self._pipe.command("Browser.getVersion", {}, lambda _answer: self._serve())

    def __repr__(self) -> str:
        return f"<Keeper {self._phase} {self._tenure!r} browser={self._browser}>"

    def end(self, why: str, then: Callable[[], None] = lambda: None) -> NoReturn:
        """Kill the whole tree, confirm it, record it, remove the plaintext, then exit. `then` comes last."""
        killed_at_ms = linux.boot_ms()
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        record = self._record()
        while not burial.kill(record):
            pass
        tree.kill_pids(tree.descendants(self._pid, spared=self._guard))
        burial.bury(self._directory, record, why, killed_at_ms)
        tree.kill(record["guard"], record["guard_start"])
        if self._phase == "starting":
            self._announce({"ok": False, "reason": why, "log": record["log"]})
        then()
        try:
            while True:  # all are dead; leave no zombies to a parent that may not collect them
                os.waitpid(-1, 0)
        except ChildProcessError:
            os._exit(0)

    # The tree

    def _start_chromium(self) -> Pipe:
        config = self._config
        temporary = os.path.join(config["user_data"], "tmp")
        os.makedirs(temporary, mode=0o700, exist_ok=True)
        argv = chromium.argv(config["chromium"], config["arguments"], config["user_data"], self._outlet.port)
        mark = tree.mark_of(self._pid, self._start)
        environment = {**config["environment"], "TMPDIR": temporary, tree.MARK: mark}
        self._browser, pipe, self._log = chromium.spawn(argv, environment)
        self._browser_start = tree.start_of(self._browser)
        self._events.watch(os.pidfd_open(self._browser), loop.READ, lambda _events: self._exited("browser_exited"))
        self._events.watch(self._log.fd, loop.READ, lambda _events: self._read_log())
        return Pipe(self._events, pipe, self._may_pass, self._passed, closed=lambda: self._exited("browser_hung_up"))

    def _start_guard(self) -> None:
        """A guard that dies is replaced: the page need not suffer for it, and the gap is a millisecond in
        which closed pipe and parent's death signal still stand. Dying again and again is no accident."""
        self._guard_restarts += 1
        if self._guard_restarts > GUARD_RESTARTS_MAX:
            self.end("guard_lost")
        self._guard = guard.fork(
            self._directory, self._record(), self._shared, self._guard_timer, self._config["guard_ms"]
        )
        self._guard_start = tree.start_of(self._guard)
        watched = os.pidfd_open(self._guard)
        self._events.watch(watched, loop.READ, lambda _events: self._guard_died(watched))
        self._write_state()

    def _guard_died(self, watched: int) -> None:
        self._events.forget(watched)
        os.close(watched)
        os.waitpid(self._guard, 0)
        self._start_guard()

    def _exited(self, why: str) -> None:
        self._read_log()
        self.end(why)

    def _read_log(self) -> None:
        if not self._log.read():
            self._events.forget(self._log.fd)

    def _serve(self) -> None:
        """Chromium answers: open the doors and say so."""
        self._phase = "live"
        Door(self._events, self._path("cdp.sock"), self._refuse_client, self._bridge.adopt)
        Control(self._events, self._path("control.sock"), self._asked)
        self._write_state()
        self._announce({"ok": True})

    # The deadline

    def _set_deadline(self) -> None:
        self._shared.deadline_ms = self._tenure.deadline_ms
        self._timer.arm(self._tenure.deadline_ms)
        self._guard_timer.arm(self._tenure.deadline_ms + self._config["guard_ms"])

    def _timer_fired(self, _events: int) -> None:
        self._timer.read()
        self._may_pass()

    def _may_pass(self) -> bool:
        """The gate of every command, and of every request: past the deadline there is no going on."""
        if linux.boot_ms() >= self._tenure.deadline_ms:
            self.end("deadline")
        return True

    def _passed(self) -> None:
        now_ms = linux.boot_ms()
        self._shared.passed(self._tenure.epoch, now_ms)
        self._is_drained = False
        self._last_command_ms[str(self._tenure.epoch)] = now_ms

    # Clients

    def _refuse_client(self, path: str) -> str | None:
        self._may_pass()
        wanted = f"/{self._tenure.epoch}/{self._token}"
        if not self._token or not same(path, wanted):
            return "403 Forbidden"
        return "409 Conflict" if self._bridge.has_client else None

    def _asked(self, request: Mapping[str, Any], answer: Answer) -> None:
        now_ms = linux.boot_ms()
        if now_ms >= self._tenure.deadline_ms:
            self.end("deadline", lambda: answer(self._refusal("too_late")))
        match request:
            case {"op": "status"}:
                answer({"ok": True, "now_ms": now_ms, **self._status()})
            case {"op": "admit", "epoch": int(epoch), "secret": str(secret), "until_ms": int(until_ms)}:
                self._admit(epoch, until_ms, secret, now_ms, answer)
            case {"op": "assign", "epoch": int(epoch), "secret": str(secret), "until_ms": int(until_ms)}:
                self._assign(epoch, until_ms, secret, now_ms, answer)
            case {"op": "extend", "epoch": int(epoch), "until_ms": int(until_ms)}:
                self._extend(epoch, until_ms, now_ms, answer)
            case {"op": "egress", "epoch": int(epoch), "open": bool(is_open), "allow_private": [*allowed]}:
                self._egress(epoch, is_open, [str(entry) for entry in allowed], now_ms, answer)
            case {"op": "kill", "epoch": int(epoch)}:
                reason = self._tenure.may_end(epoch)
                if reason is None:
                    self.end("killed", lambda: answer({"ok": True}))
                answer(self._refusal(reason))
            case _:
                answer(self._refusal("bad_request"))

    def _admit(self, epoch: int, until_ms: int, secret: str, now_ms: int, answer: Answer) -> None:
        """Answers only when the predecessor's network is closed, Chromium has torn its session down, and
        pages have taken in its last input, so that nothing of it can land after this admission."""
        reason = self._tenure.admit(epoch, until_ms, secret, now_ms)
        if reason is not None:
            return answer(self._refusal(reason))
        self._token = token = os.urandom(16).hex()
        for old in list(self._last_command_ms)[:-EPOCHS_REMEMBERED_MAX]:
            del self._last_command_ms[old]
        self._set_deadline()
        self._write_state()
        admitted = {
            "ok": True,
            "epoch": epoch,
            "deadline_ms": self._tenure.deadline_ms,
            "ws": f"ws+unix://{self._path('cdp.sock')}:/{epoch}/{token}",
            "egress_port": self._outlet.port,
        }

        def drained(is_drained: bool) -> None:
            self._is_drained = is_drained
            current = token == self._token
            answer({**admitted, "drained": is_drained} if current else self._refusal("superseded"))

        def settled() -> None:
            if self._is_drained:
                drained(True)
            else:
                Drain(self._events, self._pipe, drained)

        self._bridge.cut()
        self._outlet.close(lambda: self._bridge.when_settled(settled))

    def _assign(self, epoch: int, until_ms: int, secret: str, now_ms: int, answer: Answer) -> None:
        """The client that made the browser ready keeps it, now under its owner's epoch."""
        reason = "no_client" if not self._bridge.has_client else None
        reason = reason or self._tenure.assign(epoch, until_ms, secret, now_ms)
        if reason is not None:
            return answer(self._refusal(reason))
        self._set_deadline()
        self._write_state()
        answer({"ok": True, "deadline_ms": self._tenure.deadline_ms})

    def _extend(self, epoch: int, until_ms: int, now_ms: int, answer: Answer) -> None:
        reason = self._tenure.extend(epoch, until_ms, now_ms)
        if reason is not None:
            return answer(self._refusal(reason))
        self._set_deadline()
        self._write_state()
        answer({"ok": True, "deadline_ms": self._tenure.deadline_ms})

    def _egress(self, epoch: int, is_open: bool, allowed: list[str], now_ms: int, answer: Answer) -> None:
        """Only a host whose client is connected may open it, for it is that connection's end that closes
        it."""
        reason: str | None = self._tenure.holds(epoch, now_ms)
        if reason is None and is_open and not self._bridge.has_client:
            reason = "no_client"
        if reason is not None:
            return answer(self._refusal(reason))
        if is_open:
            self._outlet.open(allowed, lambda: answer({"ok": True, "open": self._outlet.is_open}))
        else:
            self._outlet.close(lambda: answer({"ok": True, "open": self._outlet.is_open}))

    # What it says of itself

    def _refusal(self, reason: str | None) -> Mapping[str, object]:
        return {
            "ok": False,
            "reason": reason,
            "epoch": self._tenure.epoch,
            "deadline_ms": self._tenure.deadline_ms,
        }

    def _status(self) -> Mapping[str, object]:
        return {
            **self._record(),
            "log": "",
            "client": self._bridge.has_client,
            "egress_open": self._outlet.is_open,
            "egress_port": self._outlet.port,
        }

    def _record(self) -> State:
        return {
            "phase": "live" if self._phase == "live" else "starting",
            "boot_id": self._boot_id,
            "keeper": self._pid,
            "keeper_start": self._start,
            "guard": self._guard,
            "guard_start": self._guard_start,
            "browser": self._browser,
            "browser_start": self._browser_start,
            "egress": self._outlet.pid,
            "egress_start": self._egress_start,
            "epoch": self._tenure.epoch,
            "deadline_ms": self._tenure.deadline_ms,
            "user_data": self._config["user_data"],
            "last_command_ms": self._last_command_ms,
            "why": "",
            "killed_at_ms": 0,
            "gone_at_ms": 0,
            "log": self._log.tail,
        }

    def _write_state(self) -> None:
        state.write(self._directory, self._record())

    def _path(self, name: str) -> str:
        return os.path.join(self._directory, name)
