"""Who may enter the embedded broker: added, listed and removed while it runs or while it does not.

A running nats-server reads its users again on SIGHUP and cuts the connections of those that are gone
(seen: within 15 ms); everybody else's stay.
"""

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import msgspec

from lessor.broker import credentials
from lessor.broker.credentials import DEFAULT
from lessor.broker.data_directory import Config, DataDirectory
from lessor.broker.monitoring import ask
from lessor.broker.subjects import named
from lessor.broker.users import User, snippet, user_of
from lessor.errors import Code, Problem, problem
from lessor.messages.ids import Caller

RELOAD_S_MAX: Final = 5.0
_POLL_S: Final = 0.005


class Issued(msgspec.Struct, frozen=True, kw_only=True):
    """Whose credentials lie where. `config` is for the operator of another broker."""

    tenant: str
    principal: str
    credentials: str | None = None
    config: str | None = None


class Tenants:
    """The users of one data directory's broker. Blocking, 10 s at most: not for the event loop."""

    def __init__(self, directory: Path) -> None:
        self._directory = DataDirectory(directory)

    def add(self, caller: Caller) -> Issued | Problem:
        """Make credentials, or name those that lie here already. The broker knows them when this returns."""
        if refusal := _misnamed(caller):
            return refusal
        path = self._directory.credentials_of(caller)

        def change(config: Config) -> Config | Problem:
            known = config.authorization.of(caller)
            if known is not None and path.exists():
                return config
            if known is not None:
                who = f"{caller.tenant}/{caller.principal}"
                return problem(
                    Code.INVALID_REQUEST,
                    f"{who} has credentials, which are not in {path} any more: remove {who} first to make new ones.",
                )
            made = credentials.make(path, caller)
            return _with(config, user_of(caller, made.public_key))

        told = self._changed(change)
        return told if isinstance(told, Problem) else _issued(caller, path)

    def listed(self) -> tuple[Issued, ...] | Problem:
        config = self._directory.read()
        if isinstance(config, Problem):
            return config
        callers = sorted(_callers(config), key=lambda one: (one.tenant, one.principal))
        return tuple(_issued(one, self._directory.credentials_of(one)) for one in callers)

    def remove(self, tenant: str, principal: str | None) -> tuple[Issued, ...] | Problem:
        """Withdraw the credentials of one principal, or of all the tenant's. Their connections are cut."""
        if refusal := _misnamed(Caller(tenant, principal or tenant)):
            return refusal
        gone: list[Caller] = []

        def change(config: Config) -> Config | Problem:
            gone[:] = [one for one in _callers(config) if one.tenant == tenant and principal in (None, one.principal)]
            if not gone:
                who = tenant if principal is None else f"{tenant}/{principal}"
                return problem(Code.NOT_FOUND, f"{who} has no credentials here: see `lessor tenant list`.")
            if DEFAULT in gone:
                owner = f"{DEFAULT.tenant}/{DEFAULT.principal}"
                return problem(Code.INVALID_REQUEST, f"{owner} owns this directory and stays: name another principal.")
            users = config.authorization
            for caller in gone:
                users = users.without(caller)
            return msgspec.structs.replace(config, authorization=users)

        told = self._changed(change)
        if isinstance(told, Problem):
            return told
        for caller in gone:
            self._directory.credentials_of(caller).unlink(missing_ok=True)
        return tuple(Issued(tenant=one.tenant, principal=one.principal) for one in gone)

    def _changed(self, change: Callable[[Config], Config | Problem]) -> Config | Problem:
        def checked(config: Config) -> Config | Problem:
            if not config.authorization.users:
                earlier = "was made by an earlier lessor: start `lessor up` once, then ask again."
                return problem(Code.SETUP_FAILED, f"{self._directory.config_file} {earlier}")
            return change(config)

        config = self._directory.edit(checked)
        if isinstance(config, Problem) or not self._directory.running():
            return config
        return _read_again(self._directory, config) or config


def issue(caller: Caller, path: Path) -> Issued | Problem:
    """Credentials for a broker that somebody else runs: a file here, and what its operator puts into `users`."""
    if refusal := _misnamed(caller):
        return refusal
    try:
        kept = credentials.read(path) if path.exists() else credentials.make(path, caller)
    except OSError as error:
        return problem(Code.SETUP_FAILED, f"{path} cannot be written ({error.strerror}): choose another directory.")
    if isinstance(kept, Problem):
        return kept
    told = _issued(caller, path)
    return msgspec.structs.replace(told, config=snippet(user_of(caller, kept.public_key)))


def _callers(config: Config) -> list[Caller]:
    return [user.caller for user in config.authorization.users if user.caller is not None]


def _with(config: Config, user: User) -> Config:
    return msgspec.structs.replace(config, authorization=config.authorization.having(user))


def _issued(caller: Caller, path: Path) -> Issued:
    return Issued(tenant=caller.tenant, principal=caller.principal, credentials=str(path) if path.exists() else None)


def _misnamed(caller: Caller) -> Problem | None:
    if named(caller):
        return None
    return problem(Code.INVALID_REQUEST, "Tenant and principal are names: use [a-z0-9][a-z0-9_-]{0,62}.")


# -- a running server


class _Vars(msgspec.Struct):
    server_name: str
    config_load_time: str


def _read_again(directory: DataDirectory, config: Config) -> Problem | None:
    """Signal the server and wait until it says that it has read its configuration since."""
    until = time.monotonic() + RELOAD_S_MAX
    before: _Vars | None = None
    signalled = False
    while time.monotonic() < until:
        now = _vars(config)
        if signalled and now is not None and before is not None and now.config_load_time != before.config_load_time:
            return None
        if not signalled and now is not None:
            before, signalled = now, _signal(directory)
        time.sleep(_POLL_S)
    return problem(
        Code.SETUP_FAILED,
        f"The broker did not read its users again within {RELOAD_S_MAX:.0f} s: see {directory.log_file}, or start it"
        " again.",
    )


def _signal(directory: DataDirectory) -> bool:
    """SIGHUP to the server of this directory and nobody else: a pid may have gone to another program."""
    try:
        pid = int(directory.pid_file.read_text())
        process = os.pidfd_open(pid)
    except (OSError, ValueError):
        return False
    try:
        if os.fsencode(directory.config_file) not in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0"):
            return False
        signal.pidfd_send_signal(process, signal.SIGHUP)
    except OSError:
        return False
    finally:
        os.close(process)
    return True


def _vars(config: Config) -> _Vars | None:
    told = ask(config.monitoring, "/varz", _Vars)
    return told if told is not None and told.server_name == config.server_name else None
