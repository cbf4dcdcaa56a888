"""A new activation: what the journal left open is settled before anything is served (contract 13, 15)."""

from dataclasses import dataclass, replace

from lessor.journal import LeaseState, Ledger
from lessor.lease import ending
from lessor.lease.verdict import Again, ClosingLanded, Desk, KillBrowser, Now, Verdict
from lessor.messages.record import Activated, AnyRecord, LeaseClosed, LeaseClosing, Outcome
from lessor.messages.reply import ActOutcome


@dataclass(frozen=True, slots=True)
class Found:
    """What the activation found of the last lease's browser, under its own epoch."""

    keeper_until_ms: int | None
    """The acknowledged deadline of the re-adopted page; None: there is no page."""
    gone_ms: int | None
    """Without a page: when its browser was confirmed not to run; None: nobody can say."""
    may_run_until_ms: int | None = None
    """The latest deadline of its keeper, when that is on this machine."""


def recover(ledger: Ledger, desk: Desk, incarnation: str, found: Found, now: Now) -> Verdict:
    """`Activated`, every open intent UNKNOWN, and the lease goes on, ends, or is lost; one entry."""
    activated = Activated(host=desk.host, incarnation=incarnation, boot=desk.boot)
    held = ledger.lease
    desk = replace(desk, idle_since_ms=now.ms)
    if held is None:
        return Verdict(desk, records=(activated,))
    records: tuple[AnyRecord, ...] = (activated, *_settle(held))
    if held.phase == "closed":
        return Verdict(desk, records=records)
    unknown = len(records) > 1
    if found.keeper_until_ms is None or held.boot != desk.boot:
        if found.gone_ms is None and found.may_run_until_ms is not None:
            return _still_there(held, desk, records, found.may_run_until_ms, now)
        return Verdict(desk, records=(*records, _lost(held, unknown, found)))
    desk = replace(desk, browser="live", keeper_until_ms=found.keeper_until_ms, last_call_ms=now.ms)
    if held.phase == "closing":
        closing = replace(desk, ending="closing")
        return Verdict(closing, records=records, effects=(Again(ClosingLanded()),))
    after = ending.retire(ledger, desk, now) if unknown else ending.over(ledger, desk, now)
    if after is None:
        return Verdict(desk, records=records)
    return replace(after, records=(*records, *after.records))


def _still_there(held: LeaseState, desk: Desk, records: tuple[AnyRecord, ...], until_ms: int, now: Now) -> Verdict:
    """A browser that can be neither taken over nor confirmed gone keeps the profile until it is, or its keeper's
    deadline is over (contract 13)."""
    if held.phase == "live":
        reason = "retired" if len(records) > 1 else "lost"
        closing = LeaseClosing(lease=held.id, reason=reason, seal=False, seal_by_ms=now.ms)
        records = (*records, closing)
    desk = replace(desk, browser="gone", keeper_until_ms=until_ms, ending="killing")
    return Verdict(desk, records=records, effects=(KillBrowser(held.instance),))


def _settle(held: LeaseState) -> tuple[AnyRecord, ...]:
    number = held.open_act
    if number is None:
        return ()
    return (
        Outcome(
            lease=held.id,
            sequence=number,
            outcome=ActOutcome.UNKNOWN,
            dispatched_ms=held.acts[number].dispatched_ms,
            why="the owner died before the outcome was on record",
        ),
    )


def _lost(held: LeaseState, unknown: bool, found: Found) -> LeaseClosed:
    if held.phase == "closing":
        reason = held.reason or "ended"
    else:
        reason = "retired" if unknown else "lost"
    sealed = held.generation is not None
    return LeaseClosed(
        lease=held.id,
        reason=reason,
        receipt="sealed" if sealed else "seal_failed" if held.seal else "discarded",
        generation=held.generation,
        gone_ms=found.gone_ms,
    )
