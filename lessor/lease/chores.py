"""Work on the sealed state while nobody holds the profile: roll back, check, import, login, rewrap, delete (25-28).

One chore at a time; a newcomer waits for its end as it waits for a seal. Each ends in a record or in
nothing, so a crash in the middle leaves the profile as it was.
"""

from dataclasses import replace
from typing import Literal

import msgspec

from lessor.errors import Code, Problem, problem
from lessor.journal import Generation, Ledger
from lessor.lease import queue
from lessor.lease.admit import known
from lessor.lease.answers import refusal, refuse, say, told_profile
from lessor.lease.verdict import (
    Again,
    Asked,
    CeremonyOpen,
    Chore,
    ChoreLanded,
    ChoreOver,
    Desk,
    Effect,
    Now,
    Release,
    RemoveObjects,
    Reseal,
    Say,
    Sealed,
    SweepObjects,
    TryState,
    Verdict,
)
from lessor.limits import ms
from lessor.messages.record import AnyRecord, ProfileChanged, Rewrapped, SealCommitted
from lessor.messages.reply import CeremonyTold, GenerationsTold, GenerationView
from lessor.messages.request import (
    Ceremony,
    CheckProfile,
    DeleteProfile,
    ImportState,
    Rewrap,
    RollBack,
)

SWEEP_AGE_MS = 3_600_000
"""What this epoch itself replaced stays this long; what an older epoch left goes at once (architecture)."""


def generations(ledger: Ledger, desk: Desk, asked: Asked, now: Now) -> Verdict:
    strange = known(ledger, desk, asked.caller)
    if strange is not None:
        return refuse(ledger, desk, asked, strange, now)
    return say(desk, asked, _told(ledger, desk))


def _told(ledger: Ledger, desk: Desk) -> GenerationsTold:
    current = ledger.generation
    return GenerationsTold(
        epoch=desk.epoch,
        next=ledger.next_generation,
        generations=tuple(
            GenerationView(
                generation=sealed.number,
                base=sealed.base,
                source=sealed.source,
                key_id=sealed.key_id,
                size=sealed.size,
                object=sealed.object,
                sha256=sealed.sha256,
                origins=sealed.origins,
                current=sealed.number == current,
                unhealthy=sealed.unhealthy,
            )
            for sealed in reversed(ledger.kept)
        ),
    )


def _refused(ledger: Ledger, desk: Desk, asked: Asked, now: Now) -> Problem | None:
    """Rollback, import, login and the rest are refused while the profile is leased, or worked on (25)."""
    strange = known(ledger, desk, asked.caller)
    if strange is not None:
        return strange
    if desk.draining:
        return problem(Code.MOVED, "The host is stopping: ask again.", retry_after_s=0.5)
    assert ledger.profile is not None
    deleting = isinstance(asked.request, DeleteProfile)
    if ledger.profile.state == "revoked" and not deleting and not isinstance(asked.request, Rewrap):
        return problem(Code.PROFILE_REVOKED, "The profile is revoked: use another one.")
    if ledger.profile.state != "revoked" and deleting:
        return problem(Code.INVALID_REQUEST, "Only a revoked profile can be deleted: revoke it first.")
    held = ledger.lease
    if held is not None and held.phase == "closing":
        return problem(Code.CLOSING, "The profile's last lease is closing: ask again.", retry_after_s=0.1)
    if held is not None and held.phase != "closed":
        leased = f"Run {held.scope.run!r} holds the profile: ask again when its lease is closed."
        return problem(Code.PROFILE_BUSY, leased, holder_run=held.scope.run, retry_after_s=1.0)
    if desk.start is not None or desk.chore is not None:
        return problem(Code.PROFILE_BUSY, "The profile is being worked on: ask again.", retry_after_s=1.0)
    if desk.ceremony is not None and now.ms < desk.ceremony.until_ms:
        request = asked.request
        mine = request.ceremony if isinstance(request, ImportState | Ceremony) else None
        if mine != desk.ceremony.id:
            return ceremony_open(desk.ceremony, now)
    if now.ms >= asked.arrived_ms + ms(asked.request.budget_s):
        return problem(Code.DEADLINE_PASSED, "The caller's time was over before this was begun: ask again.")
    return None


