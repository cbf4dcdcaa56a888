"""What a replay must survive on the way from the broker."""

from collections.abc import AsyncIterator

import pytest
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription

from lessor.broker.connection import Connection, Deliver
from lessor.broker.embedded import Endpoint
from lessor.broker.jetstream import Ack, Stream
from lessor.broker.journal import StreamJournal
from lessor.broker.stream import open_stream
from lessor.broker.subjects import Shard
from lessor.messages import wire
from lessor.messages.ids import ProfileKey
from lessor.messages.record import Entry, Own, Read
from lessor.ports import BrokerAway, Landed, UnknownRecord
from tests.support.broker import connect, fresh

SHARD = Shard()
READ = Read(lease="l", claim=1, do="observe", tab="main", url="https://shop.example/")


class ForgetfulConnection(Connection):
    """Loses some messages, as the client does when a subscription holds too many."""

    def __init__(self, whole: Connection, lost: set[int]) -> None:
        super().__init__(whole.client, whole.settings)
        self._lost = lost
        self._seen = 0

    async def subscribe(self, subject: str, deliver: Deliver, queue: str = "") -> Subscription:
        async def forget(message: Msg) -> None:
            self._seen += 1
            if self._seen not in self._lost:
                await deliver(message)

        return await super().subscribe(subject, forget, queue)


@pytest.fixture
async def stream(endpoint: Endpoint) -> AsyncIterator[Stream]:
    connection = await connect(endpoint)
    opened = await open_stream(connection, SHARD)
    assert isinstance(opened, Stream)
    yield opened
    await connection.close()


async def chain_of(stream: Stream, key: ProfileKey, count: int) -> int:
    journal, last = StreamJournal(stream, SHARD), 0
    for number in range(count):
        entry = Entry(epoch=1, nonce=f"n{number}", boot="b", at_ms=number, records=(READ,))
        told = await journal.append(key, entry, last)
        assert isinstance(told, Landed)
        last = told.sequence
    return last


@pytest.mark.parametrize("lost", [{1}, {3}, {10}, {2, 11, 12}])
async def test_a_message_lost_on_the_way_leaves_no_hole(stream: Stream, lost: set[int]) -> None:
    key = ProfileKey("acme", fresh("p"))
    last = await chain_of(stream, key, 10)
    forgetful = Stream(ForgetfulConnection(stream.connection, lost), SHARD.stream)

    chain = await StreamJournal(forgetful, SHARD).replay(key, last)

    assert [f"n{number}" for number in range(10)] == [entry.nonce for _, entry in chain.entries]


async def test_only_the_last_own_is_kept(stream: Stream) -> None:
    key, journal = ProfileKey("acme", fresh("p")), StreamJournal(stream, SHARD)
    expected = await chain_of(stream, key, 1)
    for number in range(2):
        own = Own(host="h", incarnation="i", nonce=f"o{number}", boot="b", at_ms=1, state="active")
        told = await journal.append(key, own, expected)
        assert isinstance(told, Landed)
        expected = told.sequence

    assert [expected] == [stored.sequence for stored in await stream.scan(SHARD.own(key))]


async def test_a_reading_that_stays_behind_is_no_answer(stream: Stream) -> None:
    key = ProfileKey("acme", fresh("p"))
    last = await chain_of(stream, key, 1)
    with pytest.raises(BrokerAway):
        await StreamJournal(stream, SHARD, replay_s_max=0.1).replay(key, last + 1)


async def test_a_record_of_a_newer_lessor_is_not_ours_to_own(stream: Stream) -> None:
    key, host = ProfileKey("acme", fresh("p")), fresh("h")
    body = b'{"epoch":1,"nonce":"n","boot":"b","at_ms":1,"records":[{"kind":"teleported"}]}'
    told = await stream.publish(SHARD.journal(key), body, {})
    assert isinstance(told, Ack)
    with pytest.raises(UnknownRecord):
        await StreamJournal(stream, SHARD).replay(key, told.sequence)

    other = ProfileKey("acme", fresh("p"))
    await stream.publish(SHARD.own(other), b'{"nonce":"n","state":"transcended"}', {})
    own = Own(host=host, incarnation="i", nonce="n", boot="b", at_ms=1, state="active")
    mine = ProfileKey("acme", fresh("p"))
    await stream.publish(SHARD.own(mine), wire.encode(own), {})
    assert (mine,) == await StreamJournal(stream, SHARD).owned_by(host)


async def test_unknown_fields_of_a_newer_lessor_are_ignored(stream: Stream) -> None:
    key = ProfileKey("acme", fresh("p"))
    body = b'{"v":1,"epoch":1,"nonce":"n","boot":"b","at_ms":1,"records":[],"mood":"fine"}'
    told = await stream.publish(SHARD.journal(key), body, {})
    assert isinstance(told, Ack)
    assert len((await StreamJournal(stream, SHARD).replay(key, told.sequence)).entries) == 1
