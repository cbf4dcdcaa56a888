"""What every `ports.Journal` promises (architecture, Journal and fence)."""

import asyncio
import itertools
from collections.abc import Callable
from typing import Literal

import pytest

from lessor.messages.ids import ProfileKey
from lessor.messages.record import Entry, Own, Read
from lessor.ports import BrokerAway, Landed, Superseded
from tests.contract.conftest import Bench
from tests.support.broker import fresh

_numbers = itertools.count(1)
Make = Callable[[], Entry | Own]


@pytest.fixture
def key() -> ProfileKey:
    return ProfileKey("acme", fresh("p"))


def entry(epoch: int = 1) -> Entry:
    number = next(_numbers)
    record = Read(lease="l1", claim=1, do="observe", tab="main", url=f"https://shop.example/{number}")
    return Entry(epoch=epoch, nonce=f"e{number}", boot="boot-1", at_ms=number, records=(record,))


def own(host: str = "h1", state: Literal["active", "released"] = "active") -> Own:
    number = next(_numbers)
    return Own(host=host, incarnation="i1", nonce=f"o{number}", boot="boot-1", at_ms=number, state=state)


async def land(bench: Bench, key: ProfileKey, message: Entry | Own, expected: int) -> int:
    told = await bench.journal.append(key, message, expected)
    assert isinstance(told, Landed), told
    return told.sequence


async def test_a_chain_is_read_back_in_order_with_its_last_own(bench: Bench, key: ProfileKey) -> None:
    first = await land(bench, key, own("h1"), 0)
    written = [entry(), entry()]
    at = [await land(bench, key, written[0], first)]
    second = await land(bench, key, own("h2"), at[0])
    at.append(await land(bench, key, written[1], second))

    chain = await bench.journal.replay(key, at_least=second)

    assert list(zip(at, written, strict=True)) == list(chain.entries)
    assert (at[1], second) == (chain.last, chain.own_sequence)
    assert chain.own is not None
    assert chain.own.host == "h2"


async def test_the_head_is_the_chain_without_its_entries(bench: Bench, key: ProfileKey) -> None:
    assert (await bench.journal.head(key)).last == 0
    epoch = await land(bench, key, own(), 0)
    last = await land(bench, key, entry(epoch), epoch)

    head = await bench.journal.head(key)

    assert (last, epoch, ()) == (head.last, head.own_sequence, head.entries)


@pytest.mark.parametrize("off_by", [-1, 1, 5])
@pytest.mark.parametrize("make", [entry, own])
async def test_a_stale_or_future_expectation_is_superseded(
    bench: Bench, key: ProfileKey, off_by: int, make: Make
) -> None:
    first = await land(bench, key, own(), 0)
    last = await land(bench, key, entry(), first)

    assert Superseded(last) == await bench.journal.append(key, make(), last + off_by)
    assert last == (await bench.journal.head(key)).last


async def test_nothing_is_expected_only_of_an_empty_chain(bench: Bench, key: ProfileKey) -> None:
    assert Superseded(0) == await bench.journal.append(key, entry(), 7)
    last = await land(bench, key, own(), 0)
    assert Superseded(last) == await bench.journal.append(key, own(), 0)


async def test_a_new_owner_fences_the_old_one(bench: Bench, key: ProfileKey) -> None:
    first = await land(bench, key, own("h1"), 0)
    taken = await land(bench, key, own("h2"), first)

    assert Superseded(taken) == await bench.journal.append(key, entry(first), first)


async def test_writes_of_other_profiles_do_not_disturb(bench: Bench, key: ProfileKey) -> None:
    longer = ProfileKey(key.tenant, f"{key.profile}-b")
    last = await land(bench, key, own(), 0)
    await land(bench, longer, own(), 0)

    await land(bench, key, entry(), last)

    assert len((await bench.journal.replay(longer, 0)).entries) == 0


