"""The directory an embedded broker lives in: made once, private, locked while in use, never anyone else's.

broker.json   nats-server's configuration (it reads JSON) with ports and token, 0600; marks what is ours
broker.lock   flock held by the program and by its nats-server; names the program's pid
broker.log    nats-server's log, bounded
store/        JetStream
"""

import errno
import fcntl
import os
import secrets
import socket
import time
from pathlib import Path
from typing import Final, Literal

import msgspec

from lessor.errors import Code, Problem, problem

PAYLOAD_BYTES_MAX: Final = 2 * 1024 * 1024
LOG_BYTES_MAX: Final = 4 * 1024 * 1024
LOCK_WAIT_S: Final = 1.0
"""A killed program's nats-server needs this long at most to let go of the lock."""

PORTS: Final = range(20_000, 30_000)
"""Below the range the kernel takes outgoing ports from: a kept port stays free while the broker is down."""


class Authorization(msgspec.Struct, frozen=True, kw_only=True):
    token: str


class JetStream(msgspec.Struct, frozen=True, kw_only=True):
    """`always`: what is acknowledged is on disk; by default, two minutes, epochs could be issued twice."""

    store_dir: str
    sync_interval: Literal["always"] = "always"


class Config(msgspec.Struct, frozen=True, kw_only=True):
    """What nats-server reads, and what clients on this machine read port and token from."""

    server_name: str
    listen: str
    http: str
    authorization: Authorization
    jetstream: JetStream
    log_file: str
    logfile_size_limit: int = LOG_BYTES_MAX
    logfile_max_num: int = 2
    max_payload: int = PAYLOAD_BYTES_MAX
    ping_interval: str = "2s"
    ping_max: int = 2
    """A host that hangs leaves the queue group within six seconds instead of six minutes (facts: half-open peers)."""

    def addresses(self) -> tuple[tuple[str, int], ...]:
        return _address(self.listen), _address(self.http)


class DataDirectory:
    """All that touches the disk before nats-server runs. Blocking, a few ms: not for the event loop."""

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()
        self.config_file = self.path / "broker.json"
        self.log_file = self.path / "broker.log"
        self._lock_fd: int | None = None

    def take(self) -> int | Problem:
        """Make or check the directory and lock it; the lock's descriptor. Refuses what is another's."""
        try:
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
            if refusal := self._foreign():
                return refusal
            self.path.chmod(0o700)
            return self._lock()
        except OSError as error:
            return _disk_problem(self.path, error)

    def release(self) -> None:
        """Let the lock go. A nats-server that still runs keeps it held."""
        if self._lock_fd is not None:
            os.close(self._lock_fd)
            self._lock_fd = None

    def prepare(self) -> Config | Problem:
        """The kept configuration, or a new one with free ports and a fresh token. Needs the lock."""
        assert self._lock_fd is not None
        try:
            kept = self._read() if self.config_file.exists() else None
            if isinstance(kept, Problem):
                return kept
            config = self._settle(kept)
            self._write(msgspec.json.format(msgspec.json.encode(config), indent=1))
        except OSError as error:
            return _disk_problem(self.path, error)
        return config

    def read(self) -> Config | Problem:
        """What a running broker of this directory listens on: for the other programs of this machine."""
        try:
            return self._read()
        except FileNotFoundError:
            return _setup(f"No broker was ever started in {self.path}: run `lessor up`, or name a broker's URL.")
        except OSError as error:
            return _disk_problem(self.path, error)

    def _foreign(self) -> Problem | None:
        if self.path.stat().st_uid != os.geteuid():
            return _setup(f"{self.path} belongs to another user: choose a directory of your own.")
        if not self.config_file.exists() and any(
            entry.name not in ("broker.lock", "broker.json.new") for entry in self.path.iterdir()
        ):
            return _setup(f"{self.path} holds something else than a broker's data: choose a new or empty directory.")
        return None

    def _lock(self) -> int | Problem:
        fd = os.open(self.path / "broker.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        until = time.monotonic() + LOCK_WAIT_S
        while True:
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() >= until:
                    holder = os.pread(fd, 20, 0).decode().strip() or "unknown"
                    os.close(fd)
                    return _setup(f"{self.path} is in use by process {holder}: use that broker, or stop it first.")
                time.sleep(0.01)
        os.ftruncate(fd, 0)
        os.pwrite(fd, f"{os.getpid()}\n".encode(), 0)
        self._lock_fd = fd
        return fd

    def _read(self) -> Config | Problem:
        try:
            return msgspec.json.decode(self.config_file.read_bytes(), type=Config)
        except msgspec.DecodeError as error:
            return _setup(f"{self.config_file} is not what lessor wrote ({error}): restore it, or use a new directory.")

    def _settle(self, kept: Config | None) -> Config:
        """Ports, name and token are kept; what says where the directory is follows it when it is moved."""
        store, log = str(self.path / "store"), str(self.log_file)
        if kept is not None:
            return msgspec.structs.replace(kept, jetstream=JetStream(store_dir=store), log_file=log)
        listen, http = _free_ports(2)
        return Config(
            server_name=f"lessor-{secrets.token_hex(4)}",
            listen=f"127.0.0.1:{listen}",
            http=f"127.0.0.1:{http}",
            authorization=Authorization(token=secrets.token_urlsafe(32)),
            jetstream=JetStream(store_dir=store),
            log_file=log,
        )

    def _write(self, body: bytes) -> None:
        """Whole or not at all: a half-written file would be taken for a foreign one."""
        fresh = self.path / "broker.json.new"
        fd = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with os.fdopen(fd, "wb") as file:
            file.write(body)
            file.flush()
            os.fsync(fd)
        fresh.replace(self.config_file)


def taken_port(config: Config) -> int | None:
    """A port of ours that somebody else listens on."""
    for host, port in config.addresses():
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((host, port))
            except OSError:
                return port
    return None


def _free_ports(count: int) -> list[int]:
    found: list[int] = []
    for _ in range(1000):
        port = PORTS[secrets.randbelow(len(PORTS))]
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        if port not in found:
            found.append(port)
        if len(found) == count:
            return found
    raise OSError(errno.EADDRINUSE, "no free port on loopback")


def _address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    return host, int(port)


def _setup(message: str) -> Problem:
    return problem(Code.SETUP_FAILED, message)


def _disk_problem(path: Path, error: OSError) -> Problem:
    match error.errno:
        case errno.ENOSPC | errno.EDQUOT:
            remedy = "there is no space left; free some, or choose another directory"
        case errno.EROFS | errno.EACCES | errno.EPERM:
            remedy = "it cannot be written; mend its permissions, or choose another directory"
        case errno.ENOTDIR | errno.EEXIST:
            remedy = "it is not a directory; choose another path"
        case _:
            remedy = f"{error.strerror or error}; mend that, or choose another directory"
    return _setup(f"The broker cannot keep its data in {path}: {remedy}.")
