"""The directory an embedded broker lives in: made once, private, locked while in use, never anyone else's.

broker.json   nats-server's configuration (it reads JSON) with ports and users, 0600; marks what is ours
broker.lock   flock held by the program and by its nats-server; names the program's pid
broker.pid    nats-server's pid
broker.log    nats-server's log, bounded
host.nk       the host's credentials, 0600
users/        <tenant>.<principal>.nk: workers' credentials, 0600
users.lock    flock of whoever changes the configuration
store/        JetStream
"""

import contextlib
import errno
import fcntl
import os
import secrets
import socket
import time
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Final, Literal, TypeVar

import msgspec

from lessor.broker import credentials
from lessor.broker.credentials import DEFAULT, Credentials
from lessor.broker.users import Authorization, host_user, user_of
from lessor.errors import Code, Problem, problem
from lessor.messages.ids import Caller

PAYLOAD_BYTES_MAX: Final = 2 * 1024 * 1024
LOG_BYTES_MAX: Final = 4 * 1024 * 1024
LOCK_WAIT_S: Final = 1.0
"""A killed program's nats-server needs this long at most to let go of the lock."""
EDIT_WAIT_S: Final = 5.0

_OURS: Final = ("broker.lock", "broker.json.new", "users.lock", "users", "host.nk", "host.nk.new")
"""What an interrupted first start may leave without a configuration."""

PORTS: Final = range(20_000, 30_000)
"""Below the range the kernel takes outgoing ports from: a kept port stays free while the broker is down."""


T = TypeVar("T")


class JetStream(msgspec.Struct, frozen=True, kw_only=True):
    """`always`: what is acknowledged is on disk; by default, two minutes, epochs could be issued twice."""

    store_dir: str
    sync_interval: Literal["always"] = "always"


class Config(msgspec.Struct, frozen=True, kw_only=True):
    """What nats-server reads, and what clients on this machine read the port from."""

    server_name: str
    listen: str
    http: str
    authorization: Authorization
    jetstream: JetStream
    log_file: str
    pid_file: str = ""
    http_base_path: str = ""
    """A secret: monitoring asks nobody who he is, and tells whoever finds it who listens to what."""
    logfile_size_limit: int = LOG_BYTES_MAX
    logfile_max_num: int = 2
    max_payload: int = PAYLOAD_BYTES_MAX
    ping_interval: str = "2s"
    ping_max: int = 2
    """A host that hangs leaves the queue group within six seconds instead of six minutes (facts: half-open peers)."""

    @property
    def monitoring(self) -> str:
        """Where its HTTP answers: `host:port` and the base path."""
        return f"{self.http}{self.http_base_path}"

    def addresses(self) -> tuple[tuple[str, int], ...]:
        return _address(self.listen), _address(self.http)


