"""How a lease ends: closing in time, sealing, retiring, expiring, and the confirmed end of its browser.

Order of a seal: `LeaseClosing` -> export, encrypt, store, read back -> `SealCommitted` -> browser and
egress confirmed gone -> `LeaseClosed`. Until then the profile stays exclusive (contract 13, 21-24).
"""

from dataclasses import replace

from lessor import redact, steps
from lessor.errors import Code, problem
from lessor.journal import LeaseState, Ledger
from lessor.lease import chores, queue
from lessor.lease.answers import receipt, refusal, refuse
from lessor.lease.turn import next_turn
from lessor.lease.verdict import (
    Again,
    Asked,
    CancelRead,
    ClosedLanded,
    ClosingLanded,
    Desk,
    Effect,
    KillBrowser,
    Killed,
    Look,
    Looked,
    Now,
    Say,
    Sealed,
    SealFailed,
    SealLanded,
    SealState,
    Verdict,
)
from lessor.limits import ms
from lessor.messages.hashing import text_hash
from lessor.messages.record import AnyRecord, Evidence, LeaseClosed, LeaseClosing, SealCommitted
from lessor.messages.reply import Closed, StepState
from lessor.messages.request import Act, Close

SEAL_RETRY_FACTOR_MAX = 16
KILL_RETRY_MS = 500
GUARD_MS = 2000
"""How long after a keeper's deadline its guard needs at most."""


def begin(ledger: Ledger, desk: Desk, reason: str, seal: bool, now: Now, run_revision: int | None = None) -> Verdict:
    """Stop admission: from here the lease does not expire, and only its end follows."""
    held = ledger.lease
    assert held is not None
    assert held.phase == "live", held
    assert not seal or now.ms < held.expires_ms, "an expired lease never seals (contract 24)"
    closing = LeaseClosing(
        lease=held.id,
        reason=reason,
        seal=seal,
        seal_by_ms=now.ms + ms(desk.limits.seal_s),
        run_revision=run_revision,
    )
    current = desk.operation
    cancel: tuple[Effect, ...] = ()
    if current is not None and not isinstance(current.op, Act):
        cancel = (CancelRead(),)
    desk = replace(desk, ending="closing", seal_tries=0, retry_ms=None)
    return Verdict(desk, records=(closing,), effects=(*cancel, Again(ClosingLanded())))


def landed(ledger: Ledger, desk: Desk, event: ClosingLanded | SealLanded | ClosedLanded, now: Now) -> Verdict:
    """A record of the end is on disk: go on from there."""
    match event:
        case ClosingLanded():
            return closing_landed(ledger, desk, now)
        case SealLanded():
            return seal_landed(ledger, desk, now)
        case ClosedLanded():
            return closed_landed(ledger, desk, now)


def closing_landed(ledger: Ledger, desk: Desk, now: Now) -> Verdict:
    """Wait for a running operation (contract 10), else go on. What queued behind it is refused now.

    A revoked profile waits for nothing: its browser is killed under the operation (contract 26).
    """
    if desk.operation is not None and _held(ledger).reason != "revoked":
        return Verdict(replace(desk, ending="waiting"))
    return next_turn(_proceed(ledger, desk, now))


def after_operation(ledger: Ledger, desk: Desk, now: Now) -> Verdict:
    """An operation has ended: go on with an end that waited for it, or notice that the lease is over."""
    held = ledger.lease
    if held is None or held.phase == "closed":
        return Verdict(desk)
    if held.phase == "closing":
        return _proceed(ledger, desk, now) if desk.ending == "waiting" else Verdict(desk)
    return over(ledger, desk, now) or Verdict(desk)


def over(ledger: Ledger, desk: Desk, now: Now) -> Verdict | None:
    """What ends a live lease by itself: expiry, a lost browser, the time before cap or run's deadline."""
    held = ledger.lease
    if held is None or held.phase != "live" or desk.ending is not None:
        return None
    if now.ms >= held.expires_ms:
        return begin(ledger, desk, "expired", False, now)
    if desk.browser == "gone":
        return begin(ledger, desk, "lost", False, now)
    if now.ms >= held.cap_ms - ms(desk.limits.closing_s):
        return begin(ledger, desk, "cap", True, now)
    return None


