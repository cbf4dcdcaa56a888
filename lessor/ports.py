"""What the actors need from outside: protocols, one screen. Real things live in broker and browser, models in tests.

Everything async here runs on the one event loop; actors start it and get the result as a message.
Methods answer with values for what can be expected and raise only for bugs.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from lessor.errors import OpenDialog, Problem
from lessor.findings import Away, NotSent, Paused, Sent, Target
from lessor.messages.action import AnyAction, Artifact, Match, Observation, PageView, TabView
from lessor.messages.health import HealthCheck
from lessor.messages.ids import Caller, ProfileKey, RunKey
from lessor.messages.policy import DEFAULT, PagePolicy
from lessor.messages.record import Entry, HostSession, Own
from lessor.messages.reply import AnyReply, Reply
from lessor.messages.request import ListProfiles, ListRuns, ProfileRequest, RenewAll, Request, RunRequest
from lessor.messages.run import RunReading, RunRecord

__all__ = ["Away", "NotSent", "Paused", "Sent", "Target"]  # what page operations find, for whoever implements them


class Clock(Protocol):
    """CLOCK_BOOTTIME for rules, wall clock only for what people read."""

    @property
    def boot(self) -> str: ...
    def now_ms(self) -> int: ...
    def unix_ms(self) -> int: ...


class Pacer(Clock, Protocol):
    """A clock that can also be waited on, between polls."""

    async def wait(self, seconds: float) -> None: ...


@dataclass(frozen=True, slots=True)
class Landed:
    sequence: int


@dataclass(frozen=True, slots=True)
class Superseded:
    """Somebody else wrote the chain: whoever gets this no longer owns the profile."""

    last: int


@dataclass(frozen=True, slots=True)
class Chain:
    """All a profile's journal says, up to `last` (0: nothing was ever written)."""

    last: int
    own: Own | None
    own_sequence: int
    entries: tuple[tuple[int, Entry], ...] = ()
    tail: str = ""
    """sha256 of the last entry as it is stored; "" without one."""


class Journal(Protocol):
    """One chain per profile; each write expects the last sequence of the whole chain."""

    async def append(self, key: ProfileKey, message: Entry | Own, expected: int) -> Landed | Superseded:
        """Repeat unchanged until acknowledged or refused; returns only then. An `Own` goes to `own`, rolled up."""
        ...

    async def head(self, key: ProfileKey) -> Chain:
        """`last`, `own`, without entries. Raises BrokerAway after its bound, UnknownRecord. Reads never authorise."""
        ...

    async def replay(self, key: ProfileKey, at_least: int) -> Chain:
        """The whole chain, at least up to that sequence. Raises BrokerAway after its bound (10 s), UnknownRecord."""
        ...

    async def owned_by(self, host: str) -> tuple[ProfileKey, ...]:
        """Profiles whose `own` names the host as active: what a restarted host must settle."""
        ...

    async def profiles(self, tenant: str) -> tuple[tuple[ProfileKey, Own], ...]: ...


class BrokerAway(Exception):
    """The broker did not answer within the bound of a read."""


class UnknownRecord(Exception):
    """A chain holds what this version cannot read: the profile is not ours to own (architecture, Subjects)."""


class Vault(Protocol):
    """Sealed state by unique name, immutable."""

    async def put(self, name: str, sealed: bytes) -> str:
        """Store, read back, and return the sha256 in hex of what was read. Raises BrokerAway."""
        ...

    async def get(self, name: str, sha256: str) -> bytes | None:
        """None when it is absent or its digest differs."""
        ...

    async def delete(self, name: str) -> None: ...
    async def names(self, key: ProfileKey) -> tuple[str, ...]: ...


