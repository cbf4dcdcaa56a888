"""The control lane: renew, close, cancel and status never queue behind a page operation (contract 18-21)."""

from dataclasses import replace

import msgspec

from lessor.errors import Code, Problem, problem
from lessor.journal import Ledger
from lessor.lease import ending
from lessor.lease.admit import holder, known
from lessor.lease.answers import refuse, say, told_time, view_for
from lessor.lease.verdict import Asked, CancelRead, Desk, Now, Say, Verdict
from lessor.limits import ms
from lessor.messages.record import LeaseRenewed
from lessor.messages.reply import Cancelled, HolderView, Renewed, StatusTold
from lessor.messages.request import Act, Cancel, Close, Renew

RENEWED_AT_LEAST_MS = 1000
"""A renewal that gains less than this is not worth a record."""


def renew(ledger: Ledger, desk: Desk, asked: Asked, now: Now) -> Verdict:
    """Never shortening, never past the maxima; expiry is final (contract 18, 19)."""
    request = asked.request
    assert isinstance(request, Renew)
    held = holder(ledger, desk, asked, request.lease, request.claim, now)
    if isinstance(held, Problem):
        return refuse(ledger, desk, asked, held, now)
    if request.horizon_s <= 0:
        past = problem(Code.INVALID_REQUEST, "The horizon lies in the past: ask for horizon_s > 0.")
        return refuse(ledger, desk, asked, past, now)
    longest_s = min(request.horizon_s, desk.limits.horizon_s_max)
    expires_ms = min(now.ms + ms(longest_s), held.cap_ms)
    desk = replace(desk, last_call_ms=now.ms)
    view = view_for(ledger, desk, asked, now)
    assert view is not None
    if expires_ms < held.expires_ms + RENEWED_AT_LEAST_MS:
        return say(desk, asked, Renewed(lease=view))
    record = LeaseRenewed(lease=held.id, expires_ms=expires_ms)
    renewed = msgspec.structs.replace(view, expires_in_s=(expires_ms - now.ms) / 1000)
    return Verdict(desk, records=(record,), replies=(Say(asked.slot, Renewed(lease=renewed)),))


def close(ledger: Ledger, desk: Desk, asked: Asked, now: Now) -> Verdict:
    """A close by the claim that holds, or held, the lease (contract 7, 21)."""
    request = asked.request
    assert isinstance(request, Close)
    refused = known(ledger, desk, asked.caller)
    held = ledger.leases.get(request.lease)
    if refused is None and held is None:
        refused = problem(Code.LEASE_CLOSED, "There is no such lease any more: nothing is left to close.")
    if refused is None and held is not None:
        seen = desk.claim_seen if held is ledger.lease else 0
        if request.claim < max(held.claim, seen):
            refused = problem(Code.LEASE_FENCED, "Another worker has taken this run over: leave its page alone.")
        elif request.claim > held.claim:
            refused = problem(Code.INVALID_REQUEST, "This claim is not attached to the lease: acquire first.")
    if refused is not None:
        return refuse(ledger, desk, asked, refused, now)
    assert held is not None
    return ending.close(ledger, desk, asked, held, now)


def cancel(ledger: Ledger, desk: Desk, asked: Asked, now: Now) -> Verdict:
    """Reads end at once; an act settles, whatever that takes, and is not called back (S12)."""
    request = asked.request
    assert isinstance(request, Cancel)
    held = holder(ledger, desk, asked, request.lease, request.claim, now)
    if isinstance(held, Problem):
        return refuse(ledger, desk, asked, held, now)
    current = desk.operation
    if current is None or current.op.id != request.request:
        return say(desk, asked, Cancelled(found=False, lease=view_for(ledger, desk, asked, now)))
    told = Say(asked.slot, Cancelled(found=True, lease=view_for(ledger, desk, asked, now)))
    if isinstance(current.op, Act):
        return Verdict(replace(desk, operation=replace(current, cancelled=True)), replies=(told,))
    return Verdict(desk, replies=(told,), effects=(CancelRead(),))


def status(ledger: Ledger, desk: Desk, asked: Asked, now: Now) -> Verdict:
    strange = known(ledger, desk, asked.caller)
    if strange is not None:
        return refuse(ledger, desk, asked, strange, now)
    reply = StatusTold(
        profile=desk.profile,
        host=desk.host,
        epoch=desk.epoch,
        generation=ledger.generation,
        clock_ms=now.ms,
        holder=_holder(ledger, desk, now),
        queue=tuple(place.run for place in desk.queue),
    )
    return say(desk, asked, reply)


def _holder(ledger: Ledger, desk: Desk, now: Now) -> HolderView | None:
    held = ledger.lease
    if held is None or held.phase == "closed":
        return None
    current = desk.operation
    return HolderView(
        run=held.scope.run,
        attempt=held.scope.attempt,
        worker=held.worker,
        state=held.phase,
        since=told_time(now, held.granted_ms),
        expires_at=told_time(now, held.expires_ms),
        expires_in_s=max(0, held.expires_ms - now.ms) / 1000,
        next_sequence=held.next_sequence,
        page_url=desk.page_url or None,
        busy=f"{type(current.op).__name__.lower()} ({current.phase})" if current else None,
    )
