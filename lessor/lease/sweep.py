"""What a run record, read by a sweep or reported, means for the lease that its run holds (contract 3, 16-18)."""

from dataclasses import replace

from lessor.journal import LeaseState, Ledger
from lessor.lease import ending
from lessor.lease.verdict import Desk, Now, RunSeen, Verdict
from lessor.limits import ms
from lessor.messages.record import LeaseRenewed
from lessor.messages.run import RunReading, RunStatus


def run_seen(ledger: Ledger, desk: Desk, event: RunSeen, now: Now) -> Verdict:
    """Tear down an ended run's lease, fence lower claims, renew parked and queued runs; drop stale readings."""
    held, reading = ledger.lease, event.reading
    if held is None or held.phase != "live" or held.scope.run != reading.run or desk.ending is not None:
        return Verdict(desk)
    if reading.read_ms < now.ms - ms(desk.limits.reading_s_max):
        return Verdict(desk)
    record = reading.record
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
    return record is None or not record.status.needs_page or record.attempt > held.scope.attempt


def renew_if_low(held: LeaseState, desk: Desk, now: Now) -> Verdict:
    """A tick renews only when 5 min or less are left, never past the cap, never an expired lease."""
    left_ms = held.expires_ms - now.ms
    if left_ms <= 0 or left_ms > ms(desk.limits.renew_below_s):
        return Verdict(desk)
    expires_ms = min(now.ms + ms(desk.limits.horizon_s_max), held.cap_ms)
    if expires_ms <= held.expires_ms:
        return Verdict(desk)
    return Verdict(desk, records=(LeaseRenewed(lease=held.id, expires_ms=expires_ms),))