def ceremony_open(ceremony: CeremonyOpen, now: Now) -> Problem:
    left_s = max(0, ceremony.until_ms - now.ms) / 1000
    return problem(
        Code.CEREMONY_OPEN, "A person is logging this profile in: ask again when that is done.", retry_after_s=left_s
    )


def _until_ms(asked: Asked) -> int:
    return asked.arrived_ms + ms(asked.request.budget_s)


def _begin(desk: Desk, asked: Asked, *effects: Effect) -> Verdict:
    return Verdict(replace(desk, chore=Chore(asked, _until_ms(asked))), effects=effects)


# -- what is asked


def roll_back(ledger: Ledger, desk: Desk, asked: Asked, now: Now) -> Verdict:
    """The earlier state becomes a new generation, encrypted with today's key, once it has been seen to open."""
    request = asked.request
    assert isinstance(request, RollBack)
    refused = _refused(ledger, desk, asked, now)
    found = next((sealed for sealed in ledger.kept if sealed.number == request.generation), None)
    if refused is None and found is None:
        kept = f"Generation {request.generation} is not kept: see `lessor profile generations`."
        refused = problem(Code.NOT_FOUND, kept)
    if refused is None and found is not None and found.number == ledger.generation:
        refused = problem(Code.INVALID_REQUEST, f"Generation {found.number} is the current one already.")
    if refused is not None:
        return refuse(ledger, desk, asked, refused, now)
    assert found is not None
    return _begin(desk, asked, Reseal(asked.slot, found, ledger.next_generation))


def check(ledger: Ledger, desk: Desk, asked: Asked, now: Now) -> Verdict:
    assert isinstance(asked.request, CheckProfile)
    refused = _refused(ledger, desk, asked, now)
    if refused is None and ledger.profile is not None and ledger.profile.health is None:
        none = "The profile has no health check: give it one with `lessor profile create`."
        refused = problem(Code.INVALID_REQUEST, none)
    if refused is not None:
        return refuse(ledger, desk, asked, refused, now)
    current = ledger.current
    order = TryState(
        slot=asked.slot,
        instance=now.fresh,
        generation=current.number if current is not None else 0,
        object=current.object if current is not None else None,
        sha256=current.sha256 if current is not None else "",
        origins=current.origins if current is not None else (),
        becomes=ledger.next_generation,
        until_ms=_until_ms(asked),
    )
    return _begin(desk, asked, order)


def import_(ledger: Ledger, desk: Desk, asked: Asked, now: Now) -> Verdict:
    """What was put into the store counts only after a browser of this host has opened it and passed the check."""
    request = asked.request
    assert isinstance(request, ImportState)
    refused = _refused(ledger, desk, asked, now)
    late = problem(Code.CEREMONY_OPEN, "This login is over: its five minutes have passed, or it was used. Begin anew.")
    ours = desk.ceremony is not None and now.ms < desk.ceremony.until_ms
    if refused is None and request.ceremony is not None and not ours:
        refused = late
    if refused is None and request.generation != ledger.next_generation:
        stale = f"The next generation is {ledger.next_generation}: something was sealed meanwhile. Begin anew."
        refused = problem(Code.INVALID_REQUEST, stale)
    if refused is None and not request.object.startswith(f"{desk.tenant}/{desk.profile}/"):
        refused = problem(Code.FORBIDDEN, "This object does not belong to the profile.")
    if refused is not None:
        return refuse(ledger, desk, asked, refused, now)
    assert ledger.profile is not None
    order = TryState(
        slot=asked.slot,
        instance=now.fresh,
        generation=request.generation,
        object=request.object,
        sha256=request.sha256,
        origins=ledger.profile.origins,
        becomes=request.generation,
        until_ms=_until_ms(asked),
    )
    return _begin(desk, asked, order)


