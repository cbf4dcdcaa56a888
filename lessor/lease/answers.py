"""Building answers: what a holder sees of its lease, and refusals that say what to do next."""

from dataclasses import replace
from datetime import UTC, datetime

from lessor.errors import Class, Code, Effect, Problem, problem
from lessor.journal import LeaseState, Ledger
from lessor.lease.verdict import Asked, Desk, Now, PageOp, Remembered, Say, Verdict
from lessor.messages.record import ProfileChanged
from lessor.messages.reply import LeaseView, ProfileTold, Receipt, Refused, Reply
from lessor.messages.request import LeaseRequest


def lease_view(ledger: Ledger, desk: Desk, now: Now) -> LeaseView | None:
    """What every reply to the holder carries; None when there is no lease to speak of."""
    held = ledger.lease
    if held is None or held.phase == "closed":
        return None
    return LeaseView(
        route=desk.route,
        host=desk.host,
        lease=held.id,
        claim=held.claim,
        next_sequence=held.next_sequence,
        expires_in_s=max(0, held.expires_ms - now.ms) / 1000,
        clock_ms=now.ms,
    )


def view_for(ledger: Ledger, desk: Desk, asked: Asked, now: Now) -> LeaseView | None:
    """The view, for the holder's current claim only: a fenced worker learns nothing of the winner's."""
    held = ledger.lease
    request = asked.request
    if held is None or not isinstance(request, LeaseRequest):
        return None
    if (request.lease, request.claim) != (held.id, held.claim):
        return None
    return lease_view(ledger, desk, now)


def refusal(ledger: Ledger, desk: Desk, asked: Asked, refused: Problem, now: Now) -> Say:
    """A refusal as a reply. Class *lease invalid* carries no route, lease, claim or sequence."""
    silent = refused.code.class_ is Class.LEASE_INVALID or refused.code is Code.NOT_FOUND
    lease = None if silent else view_for(ledger, desk, asked, now)
    return Say(asked.slot, Refused(error=refused, effect=refused.effect, lease=lease))


def refuse(ledger: Ledger, desk: Desk, asked: Asked, refused: Problem, now: Now) -> Verdict:
    """Nothing but a refusal."""
    return Verdict(desk, replies=(refusal(ledger, desk, asked, refused, now),))


def say(desk: Desk, asked: Asked, reply: Reply) -> Verdict:
    """Nothing but an answer."""
    return Verdict(desk, replies=(Say(asked.slot, reply),))


def remember(desk: Desk, op: PageOp, reply: Reply) -> Desk:
    """Keep the answer for a repeated request id, the oldest giving way (contract 8)."""
    kept = (*desk.remembered, Remembered(op.id, type(op), op.lease, op.claim, reply))
    return replace(desk, remembered=kept[-desk.limits.remembered_max :])


def receipt(held: LeaseState) -> Receipt:
    """How a lease ended; a sealed one also while its browser is still being taken down."""
    assert held.reason is not None
    kind = "sealed" if held.generation is not None else "seal_failed" if held.aside is not None else held.receipt
    assert kind is not None
    return Receipt(kind=kind, reason=held.reason, generation=held.generation, aside=held.aside)


def told_profile(ledger: Ledger, desk: Desk, profile: ProfileChanged) -> ProfileTold:
    held = ledger.lease
    return ProfileTold(
        profile=desk.profile,
        principal=profile.principal,
        origins=profile.origins,
        state=profile.state,
        generation=ledger.generation,
        settle_s=profile.settle_s,
        strict=profile.strict,
        idempotent_target=profile.idempotent_target,
        approve=profile.approve,
        policy=profile.policy,
        leased_by=held.scope.run if held is not None and held.phase != "closed" else None,
        health=profile.health,
        why=profile.why,
    )


def told_time(now: Now, at_ms: int) -> str:
    """A boot-clock moment as wall-clock text, informational only."""
    unix_s = (now.unix_ms - now.ms + at_ms) / 1000
    return datetime.fromtimestamp(unix_s, UTC).isoformat(timespec="seconds")


def not_found(desk: Desk) -> Problem:
    return no_profile(desk.profile)


def no_profile(profile: str) -> Problem:
    """The same words for a profile that never was and for somebody else's (contract 4)."""
    return problem(
        Code.NOT_FOUND,
        f"There is no profile {profile!r} for you: create it, or ask with its owner's credentials.",
    )


def no_record(what: str) -> Problem:
    return problem(
        Code.NO_RECORD,
        f"There is no {what} on record. That says nothing about the outside world: look there.",
    )


def unknown_outcome(sequence: int, why: str | None) -> Problem:
    return problem(
        Code.OUTCOME_UNKNOWN,
        f"Nobody can know whether act {sequence} happened ({why or 'no answer'}): look it up by its request"
        " key or ask a person before anyone repeats it.",
    )


def not_sent(sequence: int, why: str | None) -> Problem:
    return problem(
        Code.NOT_SENT,
        f"Act {sequence} was not sent ({why or 'too late'}); its number is used up: observe, then act with"
        " the next one.",
        effect=Effect.NONE,
    )


ENDED_CODES = {
    "expired": (Code.LEASE_EXPIRED, "The lease has expired: acquire again."),
    "revoked": (Code.LEASE_REVOKED, "The lease was revoked with its profile: ask the profile's owner."),
    "lost": (Code.LEASE_LOST, "The page was lost: acquire again; you start from the last sealed state."),
    "fenced": (Code.LEASE_FENCED, "A later attempt or worker holds the profile: stop working on this run."),
}
"""Reasons of a closed lease that have a code of their own; all others are `lease_closed`."""


def ended(reason: str | None) -> Problem:
    code, message = ENDED_CODES.get(reason or "", (Code.LEASE_CLOSED, "The lease is closed: acquire again."))
    return problem(code, message)