class Runs(Protocol):
    """Run records. `write` is compare-and-set on the revision (0: must not exist)."""

    async def read(self, key: RunKey) -> RunReading | Problem:
        """A Problem (`broker_unavailable`) when it cannot be read: then nothing may rest on it (contract 16)."""
        ...

    async def write(self, key: RunKey, record: RunRecord, revision: int) -> int | Problem | None:
        """The new revision; None when somebody else wrote first."""
        ...

    async def of_tenant(self, tenant: str) -> tuple[RunReading, ...]:
        """All runs of a tenant, the newest change first. For people: nothing rests on it. Raises BrokerAway."""
        ...


class Hosts(Protocol):
    """This host's session in the broker, and who else lives."""

    async def begin(self, session: HostSession) -> bool:
        """Write the session over this host's own earlier incarnation. False: another process lives under this name."""
        ...

    async def beat(self) -> int | None:
        """Send time on the boot clock of an acknowledged beat; None: the session was lost and cannot be revived."""
        ...

    async def alive(self, host: str) -> HostSession | None: ...
    async def end(self) -> None: ...


@dataclass(frozen=True, slots=True)
class BrowserSpec:
    """A browser to start or to find again. `until_ms` is the keeper's first deadline, on the boot clock."""

    key: ProfileKey
    principal: str
    provider: str
    epoch: int
    instance: str
    until_ms: int
    origins: tuple[str, ...]
    strict: bool
    sealed: bytes | None
    """Sealed state to restore; None starts fresh or, when finding, keeps what the page has."""
    generation: int
    sealed_origins: tuple[str, ...] | None = None
    """What the sealed state was authenticated with; None: `origins`."""
    target: str | None = None
    """Set when finding: the main tab of the lease."""
    policy: PagePolicy = DEFAULT


@dataclass(frozen=True, slots=True)
class FileFound:
    """A whole file, already encrypted for its artifact id."""

    artifact: Artifact
    sealed: bytes
    key_id: str


@dataclass(frozen=True, slots=True)
class FileSpec:
    """Whose file a sealed one is."""

    key: ProfileKey
    principal: str
    instance: str
    artifact: str


@dataclass(frozen=True, slots=True)
class Binding:
    """What a sealed state is bound to: it opens for nothing else."""

    key: ProfileKey
    principal: str
    provider: str
    origins: tuple[str, ...]
    generation: int


class Session(Protocol):
    """One live browser under one epoch. Every method is bounded by `deadline_ms` (boot clock) and answers by then."""

    @property
    def target(self) -> str: ...
    @property
    def instance(self) -> str: ...
    async def navigate(self, tab: str, url: str, deadline_ms: int) -> PageView | Problem | Away: ...
    async def observe(self, tab: str, deadline_ms: int) -> Observation | Problem | Away: ...
    async def aim(
        self, tab: str, revision: str, action: AnyAction, match: Match, deadline_ms: int
    ) -> Target | Problem | Away:
        """The dry run: present, visible, enabled, uncovered, unchanged. Touches nothing."""
        ...

    async def dispatch(
        self, tab: str, action: AnyAction, target: Target, deadline_ms: int
    ) -> Sent | NotSent | Paused | Away:
        """The one input, once; then settle and look. Only GONE, FENCED and SILENT leave the outcome open; after
        `Paused` the rest is had from `resume`."""
        ...

    async def resume(self, told: str) -> Sent | NotSent | Paused | Away:
        """The rest of the dispatch that the dialog `told` paused, by the dispatch's deadline; `Paused` again when
        another dialog opens."""
        ...

    async def tabs(self, close: str | None, deadline_ms: int) -> tuple[TabView, ...] | Problem | Away:
        """The lease's tabs, after `close` was closed."""
        ...

    def hear_files(self, on_file: Callable[[FileFound], None]) -> None:
        """Call it on the loop for every file that is whole from now on."""
        ...

    async def artifacts(self, cancel: str | None, deadline_ms: int) -> tuple[Artifact, ...] | Problem | Away:
        """The lease's files, after `cancel` was stopped."""
        ...

    async def answer_dialog(
        self, dialog: str, accept: bool, text: str, deadline_ms: int
    ) -> OpenDialog | Problem | Away:
        """Close that dialog, once; another one is left alone."""
        ...

    async def seal(self, generation: int, deadline_ms: int) -> "SealedState | Problem | Away":
        """Export cookies, localStorage, IndexedDB and encrypt them for `generation`."""
        ...

    async def check(self, wanted: HealthCheck, deadline_ms: int) -> Problem | Away | None:
        """Run the health check in a tab of its own: None when it passed, `authentication_required` when it did not."""
        ...

    async def extend(self, until_ms: int) -> int | None:
        """The keeper's acknowledged deadline; None when it refused or is gone."""
        ...

    async def kill(self) -> int | None:
        """End browser and egress; when that was confirmed, the boot-clock ms of it; None: not confirmed in time."""
        ...

    async def cancel(self) -> None:
        """Stop the read under way, if any; a dispatched input is not called back."""
        ...


