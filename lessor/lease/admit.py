"""Who may use the lease, and until when: the gates every call passes, at the door and again before dispatch."""

from typing import assert_never

from lessor.errors import Code, Problem, problem
from lessor.journal import LeaseState, Ledger
from lessor.lease.answers import ended, not_found
from lessor.lease.verdict import Asked, Desk, Now, PageOp
from lessor.limits import ms
from lessor.messages.ids import Caller
from lessor.messages.record import LeaseRenewed
from lessor.messages.request import Act, AnswerDialog, Navigate, Observe, ShowArtifacts, ShowTabs, TendRequest

Bounded = PageOp | AnswerDialog | TendRequest
"""What names a deadline and comes to a live browser."""


def known(ledger: Ledger, desk: Desk, caller: Caller) -> Problem | None:
    """A profile of somebody else is indistinguishable from an unknown one (contract 4)."""
    profile = ledger.profile
    if profile is None or profile.state == "deleted" or caller.principal != profile.principal:
        return not_found(desk)
    return None


def holder(ledger: Ledger, desk: Desk, asked: Asked, lease: str, claim: int, now: Now) -> LeaseState | Problem:
    """The live lease, if this claim holds it (contract 7, 12, 19)."""
    strange = known(ledger, desk, asked.caller)
    if strange is not None:
        return strange
    held = ledger.leases.get(lease)
    if held is None:
        return problem(Code.LEASE_CLOSED, "There is no such lease any more: acquire again.")
    if claim < max(held.claim, desk.claim_seen if held is ledger.lease else 0):
        return problem(Code.LEASE_FENCED, "Another worker has taken this run over: stop working on it.")
    if claim > held.claim:
        return problem(Code.INVALID_REQUEST, "This claim is not attached to the lease: acquire first.")
    if held.phase == "closed":
        return ended(held.reason)
    if held.phase == "closing":
        return _closing(held)
    if now.ms >= held.expires_ms:
        return ended("expired")
    return held


def _closing(held: LeaseState) -> Problem:
    if held.reason in ("expired", "revoked", "lost", "fenced"):
        return ended(held.reason)
    if held.reason == "retired":
        return problem(Code.LEASE_CLOSED, "The lease was retired after an unknown outcome: acquire again.")
    return problem(Code.LEASE_CLOSING, "The lease is closing: acquire again when it has closed.")


def bound_ms(op: Bounded, desk: Desk, now: Now) -> int:
    """The operation's own bound: the caller's deadline, or the contract's, whichever is earlier."""
    limits = desk.limits
    match op:
        case Act():
            longest_s = limits.act_s
        case Navigate():
            longest_s = limits.navigate_s
        case Observe() | AnswerDialog() | ShowTabs() | ShowArtifacts():
            longest_s = limits.observe_s
        case _:
            assert_never(op)
    return min(op.deadline_ms, now.ms + ms(longest_s))


def in_time(held: LeaseState, op: Bounded, desk: Desk, now: Now) -> Problem | tuple[LeaseRenewed, ...]:
    """Deadline, closing time and renewal on bind (contract 9, 24): refuse, or say what must be renewed first."""
    if now.ms >= op.deadline_ms:
        return problem(Code.DEADLINE_PASSED, "The deadline has passed and nothing was done: ask again.")
    until_ms = bound_ms(op, desk, now)
    if until_ms > held.cap_ms - ms(desk.limits.closing_s):
        return problem(
            Code.LEASE_CLOSING,
            "The call could outlive the lease, which is about to be sealed and closed: name an earlier deadline,"
            " or close and acquire again.",
        )
    if until_ms <= held.expires_ms:
        return ()
    expires_ms = min(now.ms + ms(desk.limits.horizon_s_max), held.cap_ms)
    if expires_ms < until_ms:
        return problem(
            Code.LEASE_CLOSING,
            f"The call could outlive the longest horizon ({desk.limits.horizon_s_max:g} s): name an earlier deadline.",
        )
    return (LeaseRenewed(lease=held.id, expires_ms=expires_ms),)


def page_there(desk: Desk, now: Now) -> Problem | None:
    """The browser lives and its keeper's acknowledged deadline lies ahead."""
    if desk.browser == "live" and now.ms < desk.keeper_until_ms:
        return None
    return problem(Code.BROWSER_GONE, "The browser is gone and nothing was done: acquire again.")
