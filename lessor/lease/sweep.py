"""What a run record, read by a sweep or reported, means for the lease that its run holds (contract 3, 16-18)."""

from dataclasses import replace

from lessor.journal import LeaseState, Ledger
from lessor.lease import ending
from lessor.lease.answers import ended
from lessor.lease.verdict import Desk, Now, RunSeen, Verdict
from lessor.limits import ms
from lessor.messages.record import LeaseRenewed
from lessor.messages.reply import RenewalException
from lessor.messages.run import RunReading, RunStatus


def run_seen(ledger: Ledger, desk: Desk, event: RunSeen, now: Now) -> Verdict:
    """Tear down an ended run's lease, fence lower claims, renew parked and queued runs; drop stale readings."""
    held, reading = ledger.lease, event.reading
    if held is None or held.phase != "live" or held.scope.run != reading.run or desk.ending is not None:
        return Verdict(desk)
    if reading.read_ms < now.ms - ms(desk.limits.reading_s_max):
        return Verdict(desk)
    record = reading.record
    if record is not None and record.claim < held.claim:
        return Verdict(desk)  # Read before the takeover: the claim it saw is not the lease's any more.
    if record is not None and record.claim > max(held.claim, desk.claim_seen):
        desk = replace(desk, claim_seen=record.claim)
    if _over(held, reading):
        # The same worker may have gone on since: then this reading says nothing any more.
        if reading.read_ms <= desk.last_call_ms:
            return Verdict(desk)
        seal = now.ms < held.expires_ms
        return ending.begin(ledger, desk, "ended" if seal else "expired", seal, now, reading.revision)
    if record is not None and record.status in (RunStatus.QUEUED, RunStatus.PARKED):
        return renew_if_low(held, desk, now)
    return Verdict(desk)


def _over(held: LeaseState, reading: RunReading) -> bool:
    record = reading.record
    return record is None or not record.needs_page or record.attempt > held.scope.attempt


def renew_if_low(held: LeaseState, desk: Desk, now: Now) -> Verdict:
    """A tick renews only when 5 min or less are left, never past the cap, never an expired lease."""
    left_ms = held.expires_ms - now.ms
    if left_ms <= 0 or left_ms > ms(desk.limits.renew_below_s):
        return Verdict(desk)
    expires_ms = min(now.ms + ms(desk.limits.horizon_s_max), held.cap_ms)
    if expires_ms <= held.expires_ms:
        return Verdict(desk)
    return Verdict(desk, records=(LeaseRenewed(lease=held.id, expires_ms=expires_ms),))


def ticked(ledger: Ledger, desk: Desk, now: Now) -> Verdict:
    """The worker says that its run needs the page. A failed renewal is retried on its next tick."""
    held = ledger.lease
    if held is None or held.phase != "live" or desk.ending is not None or desk.claim_seen > held.claim:
        return Verdict(desk)
    return renew_if_low(held, desk, now)


def exception(ledger: Ledger, desk: Desk, now: Now) -> RenewalException | None:
    """What a worker must hear of its latest lease here, when that cannot be renewed any more."""
    held = ledger.lease
    if held is None or (held.live_at(now.ms) and desk.claim_seen <= held.claim):
        return None
    reason = "fenced" if desk.claim_seen > held.claim else held.reason if held.phase != "live" else "expired"
    return RenewalException(lease=held.id, error=ended(reason))
