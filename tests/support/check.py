"""A profile's chain, read back from the broker, as a history that the invariants judge."""

from lessor.journal import Ledger, fold
from lessor.messages.record import Entry, Intent, LeaseGranted, Outcome
from lessor.messages.reply import ActOutcome
from tests.model import browser
from tests.support import history, invariants
from tests.support.history import History, Wrote

JOURNAL = (
    invariants.p2_epochs,
    invariants.p5_one_outcome,
    invariants.p9_sequence,
    invariants.p10_one_holder,
    invariants.p13_expired_never_seals,
    invariants.p14_seal_chain,
    invariants.p15_unknown_stays,
)
"""What a journal alone can tell."""
EFFECTS = (invariants.p3_intent_first, invariants.p4_at_most_once, invariants.p6_truth)
"""What can be told when every input that reached a page was recorded as well."""


def check(entries: tuple[tuple[int, Entry], ...], hits: tuple[browser.Hit, ...] | None, unix_ms: int) -> None:
    """Raise with everything that is wrong. `unix_ms` is the wall clock at boot-clock zero."""
    ledger = Ledger()
    for sequence, entry in entries:
        fold(ledger, sequence, entry)
    told: History = [Wrote(entry.at_ms, sequence, entry) for sequence, entry in entries]
    found = [finding for scan in JOURNAL for finding in scan(told)]
    found += invariants.p12_renewal(told, unix_ms)
    if hits is not None:
        with_hits = _with_hits(told, hits)
        found += [finding for scan in EFFECTS for finding in scan(with_hits)]
    assert not found, "\n".join(found)


def _with_hits(told: History, hits: tuple[browser.Hit, ...]) -> History:
    """Each input behind the intent that was open when it came; one that came later than any is left for P3 to find.

    Acts are strictly one at a time, so the open intent is the one that it belongs to.
    """
    merged: History = []
    left = sorted(hits, key=lambda hit: hit.at_ms)
    instances = _instances(told)
    opened: Intent | None = None
    for moment in told:
        assert isinstance(moment, Wrote)
        for record in moment.entry.records:
            if isinstance(record, Outcome) and opened is not None:
                mine = [
                    hit
                    for hit in left
                    if hit.instance == instances[opened.lease]
                    and (hit.at_ms <= moment.at_ms or record.outcome is ActOutcome.UNKNOWN)
                ]
                merged += [_hit(hit, opened) for hit in mine]
                left = [hit for hit in left if hit not in mine]
                opened = None
            if isinstance(record, Intent):
                opened = record
        merged.append(moment)
    if opened is not None:  # still under way: its outcome is not on record yet
        merged += [_hit(hit, opened) for hit in left if hit.instance == instances[opened.lease]]
        left = [hit for hit in left if hit.instance != instances[opened.lease]]
    strays = [hit for hit in left if hit.instance in instances.values()]
    assert not strays, f"P3, P7: inputs that no intent accounts for: {strays}"
    return merged


def _instances(told: History) -> dict[str, str]:
    records = [record for moment in told if isinstance(moment, Wrote) for record in moment.entry.records]
    return {record.lease: record.instance for record in records if isinstance(record, LeaseGranted)}


def _hit(hit: browser.Hit, intent: Intent) -> history.Hit:
    return history.Hit(hit.at_ms, hit.epoch, intent.lease, intent.sequence, intent.request_key)