def ceremony(ledger: Ledger, desk: Desk, asked: Asked, now: Now) -> Verdict:
    """Open for five minutes; asking again with the same id tells what is left of them (28)."""
    request = asked.request
    assert isinstance(request, Ceremony)
    strange = known(ledger, desk, asked.caller)
    ours = desk.ceremony is not None and desk.ceremony.id == request.ceremony
    if strange is None and request.end:
        if not ours:
            return say(desk, asked, CeremonyTold(left_s=0))
        desk, again = queue.wake(replace(desk, ceremony=None, idle_since_ms=now.ms))
        return Verdict(desk, replies=(Say(asked.slot, CeremonyTold(left_s=0)),), effects=again)
    refused = strange or _refused(ledger, desk, asked, now)
    if refused is not None:
        return refuse(ledger, desk, asked, refused, now)
    if not ours:
        desk = replace(desk, ceremony=CeremonyOpen(request.ceremony, now.ms + ms(desk.limits.ceremony_s)))
    assert desk.ceremony is not None
    return say(desk, asked, CeremonyTold(left_s=(desk.ceremony.until_ms - now.ms) / 1000))


def rewrap(ledger: Ledger, desk: Desk, asked: Asked, now: Now) -> Verdict:
    """One generation after the other; what was done before a crash stays done (27)."""
    assert isinstance(asked.request, Rewrap)
    refused = _refused(ledger, desk, asked, now)
    if refused is not None:
        return refuse(ledger, desk, asked, refused, now)
    old = _under_another_key(ledger, asked)
    if old is None:
        return say(desk, asked, _told(ledger, desk))
    return _begin(desk, asked, Reseal(asked.slot, old, old.number))


def _under_another_key(ledger: Ledger, asked: Asked) -> Generation | None:
    assert isinstance(asked.request, Rewrap)
    return next((sealed for sealed in ledger.kept if sealed.key_id != asked.request.key), None)


def delete(ledger: Ledger, desk: Desk, asked: Asked, now: Now) -> Verdict:
    """All objects go first: a crash in between leaves a revoked profile that can be deleted again (26)."""
    refused = _refused(ledger, desk, asked, now)
    if refused is not None:
        return refuse(ledger, desk, asked, refused, now)
    return _begin(desk, asked, RemoveObjects(asked.slot))


# -- what comes back


def went_on(ledger: Ledger, desk: Desk, event: ChoreOver | ChoreLanded, now: Now) -> Verdict:
    return over(ledger, desk, event, now) if isinstance(event, ChoreOver) else landed(ledger, desk, now)


def over(ledger: Ledger, desk: Desk, event: ChoreOver, now: Now) -> Verdict:
    """A chore's work is done, or has failed: record it, then answer."""
    chore = desk.chore
    if chore is None or chore.asked.slot != event.slot:
        return Verdict(desk)
    result, request, profile = event.result, chore.asked.request, ledger.profile
    assert profile is not None
    if isinstance(result, Problem):
        return _failed(ledger, desk, chore, result, now)
    landed = (Again(ChoreLanded()),)
    if isinstance(request, DeleteProfile):
        gone = msgspec.structs.replace(profile, state="deleted", why=None)
        return Verdict(desk, records=(gone,), effects=landed)
    assert isinstance(result, Sealed)
    if isinstance(request, Rewrap):
        old = _under_another_key(ledger, chore.asked)
        if old is None or result.key_id != request.key:
            other = f"This host's current key is {result.key_id!r}, not {request.key!r}: give all hosts the same keys."
            return _failed(ledger, desk, chore, problem(Code.SETUP_FAILED, other), now)
        moved = Rewrapped(
            generation=old.number,
            object=result.object,
            sha256=result.sha256,
            size=result.size,
            key_id=result.key_id,
        )
        return Verdict(desk, records=(moved,), effects=landed)
    records: tuple[AnyRecord, ...] = (_sealed(ledger, chore, result),)
    if profile.state != "ready":
        records = (*records, msgspec.structs.replace(profile, state="ready", why=None))
    if isinstance(request, ImportState) and request.ceremony is not None:
        desk = replace(desk, ceremony=None)
    return Verdict(desk, records=records, effects=landed)


