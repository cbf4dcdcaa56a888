"""What the journal costs: the same act, on the same kind of page, with the broker's journal and with one in memory."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import lessor
from benchmarks.acting import button_of
from benchmarks.measure import Once, Times, paired
from lessor.broker.embedded import Embedded, Endpoint
from lessor.broker.jetstream import Stream
from lessor.broker.journal import StreamJournal
from lessor.broker.subjects import Shard
from lessor.client import Lease
from lessor.config import Config
from lessor.messages.ids import ProfileKey
from lessor.messages.record import Entry, Own
from lessor.ports import Chain, Journal, Landed, Superseded
from lessor.runtime import Host


class Forgetful:
    """`ports.Journal` without a disk."""

    def __init__(self, _stream: Stream, _shard: Shard) -> None:
        self._chains: dict[ProfileKey, Chain] = {}
        self._last = 0

    async def append(self, key: ProfileKey, message: Entry | Own, expected: int) -> Landed | Superseded:
        chain = self._chain(key)
        if chain.last != expected:
            return Superseded(chain.last)
        self._last += 1
        if isinstance(message, Own):
            self._chains[key] = Chain(self._last, message, self._last, chain.entries)
        else:
            entries = (*chain.entries[-1:], (self._last, message))
            self._chains[key] = Chain(self._last, chain.own, chain.own_sequence, entries)
        return Landed(self._last)

    def _chain(self, key: ProfileKey) -> Chain:
        return self._chains.get(key, Chain(0, None, 0))

    async def head(self, key: ProfileKey) -> Chain:
        return self._chain(key)

    async def replay(self, key: ProfileKey, at_least: int) -> Chain:
        assert self._chain(key).last >= at_least
        return self._chain(key)

    async def owned_by(self, host: str) -> tuple[ProfileKey, ...]:  # noqa: ARG002 -- the protocol names it
        return ()

    async def profiles(self, tenant: str) -> tuple[tuple[ProfileKey, Own], ...]:  # noqa: ARG002 -- as above
        return ()


@asynccontextmanager
async def leased(directory: Path, journal: type[Forgetful] | type[StreamJournal], url: str) -> AsyncIterator[Lease]:
    """A lease of a host of its own, broker included, whose owner writes to that journal."""
    broker = Embedded(directory / "broker")
    endpoint = broker.start()
    assert isinstance(endpoint, Endpoint), endpoint

    def make(stream: Stream, shard: Shard) -> Journal:
        return journal(stream, shard)

    async with AsyncExitStack() as stack:
        stack.callback(broker.stop)
        config = Config(data_dir=directory, live_dir=directory / "live", host="bench")
        host = Host(config, endpoint, journal=make)
        await host.open()
        stack.push_async_callback(host.close)
        client = await stack.enter_async_context(lessor.connect(endpoint.url, credentials=endpoint.credentials))
        await client.create_profile("cost", origins=["/".join(url.split("/")[:3])])
        run = await stack.enter_async_context(client.run("cost", deadline_s=3500))
        lease = await run.acquire("cost", horizon_s=900)
        await lease.navigate(url)
        yield lease
        await lease.close(discard=True)


async def journaling(directory: Path, url: str, times: int) -> tuple[Times, Times]:
    """An act journaled, and the same act unjournaled."""
    async with (
        leased(directory / "written", StreamJournal, url) as written,
        leased(directory / "forgotten", Forgetful, url) as forgotten,
    ):
        return await paired(await _clicks(written), await _clicks(forgotten), times)


async def _clicks(lease: Lease) -> Once:
    button = button_of(await lease.observe())

    async def click() -> None:
        nonlocal button
        done = await lease.act(lessor.Click(ref=button))
        assert done.page is not None
        button = button_of(done.page)

    return click
