"""Dialogs under the policy `ask`: the call says that one is open, the verb `dialog` answers it (contract, Pages)."""

from dataclasses import replace

from lessor.errors import OpenDialog, Problem, dialog_open
from lessor.findings import Away
from lessor.journal import Ledger
from lessor.lease.admit import holder, in_time, page_there
from lessor.lease.answers import refusal, refuse, view_for
from lessor.lease.lane import away_problem
from lessor.lease.verdict import Asked, Desk, DialogClosed, Now, Operation, Resume, Say, TellDialog, Verdict
from lessor.limits import ms
from lessor.messages.record import DialogDecided
from lessor.messages.reply import DialogAnswered
from lessor.messages.request import AnswerDialog


def opened(ledger: Ledger, desk: Desk, current: Operation, dialog: OpenDialog, now: Now) -> Verdict:
    """The input of an act holds at a dialog. Its outcome is open still, and awaited; everyone who waits is told."""
    told = dialog_open(dialog)
    waiting = () if current.answered else current.slots
    replies = tuple(Say(slot, refusal(ledger, desk, current.asked, told, now).reply) for slot in waiting)
    behind = tuple(refusal(ledger, desk, asked, told, now) for asked in desk.lane)
    paused = replace(current, answered=True, dialog=dialog)
    desk = replace(desk, operation=paused, lane=())
    return Verdict(desk, replies=(*replies, *behind), effects=(Resume(current.asked.slot, dialog.id),))


def answer(ledger: Ledger, desk: Desk, asked: Asked, now: Now) -> Verdict:
    """On record first, then given; it never waits behind a page operation."""
    request = asked.request
    assert isinstance(request, AnswerDialog)
    held = holder(ledger, desk, asked, request.lease, request.claim, now)
    if isinstance(held, Problem):
        return refuse(ledger, desk, asked, held, now)
    renewal = in_time(held, request, desk, now)
    if isinstance(renewal, Problem):
        return refuse(ledger, desk, asked, renewal, now)
    refused = page_there(desk, now)
    if refused is not None:
        return refuse(ledger, desk, asked, refused, now)
    decided = DialogDecided(lease=held.id, claim=request.claim, dialog=request.dialog, accept=request.accept)
    until_ms = min(request.deadline_ms, now.ms + ms(desk.limits.observe_s))
    desk = replace(desk, last_call_ms=now.ms)
    return Verdict(desk, records=(*renewal, decided), effects=(TellDialog(asked, until_ms),))


def closed(ledger: Ledger, desk: Desk, event: DialogClosed, now: Now) -> Verdict:
    """The dialog is gone, or was another one: say so. What waited for it goes on by itself."""
    asked, result = event.asked, event.result
    assert isinstance(asked.request, AnswerDialog)
    if not isinstance(result, OpenDialog):
        return refuse(ledger, desk, asked, away_problem(result) if isinstance(result, Away) else result, now)
    current = desk.operation
    if current is not None and current.dialog is not None and current.dialog.id == result.id:
        desk = replace(desk, operation=replace(current, dialog=None))
    view = view_for(ledger, desk, asked, now)
    told = DialogAnswered(dialog=result, accepted=asked.request.accept, lease=view)
    return Verdict(desk, replies=(Say(asked.slot, told),))
