"""Every subject name, built and parsed (architecture, Subjects a worker sees; Journal and fence).

What kind a subject is follows from its length and its fifth token alone, so a profile named like a
verb, `run` or `p` is a name like any other. Names come from callers: `parse` refuses what is none.
"""

import re
from dataclasses import dataclass
from typing import Final

from lessor.messages.ids import Caller, ProfileKey, RunKey

QUEUE: Final = "lessor"
"""Queue group of the hosts: a question on an any-host subject reaches one of them."""

HOST_INBOX: Final = "_INBOX._.host"
"""Where hosts hear the broker's answers. `_` is no tenant's name, so no caller can have a host answer there."""

_ROOT: Final = "lessor.v1"
_FORWARD: Final = "lessor.fwd"
_NAME: Final = re.compile(r"[a-z0-9][a-z0-9_-]{0,62}")
_EPOCH: Final = re.compile(r"[1-9][0-9]{0,18}")


@dataclass(frozen=True, slots=True)
class ToProfile:
    """`epoch` None: asked of any host; else of the owner on its own route."""

    caller: Caller
    key: ProfileKey
    verb: str
    epoch: int | None = None


@dataclass(frozen=True, slots=True)
class ToRun:
    caller: Caller
    key: RunKey
    verb: str


@dataclass(frozen=True, slots=True)
class ToHost:
    caller: Caller
    host: str


@dataclass(frozen=True, slots=True)
class ToList:
    """`verb` says of what: `list` of profiles, or `runs`."""

    caller: Caller
    verb: str = "list"


Asked = ToProfile | ToRun | ToHost | ToList

ANY_HOST: Final = {
    "profile": f"{_ROOT}.*.*.p.*.*",
    "run": f"{_ROOT}.*.*.r.*.*",
    "list": f"{_ROOT}.*.*.list",
    "runs": f"{_ROOT}.*.*.runs",
}
"""What every host serves in the queue group, by endpoint name."""


def profile(caller: Caller, key: ProfileKey, verb: str) -> str:
    """Asked of any host. The tenant is the caller's: a key of another tenant has no subject."""
    assert caller.tenant == key.tenant
    return f"{_ROOT}.{caller.tenant}.{caller.principal}.p.{key.profile}.{verb}"


def route(key: ProfileKey, principal: str, epoch: int) -> str:
    """The owner's own subject without the verb: put `.<verb>` behind it."""
    return f"{_ROOT}.{key.tenant}.{principal}.p.{key.profile}.{epoch}"


def run(caller: Caller, key: RunKey, verb: str) -> str:
    assert caller.tenant == key.tenant
    return f"{_ROOT}.{caller.tenant}.{caller.principal}.r.{key.run}.{verb}"


def renew(caller: Caller, host: str) -> str:
    return f"{_ROOT}.{caller.tenant}.{caller.principal}.h.{host}.renew"


def listing(caller: Caller) -> str:
    return f"{_ROOT}.{caller.tenant}.{caller.principal}.list"


def runs(caller: Caller) -> str:
    return f"{_ROOT}.{caller.tenant}.{caller.principal}.runs"


def renewals_of(host: str) -> str:
    """What one host listens to for the ticks of all workers."""
    return f"{_ROOT}.*.*.h.{host}.renew"


def forwarded_to(host: str) -> str:
    """What one host listens to for requests that other hosts passed on."""
    return f"{_FORWARD}.{host}.>"


def forward(host: str, asked: str) -> str:
    """Pass the request on subject `asked` to a host."""
    return f"{_FORWARD}.{host}.{asked.removeprefix(f'{_ROOT}.')}"


def unforward(subject: str) -> str:
    """The subject the caller used, out of a forwarded one."""
    return f"{_ROOT}.{subject.split('.', 3)[3]}"


