"""A journal in which anything was changed, removed, inserted or moved is found out."""

import pytest

from lessor.audit import Stored, verify
from lessor.messages import wire
from lessor.messages.hashing import digest
from lessor.messages.record import Entry, Read


def chain(count: int, *, legacy: int = 0) -> list[Stored]:
    """Entries as they are stored; the first `legacy` of them from before entries were chained."""
    found: list[Stored] = []
    before = ""
    for number in range(1, count + 1):
        record = Read(lease="l1", claim=1, do="observe", tab="main", url=f"https://shop.example/{number}")
        prev = None if number <= legacy else before
        entry = Entry(epoch=1, nonce=f"n{number}", boot="b", at_ms=number, records=(record,), prev=prev)
        data = wire.encode(entry)
        found.append((number * 2, data))
        before = digest(data)
    return found


def test_a_whole_chain_is_whole() -> None:
    told = verify(chain(5))
    assert (told.broken, told.entries, told.chained, told.head) == ((), 5, 5, digest(chain(5)[-1][1]))


def test_entries_from_before_chaining_are_the_anchor_of_the_first_chained_one() -> None:
    assert verify(chain(5, legacy=2)).broken == ()
    changed = chain(5, legacy=2)
    changed[1] = (4, changed[1][1].replace(b"shop", b"spam"))
    assert [one.sequence for one in verify(changed).broken] == [6]


def test_an_empty_journal_is_whole() -> None:
    assert verify([]).broken == ()


@pytest.mark.parametrize("at", range(4))
def test_a_removed_entry_is_missed(at: int) -> None:
    cut = chain(5)
    del cut[at]
    assert len(verify(cut).broken) == 1


@pytest.mark.parametrize("at", range(4))
def test_an_altered_entry_is_found_by_its_successor(at: int) -> None:
    changed = chain(5)
    sequence, data = changed[at]
    changed[at] = (sequence, data.replace(b"shop", b"spam"))
    assert [one.sequence for one in verify(changed).broken] == [changed[at + 1][0]]


def test_swapped_and_inserted_entries_are_found() -> None:
    swapped = chain(5)
    swapped[1], swapped[2] = (4, swapped[2][1]), (6, swapped[1][1])
    assert verify(swapped).broken
    inserted = chain(5)
    inserted.insert(2, (5, inserted[1][1]))
    assert verify(inserted).broken


def test_an_entry_that_cannot_be_read_breaks_the_chain() -> None:
    broken = chain(3)
    broken[1] = (4, b"{}")
    assert [one.sequence for one in verify(broken).broken] == [4, 6]


def test_what_was_cut_off_at_the_end_is_missed_by_who_noted_the_head() -> None:
    whole = chain(5)
    head = verify(whole).head
    assert verify(whole[:-1]).broken == ()
    assert verify(whole[:-1], head).head_found is False
    assert verify([*whole, *chain(6)[5:]], head).head_found is True
