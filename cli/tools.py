"""Tools of whoever runs the hosts: the hosts' keys, the store, every profile's chain. Run them where a host runs."""

import asyncio
import os
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import TypeVar

import msgspec

from lessor.broker.connection import Settings, open_connection
from lessor.broker.embedded import endpoint_of
from lessor.broker.journal import StreamJournal
from lessor.broker.line import BrokerLine
from lessor.broker.stream import open_stream
from lessor.broker.subjects import Addresses, Shard
from lessor.broker.vault import ObjectVault, open_vault
from lessor.browser import envelope
from lessor.browser.envelope import Whose
from lessor.browser.keyring import Keyring
from lessor.cli.call import Where
from lessor.config import Config
from lessor.errors import Code, Problem, error_of, problem
from lessor.ids import fresh_id
from lessor.journal import Ledger, fold
from lessor.messages.ids import Caller, ProfileKey
from lessor.messages.reply import GenerationsTold, GenerationView, ProfileTold, Refused
from lessor.messages.request import Rewrap
from lessor.ports import BrokerAway, Silence
from lessor.runtime import broker_directory, settings_of

T = TypeVar("T")

REWRAP_S = 60.0
CLOSING_S = 0.2
CLOSING_TRIES_MAX = 25
"""A close is answered a little before its browser is gone; one whose seal is retried is not waited for."""


@dataclass(frozen=True, slots=True)
class Tools:
    """Belongs to one call. Every method raises LessorError or BrokerAway."""

    config: Config
    settings: Settings
    stack: AsyncExitStack
    keyring: Keyring
    vault: ObjectVault
    journal: StreamJournal
    lines: dict[Caller, BrokerLine] = field(default_factory=dict[Caller, BrokerLine])

    def whose(self, caller: Caller, profile: ProfileTold, generation: int, origins: tuple[str, ...]) -> Whose:
        return Whose(
            tenant=caller.tenant,
            profile=profile.profile,
            principal=profile.principal,
            provider="chromium",
            origins=tuple(sorted(origins)),
            generation=generation,
        )

    async def fetch(self, view: GenerationView) -> bytes:
        sealed = await self.vault.get(view.object, view.sha256)
        if sealed is None:
            lost = f"Generation {view.generation} is missing or damaged in the store: take another one."
            raise error_of(problem(Code.NEEDS_USER, lost))
        return sealed

    async def unseal(self, view: GenerationView, whose: Whose) -> bytes:
        return _value(await asyncio.to_thread(envelope.open_, await self.fetch(view), whose, self.keyring))

    async def put(self, caller: Caller, profile: str, told: GenerationsTold, sealed: bytes) -> tuple[str, str]:
        """Into the store, as the next generation's object: its name and digest. Swept if nobody commits it."""
        name = f"{caller.tenant}/{profile}/{told.next}-{told.epoch}-{fresh_id()}"
        return name, await self.vault.put(name, sealed)

    async def used(self) -> dict[str, list[str]]:
        """Which profiles have kept generations under which key, as their journals tell."""
        found: dict[str, list[str]] = {}
        for key, own in await self.journal.everyones():
            if own.state != "deleted":
                for version in sorted({sealed.key_id for sealed in (await self._ledger(key)).kept}):
                    found.setdefault(version, []).append(str(key))
        return found

    async def _ledger(self, key: ProfileKey) -> Ledger:
        ledger = Ledger()
        for sequence, entry in (await self.journal.replay(key, 0)).entries:
            fold(ledger, sequence, entry)
        return ledger

    async def profiles(self) -> tuple[tuple[str, Caller], ...]:
        """Every profile of every tenant, and as whom to ask about it."""
        everyones = await self.journal.everyones()
        return tuple(
            (key.profile, Caller(key.tenant, own.principal))
            for key, own in everyones
            if own.principal is not None and own.state != "deleted"
        )

    async def rewrap(self, profile: str, caller: Caller, version: str) -> Problem | None:
        """None: its owner says that all it keeps is under that key, and that nothing is being sealed."""
        request = Rewrap(id=fresh_id(), budget_s=REWRAP_S, key=version)
        subject = Addresses(caller).profile(profile, "rewrap")
        for _ in range(CLOSING_TRIES_MAX):
            heard = await (await self._line(caller)).ask(subject, request, REWRAP_S + 0.5)
            if not isinstance(heard, Refused) or heard.error.code is not Code.CLOSING:
                break
            await asyncio.sleep(CLOSING_S)
        else:
            return problem(Code.CLOSING, "Its lease is closing.")
        match heard:
            case GenerationsTold():
                return None
            case Refused(error=error):
                return error
            case Problem():
                return heard
            case Silence():
                return problem(Code.BROKER_UNAVAILABLE, "No host answers: start one, then ask again.")
            case _:
                return problem(Code.OUTPUT_INVALID, "The answer is another one: check the versions on both sides.")

    async def _line(self, caller: Caller) -> BrokerLine:
        """A connection for each: hosts answer only to the inboxes of whom they were asked by."""
        if caller not in self.lines:
            mine = replace(self.settings, inbox_prefix=f"_INBOX.{caller.tenant}.{caller.principal}")
            connection = _value(await open_connection(mine))
            self.stack.push_async_callback(connection.close)
            self.lines[caller] = BrokerLine(connection)
        return self.lines[caller]


@asynccontextmanager
async def tools(where: Where) -> AsyncGenerator[Tools, None]:
    """Raises LessorError: `broker_unavailable`, `setup_failed`. A broker that answers no more is one of them."""
    config = where.config()
    if where.nats is not None:
        config = msgspec.structs.replace(config, nats_url=where.nats)
    endpoint = None if config.nats_url is not None else _value(endpoint_of(broker_directory(config)))
    settings = settings_of(config, endpoint, f"tools {os.getpid()}")
    async with AsyncExitStack() as stack:
        connection = _value(await open_connection(settings))
        stack.push_async_callback(connection.close)
        try:
            stream = _value(await open_stream(connection, Shard(), config.nats_replicas))
            vault = _value(await open_vault(connection, Shard(), config.nats_replicas))
            keyring, journal = Keyring(config.data_dir / "keys"), StreamJournal(stream, Shard())
            yield Tools(config, settings, stack, keyring, vault, journal)
        except BrokerAway as error:
            away = problem(Code.BROKER_UNAVAILABLE, f"The broker does not answer ({error}): ask again.")
            raise error_of(away) from error


def _value(value: T | Problem) -> T:
    if isinstance(value, Problem):
        raise error_of(value)
    return value