@pytest.mark.parametrize("name", ["own", "journal", "p", "run", "act"])
async def test_f15_a_profile_may_be_named_like_a_word_of_ours(bench: Bench, name: str) -> None:
    key = ProfileKey(fresh("t"), name)
    last = await land(bench, key, own(), 0)
    await land(bench, key, entry(), last)

    chain = await bench.journal.replay(key, last)

    assert (last, 1) == (chain.own_sequence, len(chain.entries))
    assert [key] == [found for found, _ in await bench.journal.profiles(key.tenant)]


@pytest.mark.parametrize("make", [entry, own])
async def test_a_lost_acknowledgement_is_found_by_its_nonce(bench: Bench, key: ProfileKey, make: Make) -> None:
    last = await land(bench, key, own(), 0)
    bench.faults.lose_acknowledgements(2)

    landed = await land(bench, key, make(), last)

    assert landed == (await bench.journal.head(key)).last
    assert landed > last


async def test_of_a_pending_append_and_a_takeover_exactly_one_lands(bench: Bench, key: ProfileKey) -> None:
    last = await land(bench, key, own("h1"), 0)
    bench.faults.delay()
    pending = asyncio.ensure_future(bench.journal.append(key, entry(), last))
    await asyncio.sleep(0)
    taken = await bench.journal.append(key, own("h2"), last)
    told = await pending

    assert {Landed, Superseded} == {type(told), type(taken)}


async def test_an_answer_that_says_nothing_leaves_it_pending(bench: Bench, key: ProfileKey) -> None:
    for expected in (0, await land(bench, key, own(), 0)):
        target = ProfileKey(key.tenant, fresh("p")) if expected == 0 else key
        bench.faults.refuse(3)
        await land(bench, target, entry(), expected)


async def test_a_ghost_of_an_earlier_attempt_changes_nothing(bench: Bench, key: ProfileKey) -> None:
    last = await land(bench, key, own(), 0)
    bench.faults.delay()
    first = await land(bench, key, entry(), last)
    second = await land(bench, key, entry(), first)

    await bench.faults.release_ghosts()

    chain = await bench.journal.replay(key, second)
    assert [first, second] == [sequence for sequence, _ in chain.entries]


async def test_of_concurrent_writers_one_wins(bench: Bench, key: ProfileKey) -> None:
    last = await land(bench, key, own(), 0)
    for _ in range(5):
        told = await asyncio.gather(*(bench.journal.append(key, entry() if n % 2 else own(), last) for n in range(8)))
        won = [answer.sequence for answer in told if isinstance(answer, Landed)]
        assert len(won) == 1
        assert all(answer.last == won[0] for answer in told if isinstance(answer, Superseded))
        last = won[0]


async def test_a_pending_append_can_be_cancelled(bench: Bench, key: ProfileKey) -> None:
    bench.faults.away = True
    pending = asyncio.ensure_future(bench.journal.append(key, own(), 0))
    await asyncio.sleep(0.05)
    pending.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(pending, 1)
    bench.faults.away = False
    assert (await bench.journal.head(key)).last == 0


async def test_a_head_that_cannot_be_read_is_no_answer(bench: Bench, key: ProfileKey) -> None:
    bench.faults.away = True
    with pytest.raises(BrokerAway):
        await bench.journal.head(key)


async def test_a_restarted_host_finds_what_it_still_owns(bench: Bench) -> None:
    tenant, host = fresh("t"), fresh("h")
    mine, released, taken = (ProfileKey(tenant, name) for name in ("mine", "released", "taken"))
    await land(bench, mine, own(host), 0)
    await land(bench, released, own(host, "released"), await land(bench, released, own(host), 0))
    await land(bench, taken, own("other"), await land(bench, taken, own(host), 0))

    assert (mine,) == await bench.journal.owned_by(host)
    assert [mine, released, taken] == [key for key, _ in await bench.journal.profiles(tenant)]