def drain(ledger: Ledger, desk: Desk, now: Now) -> Verdict:
    """The host is stopping: after the running operation the lease is sealed and closed (contract 24)."""
    desk = replace(desk, draining=True, ceremony=None)
    held = ledger.lease
    if held is None or held.phase != "live" or desk.ending is not None:
        return Verdict(desk)
    if now.ms >= held.expires_ms:
        return over(ledger, desk, now) or Verdict(desk)
    return begin(ledger, desk, "drained", desk.browser == "live", now)


def retire(ledger: Ledger, desk: Desk, now: Now) -> Verdict:
    """After an unknown outcome the lease ends, sealed if the browser answers and it has not expired (13)."""
    held = ledger.lease
    if held is None or held.phase != "live" or desk.ending is not None:
        return after_operation(ledger, desk, now)
    seal = desk.browser == "live" and now.ms < held.expires_ms
    return begin(ledger, desk, "retired", seal, now)


def _proceed(ledger: Ledger, desk: Desk, now: Now) -> Verdict:
    held = _held(ledger)
    if desk.ending == "killing":
        return Verdict(replace(desk, retry_ms=None), effects=(KillBrowser(held.instance),))
    if held.reason == "retired" and desk.browser == "live" and desk.ending in ("closing", "waiting"):
        until_ms = now.ms + ms(desk.limits.look_s)
        return Verdict(replace(desk, ending="looking"), effects=(Look(until_ms),))
    due = held.seal and held.generation is None and held.aside is None
    if due and desk.browser == "live" and now.ms < held.seal_by_ms:
        until_ms = min(now.ms + ms(desk.limits.close_s), held.seal_by_ms)
        sealing = replace(desk, ending="sealing", retry_ms=None)
        assert ledger.profile is not None
        return Verdict(sealing, effects=(SealState(ledger.next_generation, until_ms, ledger.profile.health),))
    killing = replace(desk, ending="killing", retry_ms=None)
    return Verdict(killing, effects=(KillBrowser(held.instance),))


def looked(ledger: Ledger, desk: Desk, event: Looked, now: Now) -> Verdict:
    held = _held(ledger)
    after = _proceed(ledger, desk, now)
    if event.page is None:
        return after
    page = event.page
    evidence = Evidence(
        lease=held.id,
        url=redact.address(page.url),
        title=redact.words(page.title)[:256],
        text_sha256=text_hash(page.text),
    )
    found = steps.shown(ledger, steps.awaiting(ledger, held, StepState.UNKNOWN, StepState.DISPATCHED), page)
    verdict = () if found is None else (found,)
    return replace(after, records=(evidence, *verdict, *after.records))


def sealed(ledger: Ledger, desk: Desk, event: Sealed, now: Now) -> Verdict:
    """The state lies in the store and was read back: commit it, unless its time is over (contract 24)."""
    held = _held(ledger)
    if now.ms > held.seal_by_ms:
        return _proceed(ledger, desk, now)
    assert ledger.profile is not None
    committed = SealCommitted(
        lease=held.id,
        generation=ledger.next_generation,
        base=held.base,
        object=event.object,
        sha256=event.sha256,
        size=event.size,
        key_id=event.key_id,
        origins=ledger.profile.origins,
        unhealthy=event.unhealthy is not None,
    )
    changed = chores.state_after(ledger.profile, event.unhealthy) if ledger.profile.health is not None else None
    records: tuple[AnyRecord, ...] = (committed,) if changed is None else (committed, changed)
    return Verdict(desk, records=records, effects=(Again(SealLanded()),))


def seal_landed(ledger: Ledger, desk: Desk, now: Now) -> Verdict:
    """The generation is on disk: that is the receipt. The profile stays exclusive until its browser is gone."""
    held = _held(ledger)
    replies = tuple(Say(asked.slot, Closed(receipt=receipt(held))) for asked in desk.closers)
    after = _proceed(ledger, replace(desk, closers=()), now)
    return replace(after, replies=(*replies, *after.replies))