class DataDirectory:
    """All that touches the disk before nats-server runs. Blocking, a few ms: not for the event loop."""

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()
        self.config_file = self.path / "broker.json"
        self.log_file = self.path / "broker.log"
        self.pid_file = self.path / "broker.pid"
        self.host_credentials = self.path / "host.nk"
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
        """The kept configuration, or a new one with free ports and fresh credentials. Needs the lock."""
        assert self._lock_fd is not None
        return self._edited(self._settle, self._read_kept)

    def edit(self, change: Callable[[Config], Config | Problem]) -> Config | Problem:
        """Change the configuration, one at a time; whoever runs the broker has to make it read it."""
        return self._edited(change, self._read)

    def _edited(self, change: Callable[[T], Config | Problem], kept: Callable[[], T | Problem]) -> Config | Problem:
        try:
            with self._editing() as mine:
                if not mine:
                    return _setup(f"Somebody else changes {self.config_file}: try again.")
                before = kept()
                after = before if isinstance(before, Problem) else change(before)
                if isinstance(after, Config) and after != before:
                    self._write(msgspec.json.format(msgspec.json.encode(after), indent=1))
                return after
        except FileNotFoundError:
            return self._never_started()
        except OSError as error:
            return _disk_problem(self.path, error)

    def read(self) -> Config | Problem:
        """What a running broker of this directory listens on: for the other programs of this machine."""
        try:
            return self._read()
        except FileNotFoundError:
            return self._never_started()
        except OSError as error:
            return _disk_problem(self.path, error)

    def running(self) -> bool:
        """Whether a broker of this directory runs, or is about to."""
        try:
            fd = os.open(self.path / "broker.lock", os.O_RDWR | os.O_CLOEXEC)
        except OSError:
            return False
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return True
        finally:
            os.close(fd)
        return False

    def credentials_of(self, caller: Caller) -> Path:
        """Where a caller's credentials lie, if they are kept here."""
        return self.path / "users" / f"{caller.tenant}.{caller.principal}.nk"

    def _never_started(self) -> Problem:
        return _setup(f"No broker was ever started in {self.path}: run `lessor up`, or name a broker's URL.")

    def _foreign(self) -> Problem | None:
        if self.path.stat().st_uid != os.geteuid():
            return _setup(f"{self.path} belongs to another user: choose a directory of your own.")
        if not self.config_file.exists() and any(entry.name not in _OURS for entry in self.path.iterdir()):
            return _setup(f"{self.path} holds something else than a broker's data: choose a new or empty directory.")
        return None

    def _lock(self) -> int | Problem:
        fd = os.open(self.path / "broker.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        if not _locked(fd, LOCK_WAIT_S):
            holder = os.pread(fd, 20, 0).decode().strip() or "unknown"
            os.close(fd)
            return _setup(f"{self.path} is in use by process {holder}: use that broker, or stop it first.")
        os.ftruncate(fd, 0)
        os.pwrite(fd, f"{os.getpid()}\n".encode(), 0)
        self._lock_fd = fd
        return fd

    def _read(self) -> Config | Problem:
        try:
            return msgspec.json.decode(self.config_file.read_bytes(), type=Config)
        except msgspec.DecodeError as error:
            return _setup(f"{self.config_file} is not what lessor wrote ({error}): restore it, or use a new directory.")

    def _read_kept(self) -> Config | Problem | None:
        return self._read() if self.config_file.exists() else None

    def _settle(self, kept: Config | None) -> Config:
        """Ports, name and users are kept; what says where the directory is follows it when it is moved."""
        store, log, pid = str(self.path / "store"), str(self.log_file), str(self.pid_file)
        if kept is None:
            listen, http = _free_ports(2)
            kept = Config(
                server_name=f"lessor-{secrets.token_hex(4)}",
                listen=f"127.0.0.1:{listen}",
                http=f"127.0.0.1:{http}",
                authorization=Authorization(),
                jetstream=JetStream(store_dir=store),
                log_file=log,
            )
        host, owner = self._own(self.host_credentials, None), self._own(self.credentials_of(DEFAULT), DEFAULT)
        users = kept.authorization.having(host_user(host.public_key))
        users = users.having(user_of(DEFAULT, owner.public_key, operates=True))
        base = kept.http_base_path or f"/{secrets.token_urlsafe(24)}"
        return msgspec.structs.replace(
            kept,
            http_base_path=base,
            authorization=users,
            jetstream=JetStream(store_dir=store),
            log_file=log,
            pid_file=pid,
        )

    def _own(self, path: Path, caller: Caller | None) -> Credentials:
        """Those that lie here; new ones where they were lost, or where an earlier version had none."""
        kept = credentials.read(path) if path.exists() else None
        return kept if isinstance(kept, Credentials) else credentials.make(path, caller)

    @contextlib.contextmanager
    def _editing(self) -> Generator[bool]:
        fd = os.open(self.path / "users.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            yield _locked(fd, EDIT_WAIT_S)
        finally:
            os.close(fd)

    def _write(self, body: bytes) -> None:
        """Whole or not at all: a half-written file would be taken for a foreign one."""
        fresh = self.path / "broker.json.new"
        fd = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with os.fdopen(fd, "wb") as file:
            file.write(body)
            file.flush()
            os.fsync(fd)
        fresh.replace(self.config_file)


def _locked(fd: int, within_s: float) -> bool:
    until = time.monotonic() + within_s
    while True:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= until:
                return False
            time.sleep(0.01)
        else:
            return True


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
