"""What every `ports.Hosts` promises: a lapsed session is never revived (architecture, Journal and fence)."""

import asyncio

import msgspec
import pytest

from lessor.messages.record import HostSession
from lessor.ports import BrokerAway
from tests.contract.conftest import Bench
from tests.support.broker import fresh


@pytest.fixture
def session() -> HostSession:
    return HostSession(host=fresh("h"), incarnation="i1", nonce="n1", boot="boot-1", state="serving")


def restarted(session: HostSession, boot: str = "boot-1") -> HostSession:
    return msgspec.structs.replace(session, incarnation="i2", nonce="n2", boot=boot)


async def test_a_host_lives_from_begin_to_end(bench: Bench, session: HostSession) -> None:
    hosts = bench.hosts()
    assert await hosts.alive(session.host) is None
    assert await hosts.begin(session)
    assert session == await hosts.alive(session.host)
    await hosts.end()
    assert await hosts.alive(session.host) is None
    assert await hosts.beat() is None


async def test_a_beat_tells_when_it_was_sent(bench: Bench, session: HostSession) -> None:
    hosts = bench.hosts()
    assert await hosts.begin(session)
    for _ in range(3):
        before = bench.clock.now_ms()
        sent = await hosts.beat()
        assert sent is not None
        assert before <= sent <= bench.clock.now_ms()


async def test_a_beat_whose_acknowledgement_is_lost_is_repeated(bench: Bench, session: HostSession) -> None:
    hosts = bench.hosts()
    assert await hosts.begin(session)
    bench.faults.lose_acknowledgements(2)
    assert await hosts.beat() is not None
    assert await hosts.beat() is not None


async def test_a_lapsed_session_is_never_revived(bench: Bench, session: HostSession) -> None:
    hosts = bench.hosts()
    assert await hosts.begin(session)
    await bench.pass_ttl()
    assert await hosts.alive(session.host) is None
    assert await hosts.beat() is None
    assert await hosts.beat() is None
    assert await hosts.alive(session.host) is None


async def test_a_ghost_of_a_beat_revives_nothing(bench: Bench, session: HostSession) -> None:
    hosts = bench.hosts()
    assert await hosts.begin(session)
    bench.faults.delay()
    assert await hosts.beat() is not None
    await bench.pass_ttl()
    await bench.faults.release_ghosts()
    assert await hosts.alive(session.host) is None


async def test_a_restarted_host_begins_at_once_and_ends_the_earlier_one(bench: Bench, session: HostSession) -> None:
    earlier, later = bench.hosts(), bench.hosts()
    assert await earlier.begin(session)
    assert await later.begin(restarted(session))
    assert await earlier.beat() is None
    await earlier.end()
    assert restarted(session) == await later.alive(session.host)
    assert await later.beat() is not None


async def test_a_host_of_another_machine_does_not_take_a_living_name(bench: Bench, session: HostSession) -> None:
    first, second = bench.hosts(), bench.hosts()
    assert await first.begin(session)
    beginning = asyncio.ensure_future(second.begin(restarted(session, boot="boot-2")))
    while not beginning.done():
        assert await first.beat() is not None
        await asyncio.sleep(0)
    assert await beginning is False
    assert session == await first.alive(session.host)


async def test_a_rebooted_machine_takes_its_silent_name_back(bench: Bench, session: HostSession) -> None:
    first, second = bench.hosts(), bench.hosts()
    assert await first.begin(session)
    assert await second.begin(restarted(session, boot="boot-2"))
    assert await first.beat() is None


async def test_a_draining_host_says_so(bench: Bench, session: HostSession) -> None:
    hosts = bench.hosts()
    draining = msgspec.structs.replace(session, state="draining")
    assert await hosts.begin(session)
    assert await hosts.begin(draining)
    assert await hosts.beat() is not None
    assert draining == await hosts.alive(session.host)


async def test_silence_of_the_broker_is_not_death_of_a_host(bench: Bench, session: HostSession) -> None:
    hosts = bench.hosts()
    assert await hosts.begin(session)
    bench.faults.away = True
    with pytest.raises(BrokerAway):
        await hosts.alive(session.host)