def _sealed(ledger: Ledger, chore: Chore, result: Sealed) -> SealCommitted:
    request, profile = chore.asked.request, ledger.profile
    assert profile is not None
    base = ledger.generation
    source: Literal["rollback", "import", "login", "check"]
    match request:
        case RollBack(generation=base):
            source = "rollback"
        case ImportState(ceremony=None):
            source = "import"
        case ImportState():
            source = "login"
        case _:
            source = "check"
    return SealCommitted(
        lease=None,
        generation=ledger.next_generation,
        base=base,
        object=result.object,
        sha256=result.sha256,
        size=result.size,
        key_id=result.key_id,
        origins=profile.origins,
        source=source,
    )


def _failed(ledger: Ledger, desk: Desk, chore: Chore, why: Problem, now: Now) -> Verdict:
    """Of a check: what it found is the profile's state from here on. Anything else leaves the profile as it was."""
    profile = ledger.profile
    assert profile is not None
    state = _STATES.get(why.code)
    if isinstance(chore.asked.request, CheckProfile) and state is not None:
        found = msgspec.structs.replace(profile, state=state, why=why.message)
        desk, again = _free(desk, now)
        told = Say(chore.asked.slot, told_profile(ledger, desk, found))
        return Verdict(desk, records=(found,) if found != profile else (), replies=(told,), effects=again)
    told = refusal(ledger, desk, chore.asked, why, now)
    desk, again = _free(desk, now)
    return Verdict(desk, replies=(told,), effects=again)


_STATES = {Code.AUTHENTICATION_REQUIRED: "authentication_required", Code.NEEDS_USER: "needs_user"}
"""What a failed check makes of the profile; other problems say nothing about its state."""


def landed(ledger: Ledger, desk: Desk, now: Now) -> Verdict:
    """The record is on disk: the next generation of a rewrap, or the answer."""
    chore = desk.chore
    assert chore is not None
    asked, profile = chore.asked, ledger.profile
    assert profile is not None
    if isinstance(asked.request, Rewrap):
        old = _under_another_key(ledger, asked)
        if old is not None:
            return Verdict(desk, effects=(Reseal(asked.slot, old, old.number),))
        told: GenerationsTold | None = _told(ledger, desk)
    else:
        told = None
    reply = Say(asked.slot, told if told is not None else told_profile(ledger, desk, profile))
    if profile.state == "deleted":
        # Nobody is told before the chain itself says so: the answer leaves with the release.
        return Verdict(replace(desk, chore=None, passive=True), replies=(reply,), effects=(Release(),))
    desk, again = _free(desk, now)
    return Verdict(desk, replies=(reply,), effects=(sweep(ledger, desk, now), *again))


def _free(desk: Desk, now: Now) -> tuple[Desk, tuple[Again, ...]]:
    return queue.wake(replace(desk, chore=None, idle_since_ms=now.ms))


def moment_ms(desk: Desk) -> int | None:
    """When an open ceremony ends by itself."""
    return desk.ceremony.until_ms if desk.ceremony is not None and desk.chore is None else None


def expire(desk: Desk, now: Now) -> Verdict:
    """Its five minutes are over: whoever waits may have the profile."""
    desk, again = queue.wake(replace(desk, ceremony=None, idle_since_ms=now.ms))
    return Verdict(desk, effects=again)


def sweep(ledger: Ledger, desk: Desk, now: Now) -> SweepObjects:
    """Objects that no kept generation needs."""
    keep = tuple(sealed.object for sealed in ledger.kept)
    old = tuple(
        sealed.object
        for sealed in ledger.generations
        if sealed.object not in keep and (sealed.boot != desk.boot or sealed.at_ms <= now.ms - SWEEP_AGE_MS)
    )
    return SweepObjects(keep, old)


def state_after(profile: ProfileChanged, unhealthy: str | None) -> ProfileChanged | None:
    """What a lease's seal says about the profile; None: nothing new."""
    state = "ready" if unhealthy is None else "authentication_required"
    if profile.state == "revoked" or (profile.state, profile.why) == (state, unhealthy):
        return None
    return msgspec.structs.replace(profile, state=state, why=unhealthy)