def parse(subject: str) -> Asked | None:
    """What a request's subject says; None when a name in it is none, or when it is not ours."""
    match subject.split("."):
        case ["lessor", "v1", tenant, principal, "p", name, verb] if _names(tenant, principal, name):
            return ToProfile(Caller(tenant, principal), ProfileKey(tenant, name), verb)
        case ["lessor", "v1", tenant, principal, "p", name, epoch, verb] if _names(tenant, principal, name):
            if not _EPOCH.fullmatch(epoch):
                return None
            return ToProfile(Caller(tenant, principal), ProfileKey(tenant, name), verb, int(epoch))
        case ["lessor", "v1", tenant, principal, "r", name, verb] if _names(tenant, principal, name):
            return ToRun(Caller(tenant, principal), RunKey(tenant, name), verb)
        case ["lessor", "v1", tenant, principal, "h", host, "renew"] if _names(tenant, principal, host):
            return ToHost(Caller(tenant, principal), host)
        case ["lessor", "v1", tenant, principal, "list" | "runs" as verb] if _names(tenant, principal):
            return ToList(Caller(tenant, principal), verb)
        case _:
            return None


def misnamed(subject: str) -> bool:
    """Whether it is meant for a host but a name in it is none."""
    return subject.startswith(f"{_ROOT}.") and parse(subject) is None


def may_answer(asked: str, reply: str) -> bool:
    """Whether `reply` is an inbox that whoever published on `asked` may have.

    A host may publish anywhere and answers where it is told to: to another's inbox, or into a journal, if it did
    not look. What is below `_INBOX.<tenant>.<principal>.` belongs to that caller; a shorter inbox to nobody
    who has permissions, so it serves on a broker without any; `_R_` is the broker's own, between accounts.
    """
    tokens = reply.split(".")
    if "*" in tokens or ">" in tokens:
        return False
    match tokens:
        case ["_INBOX", _] | ["_INBOX", _, _]:
            return True
        case ["_INBOX", tenant, principal, *_]:
            return asked.startswith(f"{_ROOT}.{tenant}.{principal}.")
        case _:
            return tokens[0] == "_R_"


def named(caller: Caller) -> bool:
    """Whether a caller's names are names: they go into subjects and file names."""
    return _names(caller.tenant, caller.principal)


def _names(*tokens: str) -> bool:
    return all(_NAME.fullmatch(token) for token in tokens)


@dataclass(frozen=True, slots=True)
class Shard:
    """Subjects and names of one stream. What a profile writes expects by the filter `chain(key)`."""

    number: int = 0

    @property
    def stream(self) -> str:
        return f"LESSOR_{self.number}"

    @property
    def bucket(self) -> str:
        return f"lessor_{self.number}_sealed"

    @property
    def everything(self) -> str:
        return f"lessor.{self.number}.>"

    @property
    def owns(self) -> str:
        return f"lessor.{self.number}.p.*.*.own"

    def owns_of(self, tenant: str) -> str:
        return f"lessor.{self.number}.p.{tenant}.*.own"

    def chain(self, key: ProfileKey) -> str:
        return f"lessor.{self.number}.p.{key.tenant}.{key.profile}.>"

    def own(self, key: ProfileKey) -> str:
        return f"lessor.{self.number}.p.{key.tenant}.{key.profile}.own"

    def journal(self, key: ProfileKey) -> str:
        return f"lessor.{self.number}.p.{key.tenant}.{key.profile}.journal"

    def run(self, key: RunKey) -> str:
        return f"lessor.{self.number}.run.{key.tenant}.{key.run}"

    def runs_of(self, tenant: str) -> str:
        return f"lessor.{self.number}.run.{tenant}.*"

    def host(self, host: str) -> str:
        return f"lessor.{self.number}.host.{host}"

    @staticmethod
    def is_own(subject: str) -> bool:
        return subject.endswith(".own")

    @staticmethod
    def profile_of(subject: str) -> ProfileKey:
        """The profile a chain subject of ours belongs to."""
        _, _, _, tenant, name, _ = subject.split(".")
        return ProfileKey(tenant, name)


@dataclass(frozen=True, slots=True)
class Addresses:
    """`ports.Addresses` of one caller."""

    caller: Caller

    def profile(self, profile: str, verb: str) -> str:
        return f"{_ROOT}.{self.caller.tenant}.{self.caller.principal}.p.{profile}.{verb}"

    def run(self, run: str, verb: str) -> str:
        return f"{_ROOT}.{self.caller.tenant}.{self.caller.principal}.r.{run}.{verb}"

    def renew(self, host: str) -> str:
        return renew(self.caller, host)

    def listing(self) -> str:
        return listing(self.caller)

    def runs(self) -> str:
        return runs(self.caller)
