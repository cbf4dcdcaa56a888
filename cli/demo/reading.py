"""Reading the journal along, over a connection of the demo's own: what it tells is not what a worker told us."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from lessor.broker.connection import Connection, open_connection
from lessor.broker.embedded import endpoint_of
from lessor.broker.journal import StreamJournal
from lessor.broker.stream import open_stream
from lessor.broker.subjects import Shard
from lessor.cli.demo.plan import PROFILE, TENANT
from lessor.config import Config
from lessor.errors import Problem, error_of
from lessor.messages import wire
from lessor.messages.ids import ProfileKey
from lessor.messages.record import AnyRecord, Entry
from lessor.runtime import broker_directory, settings_of

KEY = ProfileKey(TENANT, PROFILE)
Entries = Sequence[tuple[int, Entry]]


class Reading:
    """The demo's profile in the journal: as a whole, and as it is written."""

    def __init__(self, connection: Connection, journal: StreamJournal) -> None:
        self._connection = connection
        self._journal = journal

    def __repr__(self) -> str:
        return f"<Reading {KEY}>"

    @classmethod
    async def open(cls, data_dir: Path, told: Callable[[AnyRecord], None]) -> "Reading":
        """`told` hears each record when it is written. Raises LessorError."""
        config = Config(data_dir=data_dir)
        endpoint = endpoint_of(broker_directory(config))
        if isinstance(endpoint, Problem):
            raise error_of(endpoint)
        connection = await open_connection(settings_of(config, endpoint, "demo"))
        if isinstance(connection, Problem):
            raise error_of(connection)
        shard = Shard()
        stream = await open_stream(connection, shard)
        if isinstance(stream, Problem):
            raise error_of(stream)

        async def heard(message: Any) -> None:
            for record in wire.decode(message.data, Entry).records:
                told(record)

        await connection.subscribe(shard.journal(KEY), heard)
        return cls(connection, StreamJournal(stream, shard))

    async def entries(self) -> Entries:
        """The whole journal of the profile. Raises BrokerAway after 10 s."""
        return (await self._journal.replay(KEY, 0)).entries

    async def close(self) -> None:
        await self._connection.close()
