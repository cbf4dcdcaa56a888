"""The profile's own verbs: create, show, revoke (contract 4, 26)."""

from dataclasses import replace
from urllib.parse import urlsplit

import msgspec

from lessor.errors import Code, problem
from lessor.journal import Ledger
from lessor.lease import ending, starting
from lessor.lease.admit import known
from lessor.lease.answers import refuse, say, told_profile
from lessor.lease.approval import KINDS
from lessor.lease.verdict import Asked, Desk, Now, Say, Verdict
from lessor.messages.record import ProfileChanged
from lessor.messages.request import CreateProfile


def create(ledger: Ledger, desk: Desk, asked: Asked, now: Now) -> Verdict:
    """Make the profile known, or change its settings while nobody holds it. Safe to repeat."""
    wanted = asked.request
    assert isinstance(wanted, CreateProfile)
    profile = ledger.profile
    if profile is not None and profile.principal != asked.caller.principal:
        taken = problem(Code.FORBIDDEN, "This name is taken: choose another one.")
        return refuse(ledger, desk, asked, taken, now)
    unknown = sorted(set(wanted.approve) - KINDS)
    if unknown:
        known_kinds = ", ".join(sorted(KINDS))
        mistaken = f"There are no acts of kind {', '.join(unknown)}: an approval may be asked for {known_kinds}."
        return refuse(ledger, desk, asked, problem(Code.INVALID_REQUEST, mistaken), now)
    changed = ProfileChanged(
        principal=asked.caller.principal,
        origins=wanted.origins,
        settle_s=wanted.settle_s,
        idempotent_target=wanted.idempotent_target,
        strict=wanted.strict,
        approve=wanted.approve,
        state=profile.state if profile is not None else "ready",
        policy=wanted.policy.settled(),
        health=wanted.health,
        why=profile.why if profile is not None else None,
    )
    if wanted.health is not None and _origin(wanted.health.url) not in wanted.origins:
        foreign = problem(Code.INVALID_REQUEST, "The health check's URL is of none of the profile's origins: mend it.")
        return refuse(ledger, desk, asked, foreign, now)
    if profile == changed:
        return say(desk, asked, told_profile(ledger, desk, changed))
    if desk.chore is not None or (ledger.lease is not None and ledger.lease.phase != "closed"):
        leased = problem(Code.PROFILE_BUSY, "The profile is leased: change its settings when it is free.")
        return refuse(ledger, desk, asked, leased, now)
    told = told_profile(ledger, desk, changed)
    return Verdict(desk, records=(changed,), replies=(Say(asked.slot, told),))


def _origin(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}".lower()


def show(ledger: Ledger, desk: Desk, asked: Asked, now: Now) -> Verdict:
    strange = known(ledger, desk, asked.caller)
    if strange is not None:
        return refuse(ledger, desk, asked, strange, now)
    assert ledger.profile is not None
    return say(desk, asked, told_profile(ledger, desk, ledger.profile))


def revoke(ledger: Ledger, desk: Desk, asked: Asked, now: Now) -> Verdict:
    """Fence the profile for good; a live lease ends unsealed, without waiting for its operation (26)."""
    strange = known(ledger, desk, asked.caller)
    if strange is not None:
        return refuse(ledger, desk, asked, strange, now)
    assert ledger.profile is not None
    revoked = msgspec.structs.replace(ledger.profile, state="revoked")
    told = Say(asked.slot, told_profile(ledger, desk, revoked))
    if desk.start is not None:
        why = problem(Code.PROFILE_REVOKED, "The profile was revoked meanwhile: use another one.")
        dropped = starting.drop(ledger, desk, why, now)
        return replace(dropped, records=(revoked,), replies=(told, *dropped.replies))
    desk = replace(desk, ceremony=None)
    held = ledger.lease
    if held is None or held.phase != "live":
        return Verdict(desk, records=(revoked,), replies=(told,))
    closing = ending.begin(ledger, desk, "revoked", False, now)
    return replace(closing, records=(revoked, *closing.records), replies=(told,))
