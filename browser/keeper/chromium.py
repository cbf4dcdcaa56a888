"""Starting Chromium so that it cannot outlive its keeper unnoticed."""

from __future__ import annotations

import fcntl
import os
import signal
import socket

from lessor.browser.keeper import linux

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import NoReturn

PIPE_BUFFER_BYTES = 1 << 20
LOG_BYTES_MAX = 8 << 10
FD_ABOVE = 16  # out of the way of the descriptors 3 and 4, which Chromium expects its pipe on


class Log:
    """The tail of what a browser says, off a descriptor that never blocks."""

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self._tail = bytearray()

    @property
    def tail(self) -> str:
        return self._tail.decode("utf-8", "replace")

    def read(self) -> bool:
        """Take in what there is; False when nothing will ever come again."""
        try:
            data = os.read(self.fd, LOG_BYTES_MAX)
        except BlockingIOError:
            return True
        self._tail += data
        del self._tail[:-LOG_BYTES_MAX]
        return bool(data)


def argv(binary: str, arguments: Sequence[str], user_data: str, proxy_port: int) -> list[str]:
    """How to start it; what is the keeper's to say comes last, and so prevails."""
    return [
        binary,
        *arguments,
        f"--user-data-dir={user_data}",
        "--remote-debugging-pipe",
        f"--proxy-server=127.0.0.1:{proxy_port}",
        "--proxy-bypass-list=<-loopback>",
        "about:blank",
    ]


def spawn(argv: Sequence[str], environment: Mapping[str, str]) -> tuple[int, socket.socket, Log]:
    """Exec Chromium with a debugging pipe in a session of its own, killed with this process.

    Answers its pid, our end of the pipe, and its log. A failed exec shows as a
    child that exits at once and says why in its log.
    """
    ours, its = socket.socketpair()
    for end in (ours, its):
        end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, PIPE_BUFFER_BYTES)
    log, log_writer = os.pipe2(os.O_CLOEXEC)
    os.set_blocking(log, False)
    keeper = os.getpid()
    pid = os.fork()
    if pid == 0:
        _become(argv, environment, keeper, its, log_writer)
    its.close()
    os.close(log_writer)
    ours.setblocking(False)
    return pid, ours, Log(log)


def _become(
    argv: Sequence[str], environment: Mapping[str, str], keeper: int, pipe: socket.socket, log: int
) -> NoReturn:
    try:
        os.setsid()
        linux.die_with(keeper)
        for number in (signal.SIGPIPE, signal.SIGHUP, signal.SIGINT, signal.SIGTERM, signal.SIGXFSZ):
            signal.signal(number, signal.SIG_DFL)
        pipe_fd = fcntl.fcntl(pipe, fcntl.F_DUPFD_CLOEXEC, FD_ABOVE)
        log_fd = fcntl.fcntl(log, fcntl.F_DUPFD_CLOEXEC, FD_ABOVE)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(log_fd, 1)
        os.dup2(log_fd, 2)
        os.dup2(pipe_fd, 3)
        os.dup2(pipe_fd, 4)
        os.execve(argv[0], list(argv), dict(environment))  # noqa: S606 - a shell would stand between
    except BaseException as error:  # noqa: BLE001 - a forked child must not return into its parent's code
        os.write(2, f"{argv[0]}: {error!r}\n".encode())
    finally:
        os._exit(127)
