"""Predicates on one profile's chain that every acceptance test ends with (invariants)."""

from lessor.journal import Ledger, fold
from lessor.messages.record import Activated, Entry, Intent, LeaseGranted, Outcome, SealCommitted
from lessor.messages.reply import ActOutcome
from tests.model.browser import Hit


def check(entries: tuple[tuple[int, Entry], ...], hits: tuple[Hit, ...] | None) -> None:
    """Fold the chain, which asserts much of P1, P5, P9, P10 and P14, and hold the model's inputs against it."""
    ledger = Ledger()
    for sequence, entry in entries:
        fold(ledger, sequence, entry)
    nonces = [entry.nonce for _, entry in entries]
    assert len(nonces) == len(set(nonces)), "P2: a nonce was issued twice"
    records = [(entry, record) for _, entry in entries for record in entry.records]
    epochs = [entry.epoch for entry, record in records if isinstance(record, Activated)]
    assert epochs == sorted(set(epochs)), f"P2: epochs do not rise: {epochs}"
    outcomes = [(record.lease, record.sequence) for _, record in records if isinstance(record, Outcome)]
    assert len(outcomes) == len(set(outcomes)), "P5: two outcomes for one intent"
    generations = [record.generation for _, record in records if isinstance(record, SealCommitted)]
    assert generations == list(range(1, len(generations) + 1)), f"P14: {generations}"
    if hits is not None:
        _truth(ledger, records, hits)


def _truth(ledger: Ledger, records: list[tuple[Entry, object]], hits: tuple[Hit, ...]) -> None:
    """P3, P4, P6: inputs and outcomes of each lease agree, in number and in order of time."""
    granted = {record.lease: record.instance for _, record in records if isinstance(record, LeaseGranted)}
    for lease, instance in granted.items():
        acts = ledger.leases[lease].acts.values()
        applied = sum(act.outcome is ActOutcome.APPLIED for act in acts)
        unknown = sum(act.outcome is ActOutcome.UNKNOWN for act in acts)
        mine = [hit for hit in hits if hit.instance == instance]
        assert applied <= len(mine) <= applied + unknown, f"P4, P6: {len(mine)} inputs, {applied} applied"
        for number, hit in enumerate(mine, 1):
            before = [
                entry
                for entry, record in records
                if isinstance(record, Intent) and record.lease == lease and entry.at_ms <= hit.at_ms
            ]
            assert len(before) >= number, "P3: an input without an intent before it"
            assert any(entry.epoch == hit.epoch for entry in before), "P3: an input under another epoch than its intent"
