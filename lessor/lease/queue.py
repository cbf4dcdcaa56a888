"""Waiting for a profile is polling: first come first served, a place is kept 10 s after its last poll (contract 2)."""

from dataclasses import replace

from lessor.errors import Code, Problem, problem
from lessor.journal import Ledger
from lessor.lease.answers import refusal, told_time
from lessor.lease.verdict import Again, Asked, Desk, Now, Place, Say, Verdict
from lessor.limits import ms
from lessor.messages.request import Acquire


def busy(ledger: Ledger, desk: Desk, asked: Asked, now: Now) -> Verdict:
    """Take or keep a place and answer `profile_busy`, at once or when the poll's wait is over."""
    return wait(ledger, desk, asked, now)


def wait(ledger: Ledger, desk: Desk, asked: Asked, now: Now) -> Verdict:
    """Put the poll into its place; one without a wait is answered at once."""
    acquire = _acquire(asked)
    desk = forget(desk, now)
    kept = _place(desk, acquire)
    if kept is None and len(desk.queue) >= desk.limits.queue_max:
        full = problem(Code.OVERLOADED, "Too many runs wait for this profile: try later.", retry_after_s=5)
        return Verdict(desk, replies=(refusal(ledger, desk, asked, full, now),))
    answer_by_ms = asked.arrived_ms + ms(min(acquire.wait_s, desk.limits.wait_s_max))
    place = Place(
        run=acquire.run,
        attempt=acquire.attempt,
        worker=acquire.worker,
        asked=asked,
        answer_by_ms=answer_by_ms,
        kept_until_ms=max(now.ms, answer_by_ms) + ms(desk.limits.place_s),
    )
    replies: tuple[Say, ...] = ()
    if kept is not None and kept.asked is not None and kept.asked.slot != asked.slot:
        # A newer poll of the same run: the older one is answered with where it stands.
        replies = (refusal(ledger, desk, kept.asked, where(ledger, desk, acquire, now), now),)
    desk = replace(desk, queue=_put(desk.queue, kept, place))
    if answer_by_ms <= now.ms:
        desk, answered = _answer(ledger, desk, place, now)
        replies = (*replies, *answered)
    return Verdict(desk, replies=replies)


def _put(queue: tuple[Place, ...], kept: Place | None, place: Place) -> tuple[Place, ...]:
    if kept is None:
        return (*queue, place)
    return tuple(place if old is kept else old for old in queue)


def due(ledger: Ledger, desk: Desk, now: Now) -> Verdict:
    """Answer the polls whose wait is over, and drop the places nobody polls for any more."""
    desk, again = _shorten(ledger, desk, forget(desk, now))
    replies: tuple[Say, ...] = ()
    for place in desk.queue:
        if place.asked is not None and place.answer_by_ms <= now.ms:
            desk, answered = _answer(ledger, desk, place, now)
            replies = (*replies, *answered)
    return Verdict(desk, replies=replies, effects=again)


def wake(desk: Desk) -> tuple[Desk, tuple[Again, ...]]:
    """The profile is free: decide the polls in hand again, in their order. Each may take its place anew."""
    again = tuple(Again(place.asked) for place in desk.queue if place.asked is not None)
    return replace(desk, queue=tuple(replace(place, asked=None) for place in desk.queue)), again


def forget(desk: Desk, now: Now) -> Desk:
    """Drop the places nobody polls for any more; a poll in hand is answered first, however late."""
    kept = tuple(place for place in desk.queue if place.asked is not None or place.kept_until_ms > now.ms)
    return replace(desk, queue=kept)


def give_up(ledger: Ledger, desk: Desk, acquire: Acquire) -> tuple[Desk, tuple[Again, ...]]:
    """The run can have the profile no more: its place goes, unless another poll of it is in hand there."""
    left = tuple(place for place in desk.queue if place.asked is not None or not _same(place, acquire))
    return _shorten(ledger, desk, replace(desk, queue=left))


def _shorten(ledger: Ledger, desk: Desk, shorter: Desk) -> tuple[Desk, tuple[Again, ...]]:
    """Somebody left the queue: of a free profile, whoever stood behind may be first now."""
    taken = desk.chore is not None or (ledger.lease is not None and ledger.lease.phase != "closed")
    if len(shorter.queue) == len(desk.queue) or taken or shorter.start is not None:
        return shorter, ()
    return wake(shorter)


def leave(desk: Desk, acquire: Acquire) -> tuple[Desk, tuple[Asked, ...]]:
    """The run has what it waited for; its poll in hand, if another one brought it here, comes along."""
    rest = tuple(place for place in desk.queue if not _same(place, acquire))
    along = tuple(place.asked for place in desk.queue if _same(place, acquire) and place.asked is not None)
    return replace(desk, queue=rest), along


def first(desk: Desk, acquire: Acquire, now: Now) -> bool:
    """Whether nobody who came earlier still polls for the profile."""
    waiting = forget(desk, now).queue
    return not waiting or _same(waiting[0], acquire)


def where(ledger: Ledger, desk: Desk, acquire: Acquire, now: Now) -> Problem:
    """`profile_busy` with its truth: who, since when, until when, and the asker's position (from 1)."""
    ahead = [index for index, place in enumerate(desk.queue, 1) if _same(place, acquire)]
    position = ahead[0] if ahead else len(desk.queue) + 1
    held = ledger.lease
    if held is not None and held.phase == "closing":
        return problem(
            Code.CLOSING,
            f"The profile's last lease is closing ({held.reason}): ask again; you are number {position}.",
            retry_after_s=0.1,
            position=position,
        )
    if held is None or held.phase == "closed":
        if desk.chore is not None:
            return problem(
                Code.PROFILE_BUSY,
                f"The profile's state is being worked on: ask again; you are number {position}.",
                retry_after_s=0.5,
                position=position,
            )
        starter = desk.start.acquire.run if desk.start is not None else None
        return problem(
            Code.PROFILE_BUSY,
            f"The profile is being started for run {starter!r}: ask again; you are number {position}."
            if starter
            else f"Others asked first: ask again; you are number {position}.",
            retry_after_s=1.0,
            holder_run=starter,
            position=position,
        )
    return problem(
        Code.PROFILE_BUSY,
        f"Run {held.scope.run!r} holds the profile until {told_time(now, held.expires_ms)} or longer: ask"
        f" again, or close that run; you are number {position}.",
        retry_after_s=1.0,
        holder_run=held.scope.run,
        since=told_time(now, held.granted_ms),
        expires_at=told_time(now, held.expires_ms),
        position=position,
    )


def _answer(ledger: Ledger, desk: Desk, place: Place, now: Now) -> tuple[Desk, tuple[Say, ...]]:
    assert place.asked is not None
    answer = refusal(ledger, desk, place.asked, where(ledger, desk, _acquire(place.asked), now), now)
    waiting = replace(place, asked=None)
    queue = tuple(waiting if old is place else old for old in desk.queue)
    return replace(desk, queue=queue), (answer,)


def _place(desk: Desk, acquire: Acquire) -> Place | None:
    return next((place for place in desk.queue if _same(place, acquire)), None)


def _same(place: Place, acquire: Acquire) -> bool:
    return (place.run, place.attempt) == (acquire.run, acquire.attempt)


def _acquire(asked: Asked) -> Acquire:
    assert isinstance(asked.request, Acquire)
    return asked.request