def seal_failed(ledger: Ledger, desk: Desk, event: SealFailed, now: Now) -> Verdict:
    """Report it to whoever waits, stay exclusive, try again while there is time (contract 23)."""
    held = _held(ledger)
    failed = problem(
        Code.SEAL_FAILED,
        f"The profile's state could not be sealed ({event.problem.message}) It is tried again: ask for the"
        " close again.",
        retry_after_s=desk.limits.seal_retry_s,
    )
    replies = tuple(refusal(ledger, desk, asked, failed, now) for asked in desk.closers)
    factor = min(2**desk.seal_tries, SEAL_RETRY_FACTOR_MAX)
    desk = replace(
        desk,
        closers=(),
        seal_tries=desk.seal_tries + 1,
        retry_ms=min(now.ms + ms(desk.limits.seal_retry_s) * factor, max(now.ms, held.seal_by_ms)),
    )
    return Verdict(desk, replies=replies)


def retry(ledger: Ledger, desk: Desk, now: Now) -> Verdict:
    return _proceed(ledger, desk, now)


def killed(ledger: Ledger, desk: Desk, event: Killed, now: Now) -> Verdict:
    """Only a confirmed end frees the profile (contract 13); that of a start without a lease changes nothing."""
    held = ledger.lease
    if held is None or desk.ending != "killing" or event.instance not in (None, held.instance):
        return Verdict(desk)
    # Nobody can confirm it: by then its keeper's deadline has ended it. That frees the profile, but no
    # look-up's `not_sent` ever counts on it (contract 13).
    if event.gone_ms is None and now.ms <= desk.keeper_until_ms + GUARD_MS:
        return Verdict(replace(desk, retry_ms=now.ms + KILL_RETRY_MS))
    closed = LeaseClosed(
        lease=held.id,
        reason=held.reason or "ended",
        receipt="sealed" if held.generation is not None else "seal_failed" if held.seal else "discarded",
        generation=held.generation,
        gone_ms=event.gone_ms,
    )
    return Verdict(desk, records=(closed,), effects=(Again(ClosedLanded()),))


def closed_landed(ledger: Ledger, desk: Desk, now: Now) -> Verdict:
    """Receipts for everyone who waited, and the next run's turn."""
    held = _held(ledger)
    replies = tuple(Say(asked.slot, Closed(receipt=receipt(held))) for asked in desk.closers)
    desk, again = queue.wake(desk)
    sealed = held.generation is not None or held.aside is not None
    swept = (chores.sweep(ledger, desk, now),) if sealed else ()
    desk = replace(
        desk,
        browser="none",
        ending=None,
        closers=(),
        retry_ms=None,
        remembered=(),
        grants_until_ms=(),
        claim_seen=0,
        page_url="",
        keeper_until_ms=0,
        idle_since_ms=now.ms,
    )
    return Verdict(desk, replies=replies, effects=(*swept, *again))


def close(ledger: Ledger, desk: Desk, asked: Asked, held: LeaseState, now: Now) -> Verdict:
    """A close by the lease's own claim; asking again joins, then gets the same receipt (contract 21)."""
    request = asked.request
    assert isinstance(request, Close)
    if held.phase == "closed" or held.generation is not None or held.aside is not None:
        return Verdict(desk, replies=(Say(asked.slot, Closed(receipt=receipt(held))),))
    if held.phase == "live" and now.ms >= request.deadline_ms:
        late = problem(Code.DEADLINE_PASSED, "The deadline has passed and nothing was closed: ask again.")
        return refuse(ledger, desk, asked, late, now)
    waiting = replace(desk, closers=(*desk.closers, asked))
    if held.phase == "closing":
        return Verdict(waiting)
    if now.ms >= held.expires_ms:
        return begin(ledger, waiting, "expired", False, now)
    return begin(ledger, waiting, "ended", not request.discard, now)


def _held(ledger: Ledger) -> LeaseState:
    assert ledger.lease is not None
    return ledger.lease
