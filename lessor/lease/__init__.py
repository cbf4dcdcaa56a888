"""The lease rules: one pure function from what is known and what happens to what follows.

`decide` reads no clock, does no I/O and never changes the ledger: the owner's actor appends the
verdict's records, folds them when they are acknowledged, and only then answers and acts. The
simulator runs the same code.
"""

from dataclasses import replace
from typing import assert_never

from lessor.errors import Code, problem
from lessor.journal import Ledger
from lessor.lease import (
    acquire,
    acting,
    alarm,
    approval,
    chores,
    control,
    declaring,
    dialog,
    ending,
    files,
    lane,
    profile,
    questions,
    starting,
    sweep,
    tending,
)
from lessor.lease.verdict import (
    Aimed,
    Alarm,
    ApprovalAsked,
    Asked,
    BrowserGone,
    ChoreLanded,
    ChoreOver,
    ClosedLanded,
    ClosingLanded,
    Desk,
    DialogClosed,
    DispatchDone,
    Drain,
    Event,
    Extended,
    FileStored,
    GrantLanded,
    GrantRead,
    IntentLanded,
    Killed,
    Looked,
    Now,
    ReadDone,
    RunSeen,
    RunsRead,
    Sealed,
    SealFailed,
    SealLanded,
    Started,
    StartFailed,
    Tended,
    TickDue,
    Verdict,
)
from lessor.messages.request import (
    Acquire,
    Act,
    AnswerDialog,
    AskGenerations,
    AskOutcome,
    AskStatus,
    Cancel,
    Ceremony,
    Checkpoint,
    CheckProfile,
    Close,
    CreateProfile,
    DeclareStep,
    DeleteProfile,
    ImportState,
    ListSteps,
    Navigate,
    Observe,
    ReadArtifact,
    Reconcile,
    Renew,
    RevokeProfile,
    Rewrap,
    RollBack,
    ShowArtifacts,
    ShowProfile,
    ShowTabs,
)


def decide(ledger: Ledger, desk: Desk, event: Event, now: Now) -> Verdict:  # noqa: C901 -- a row per event
    """What follows from one message. Every branch of the lease contract hangs below this table."""
    match event:
        case Asked():
            return _asked(ledger, _awake(desk, now), event, now)
        case Alarm():
            return alarm.ring(ledger, desk, now)
        case RunsRead():
            return acquire.runs_read(ledger, desk, event, now)
        case Started():
            return starting.started(ledger, desk, event, now)
        case StartFailed():
            return starting.failed(ledger, desk, event, now)
        case GrantLanded():
            return starting.grant_landed(ledger, desk, now)
        case Aimed():
            return acting.aimed(ledger, desk, event, now)
        case GrantRead():
            return acting.grant_read(ledger, desk, event, now)
        case ApprovalAsked():
            return approval.asked(ledger, desk, event, now)
        case IntentLanded():
            return acting.intent_landed(ledger, desk, event, now)
        case DispatchDone():
            return acting.dispatched(ledger, desk, event, now)
        case FileStored():
            return files.stored(ledger, desk, event, now)
        case Tended():
            return tending.done(ledger, desk, event, now)
        case DialogClosed():
            return dialog.closed(ledger, desk, event, now)
        case ReadDone():
            return lane.read_done(ledger, desk, event, now)
        case ClosingLanded() | SealLanded() | ClosedLanded():
            return ending.landed(ledger, desk, event, now)
        case Looked():
            return ending.looked(ledger, desk, event, now)
        case Sealed():
            return ending.sealed(ledger, desk, event, now)
        case SealFailed():
            return ending.seal_failed(ledger, desk, event, now)
        case Killed():
            return ending.killed(ledger, desk, event, now)
        case BrowserGone() | Extended():
            return _browser(ledger, desk, event, now)
        case RunSeen():
            return sweep.run_seen(ledger, desk, event, now)
        case TickDue():
            return sweep.ticked(ledger, desk, now)
        case ChoreOver() | ChoreLanded():
            return chores.went_on(ledger, desk, event, now)
        case Drain():
            return ending.drain(ledger, desk, now)
        case _:
            assert_never(event)


def _awake(desk: Desk, now: Now) -> Desk:
    """A question keeps an idle profile with its owner a little longer."""
    return replace(desk, idle_since_ms=now.ms)


def _asked(ledger: Ledger, desk: Desk, asked: Asked, now: Now) -> Verdict:  # noqa: C901 -- a row per request
    match asked.request:
        case Acquire():
            return acquire.ask(ledger, desk, asked, now)
        case Act() | Navigate() | Observe():
            return lane.ask(ledger, desk, asked, now)
        case AnswerDialog():
            return dialog.answer(ledger, desk, asked, now)
        case ReadArtifact():
            return files.read(ledger, desk, asked, now)
        case ShowTabs() | ShowArtifacts():
            return tending.ask(ledger, desk, asked, now)
        case Renew():
            return control.renew(ledger, desk, asked, now)
        case Close():
            return control.close(ledger, desk, asked, now)
        case Cancel():
            return control.cancel(ledger, desk, asked, now)
        case AskStatus():
            return control.status(ledger, desk, asked, now)
        case AskOutcome():
            return questions.outcome(ledger, desk, asked, now)
        case Reconcile():
            return questions.reconcile(ledger, desk, asked, now)
        case DeclareStep():
            return declaring.declare(ledger, desk, asked, now)
        case Checkpoint():
            return declaring.checkpoint(ledger, desk, asked, now)
        case ListSteps():
            return declaring.list_steps(ledger, desk, asked, now)
        case CreateProfile():
            return profile.create(ledger, desk, asked, now)
        case ShowProfile():
            return profile.show(ledger, desk, asked, now)
        case RevokeProfile():
            return profile.revoke(ledger, desk, asked, now)
        case DeleteProfile():
            return chores.delete(ledger, desk, asked, now)
        case AskGenerations():
            return chores.generations(ledger, desk, asked, now)
        case RollBack():
            return chores.roll_back(ledger, desk, asked, now)
        case CheckProfile():
            return chores.check(ledger, desk, asked, now)
        case ImportState():
            return chores.import_(ledger, desk, asked, now)
        case Ceremony():
            return chores.ceremony(ledger, desk, asked, now)
        case Rewrap():
            return chores.rewrap(ledger, desk, asked, now)
        case _:
            assert_never(asked.request)


def _browser(ledger: Ledger, desk: Desk, event: BrowserGone | Extended, now: Now) -> Verdict:
    if isinstance(event, Extended):
        if event.until_ms is None or event.until_ms <= desk.keeper_until_ms:
            return Verdict(desk)
        return Verdict(replace(desk, keeper_until_ms=event.until_ms))
    start, held = desk.start, ledger.lease
    if start is not None and start.instance == event.instance:
        died = problem(Code.BROWSER_GONE, "The browser died while it was started: acquire again.")
        return starting.drop(ledger, desk, died, now)
    if held is None or held.phase == "closed" or held.instance != event.instance:
        return Verdict(desk)
    desk = replace(desk, browser="gone")
    if desk.operation is not None:
        return Verdict(desk)
    return ending.over(ledger, desk, now) or Verdict(desk)