@dataclass(frozen=True, slots=True)
class SealedState:
    sealed: bytes
    key_id: str


class Browser(Protocol):
    """The engine: starts and finds browsers. `on_gone` is called once, on the loop, when the browser dies."""

    async def start(self, spec: BrowserSpec, on_gone: Callable[[], None]) -> Session | Problem: ...
    async def find(self, spec: BrowserSpec, on_gone: Callable[[], None]) -> Session | None:
        """Re-adopt the page of a keeper that outlived its host: same page, guards back before the first request."""
        ...

    async def open_file(self, spec: FileSpec, sealed: bytes) -> bytes | Problem:
        """Decrypt a file that a session gave."""
        ...

    async def reseal(self, sealed: bytes, was: Binding, becomes: Binding) -> SealedState | Problem:
        """Open what was sealed as `was` and encrypt it as `becomes`, with the current key. No browser is needed."""
        ...

    async def confirm_gone(self, instance: str) -> int | None:
        """Boot-clock ms at which that browser is confirmed not to run; None when it may."""
        ...

    async def close(self) -> None:
        """Leave live keepers alone, end warm ones and the driver."""
        ...


Answer = Callable[[Reply], None]
"""Reply slot: call once, from any thread."""


@dataclass(frozen=True, slots=True)
class Call:
    """A decoded request as the gateway hands it over. `arrived_ms` is the boot clock."""

    caller: Caller
    key: ProfileKey
    request: ProfileRequest
    arrived_ms: int
    answer: Answer
    forward: Callable[[str], None]
    """Pass the request on, unchanged, to the host of that name, which answers the caller itself."""


@dataclass(frozen=True, slots=True)
class RunCall:
    caller: Caller
    key: RunKey
    request: RunRequest
    arrived_ms: int
    answer: Answer


@dataclass(frozen=True, slots=True)
class HostCall:
    """Asked of this host itself: a worker's tick, or a list of the caller's profiles or runs."""

    caller: Caller
    request: RenewAll | ListProfiles | ListRuns
    arrived_ms: int
    answer: Answer


class Doors(Protocol):
    """Where an owner's own route is opened: subjects with its epoch in them (architecture, Subjects)."""

    def open(self, key: ProfileKey, principal: str, epoch: int, deliver: Callable[[Call], None]) -> str:
        """Serve the route and return it. Any thread."""
        ...

    def shut(self, key: ProfileKey, epoch: int) -> None: ...


class Silence(Enum):
    """Why a question over the wire has no answer."""

    NO_RESPONDERS = "no_responders"
    TIMEOUT = "timeout"
    DISCONNECTED = "disconnected"
    FORBIDDEN = "forbidden"


class Line(Protocol):
    """The worker's line to hosts. Nothing is buffered while the broker is away; nothing is sent twice."""

    async def ask(self, subject: str, request: Request[Reply], timeout_s: float) -> AnyReply | Problem | Silence: ...


class Addresses(Protocol):
    """Subjects of one caller, by what is asked."""

    def profile(self, profile: str, verb: str) -> str: ...
    def run(self, run: str, verb: str) -> str: ...
    def renew(self, host: str) -> str: ...
    def listing(self) -> str: ...
    def runs(self) -> str: ...
