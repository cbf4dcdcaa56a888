"""Reading journals from the broker itself: an audit must not rest on the word of whoever wrote them.

That takes more rights than a worker has: on a broker with permissions these commands are its operator's.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import msgspec

from lessor import audit
from lessor.audit import Line
from lessor.broker.connection import Connection, Settings, open_connection
from lessor.broker.embedded import endpoint_of
from lessor.broker.jetstream import Stream
from lessor.broker.stream import open_stream
from lessor.broker.subjects import HOST_INBOX, Shard
from lessor.cli.call import Where, whoami
from lessor.errors import Code, Problem, error_of, problem
from lessor.messages import wire
from lessor.messages.ids import ProfileKey
from lessor.messages.record import Entry
from lessor.ports import BrokerAway

FOLLOWED_MAX = 10_000
"""Entries that wait to be shown: what a slow terminal may be behind."""


@dataclass(frozen=True, slots=True)
class Book:
    """One profile's journal as it is stored."""

    profile: str
    stored: tuple[audit.Stored, ...]

    def entries(self) -> list[tuple[int, Entry]]:
        """Raises LessorError (`unsupported`) at what this version cannot read."""
        return [(sequence, _entry(sequence, data)) for sequence, data in self.stored]


def _entry(sequence: int, data: bytes) -> Entry:
    try:
        return wire.decode(data, Entry)
    except msgspec.DecodeError:
        unread = f"Entry {sequence} cannot be read: it is of a newer lessor, or was altered (lessor journal verify)."
        raise error_of(problem(Code.UNSUPPORTED, unread)) from None


def _settings(where: Where) -> Settings:
    config = where.config()
    url = where.nats or config.nats_url
    if url is None:
        endpoint = endpoint_of(config.data_dir / "broker")
        if isinstance(endpoint, Problem):
            raise error_of(endpoint)
        return Settings((endpoint.url,), "journal", inbox_prefix=HOST_INBOX, credentials=endpoint.credentials)
    return Settings(
        tuple(url.split(",")),
        "journal",
        inbox_prefix=HOST_INBOX,
        token=config.nats_token,
        user=config.nats_user,
        password=config.nats_password,
        credentials=config.nats_credentials,
    )


class Books:
    """The journals of the caller's tenant."""

    def __init__(self, tenant: str, connection: Connection, stream: Stream) -> None:
        self._tenant, self._connection, self._stream, self._shard = tenant, connection, stream, Shard()

    @classmethod
    @asynccontextmanager
    async def opened(cls, where: Where) -> AsyncGenerator["Books", None]:
        """With the host's own credentials, or those of an operator's broker. Raises LessorError."""
        connection = await open_connection(_settings(where))
        if isinstance(connection, Problem):
            raise error_of(connection)
        try:
            stream = await open_stream(connection, Shard())
            if isinstance(stream, Problem):
                raise error_of(stream)
            yield cls(whoami().tenant, connection, stream)
        finally:
            await connection.close()

    async def profiles(self) -> tuple[str, ...]:
        found = await self._scan(self._shard.owns_of(self._tenant))
        return tuple(sorted({Shard.profile_of(subject).profile for subject, _, _ in found}))

    async def book(self, profile: str) -> Book:
        found = await self._scan(self._shard.journal(ProfileKey(self._tenant, profile)))
        return Book(profile, tuple((sequence, data) for _, sequence, data in found))

    async def about(self, name: str) -> tuple[list[Book], str | None]:
        """The journal of a profile, or those that say something about a run, with the run. Raises `not_found`."""
        profiles = await self.profiles()
        if name in profiles:
            return [await self.book(name)], None
        books = [await self.book(profile) for profile in profiles]
        found = [book for book in books if audit.lines(book.profile, book.entries(), name)]
        if not found:
            missing = f"There is no profile {name!r}, and no run of that name in any journal: lessor profile list."
            raise error_of(problem(Code.NOT_FOUND, missing))
        return found, name

    async def follow(self, books: Sequence[Book], run: str | None) -> AsyncIterator[Line]:
        """What is written behind the books, without a gap: subscribed first, then read what came in between."""
        heard: asyncio.Queue[tuple[str, bytes]] = asyncio.Queue(FOLLOWED_MAX)
        concerns, told = audit.Concerns(run), set[str]()
        for book in books:
            await self._subscribe(book.profile, heard)
            for sequence, data in (await self.book(book.profile)).stored:
                if sequence > (book.stored[-1][0] if book.stored else 0):
                    heard.put_nowait((book.profile, data))
            for _, entry in book.entries():
                for record in entry.records:
                    concerns(record)
        while True:
            profile, data = await heard.get()
            entry = _entry(0, data)
            if entry.nonce in told:
                continue
            told.add(entry.nonce)
            for record in entry.records:
                if concerns(record):
                    yield Line(profile, 0, entry, record)

    async def _subscribe(self, profile: str, heard: "asyncio.Queue[tuple[str, bytes]]") -> None:
        async def hear(message: Any) -> None:
            heard.put_nowait((profile, message.data))

        await self._connection.subscribe(self._shard.journal(ProfileKey(self._tenant, profile)), hear)

    async def _scan(self, subject: str) -> list[tuple[str, int, bytes]]:
        try:
            found = await self._stream.scan(subject)
        except BrokerAway:
            away = problem(Code.BROKER_UNAVAILABLE, "The broker does not give the journal in time: ask again.")
            raise error_of(away) from None
        return [(stored.subject, stored.sequence, stored.data) for stored in found]
