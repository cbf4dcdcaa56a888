"""What is asked of a live browser beside its page operations: tabs. Control lane: nothing here waits for a page."""

from dataclasses import replace

from msgspec import structs

from lessor.errors import Code, Problem, problem
from lessor.findings import Away
from lessor.journal import Ledger
from lessor.lease.admit import holder, in_time, page_there
from lessor.lease.answers import refuse, view_for
from lessor.lease.lane import away_problem
from lessor.lease.verdict import Asked, Desk, Now, Say, Tend, Tended, Verdict
from lessor.limits import ms
from lessor.messages.request import ShowArtifacts, TendRequest


def ask(ledger: Ledger, desk: Desk, asked: Asked, now: Now) -> Verdict:
    """By the holder only, and never at the cost of a tab at work."""
    request = asked.request
    assert isinstance(request, TendRequest)
    held = holder(ledger, desk, asked, request.lease, request.claim, now)
    if isinstance(held, Problem):
        return refuse(ledger, desk, asked, held, now)
    renewal = in_time(held, request, desk, now)
    if isinstance(renewal, Problem):
        return refuse(ledger, desk, asked, renewal, now)
    refused = page_there(desk, now) or _busy(desk, request)
    if refused is not None:
        return refuse(ledger, desk, asked, refused, now)
    until_ms = min(request.deadline_ms, now.ms + ms(desk.limits.observe_s))
    return Verdict(replace(desk, last_call_ms=now.ms), records=renewal, effects=(Tend(asked, until_ms),))


def _busy(desk: Desk, request: TendRequest) -> Problem | None:
    tabs = {desk.operation.op.tab} if desk.operation is not None else set[str]()
    for asked in desk.lane:
        tabs.add(getattr(asked.request, "tab", "main"))
    if isinstance(request, ShowArtifacts) or request.close not in tabs:
        return None
    return problem(Code.ACTION_NOT_ALLOWED, f"The tab {request.close} is at work: wait for its answer, then close it.")


def done(ledger: Ledger, desk: Desk, event: Tended, now: Now) -> Verdict:
    """Answer as it went."""
    asked, result = event.asked, event.result
    match result:
        case Away():
            return refuse(ledger, desk, asked, away_problem(result), now)
        case Problem():
            return refuse(ledger, desk, asked, result, now)
        case _:
            told = structs.replace(result, lease=view_for(ledger, desk, asked, now))
            return Verdict(desk, replies=(Say(asked.slot, told),))
