"""What actors tell each other, and the ports they share."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pykka

from lessor.errors import Problem
from lessor.limits import Limits
from lessor.messages.ids import ProfileKey
from lessor.messages.reply import RenewalException
from lessor.ports import Browser, Clock, Doors, Hosts, Journal, Runs, Vault


@dataclass(frozen=True, slots=True)
class Ports:
    """Everything outside that an owner needs."""

    clock: Clock
    journal: Journal
    vault: Vault
    runs: Runs
    hosts: Hosts
    browser: Browser
    doors: Doors
    fresh: Callable[[], str]
    """An id that nobody else has."""
    limits: Limits
    host: str
    incarnation: str


@dataclass(frozen=True, slots=True)
class Beat:
    """The host's session is good until then, less the margin: keepers may be extended to it."""

    until_ms: int


@dataclass(frozen=True, slots=True)
class Sweep:
    """Look whether the run that holds the lease still needs the page."""


@dataclass(frozen=True, slots=True)
class WantBrowser:
    """Told to the parent: this owner would start a browser; answered with `MayStart`."""

    key: ProfileKey
    ref: "pykka.ActorRef[Any]"
    instance: str


@dataclass(frozen=True, slots=True)
class MayStart:
    """The parent's answer: `refused` says why not."""

    instance: str
    refused: Problem | None


@dataclass(frozen=True, slots=True)
class Standing:
    """Told to the parent when it changes: whether the profile has a browser (None: one starts), and who waits."""

    key: ProfileKey
    live: bool | None
    run: str | None
    waiting: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class DrainAll:
    """Seal and close every lease, give every profile back; `done` is called when none is left. Any thread."""

    done: Callable[[], None]


@dataclass(frozen=True, slots=True)
class RenewTick:
    """A worker's tick: answered with what cannot be renewed any more, or with the owner whose lease is to be."""

    worker: str
    principal: str
    tenant: str
    excepted: tuple[str, ...]
    answer: "Callable[[RenewalException | None, pykka.ActorRef[Any] | None], None]"


@dataclass(frozen=True, slots=True)
class RenewNow:
    """Behind a tick: this owner's lease has little time left and its worker needs it."""

    worker: str


@dataclass(frozen=True, slots=True)
class Rested:
    """Told to the parent: the ownership was given back, or was never ours; calls are passed up from here."""

    key: ProfileKey
    ref: "pykka.ActorRef[Any]"
