"""The demo's figures, from ground truth alone: the site's own log, the journal, the process table."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from lessor.cli.demo.plan import LOGIN_RUN, RUN, Fault, Invoice, count
from lessor.cli.demo.reading import Entries
from lessor.cli.demo.site_log import LOGINS_FILE, SUBMISSIONS_FILE
from lessor.journal import Ledger, fold
from lessor.messages.record import Attached, Intent, LeaseGranted, Outcome, Reconciled
from lessor.messages.reply import ActOutcome, StepState
from lessor.steps import view


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    steps: int
    """Request keys whose step has SUCCEEDED by the journal."""
    site_submissions: int
    duplicates: int
    """Submissions at the site beyond the first under the same request key."""
    recorded_after_worker_death: int
    """Commits whose outcome was on record although their worker died before it could use it."""
    unknown_reconciled: int
    """Steps that had a commit with outcome UNKNOWN and are a fact now."""
    reattached: bool
    """A worker took a lease over, page and all, from one that had died."""
    logged_in_from_seal: bool
    """The site saw one login, in the first run, and all submissions came under its session."""
    orphans: int
    seconds: float

    def as_line(self) -> str:
        return json.dumps(asdict(self))


def read(site: Path, entries: Entries, orphans: int, seconds: float) -> Figures:
    """`site` is the site's directory, `entries` the profile's journal."""
    submissions, logins = _lines(site / SUBMISSIONS_FILE), _lines(site / LOGINS_FILE)
    ledger = Ledger()
    for sequence, entry in entries:
        fold(ledger, sequence, entry)
    states = {key: seen.state for key in ledger.steps if (seen := view(ledger, key)) is not None}
    return Figures(
        steps=sum(state is StepState.SUCCEEDED for state in states.values()),
        site_submissions=len(submissions),
        duplicates=len(submissions) - len({submission["request_key"] for submission in submissions}),
        recorded_after_worker_death=len(_inherited(entries)),
        unknown_reconciled=sum(
            states[key] is StepState.SUCCEEDED
            and any(commit.act.outcome is ActOutcome.UNKNOWN for commit in history.commits)
            for key, history in ledger.steps.items()
            if key in states
        ),
        reattached=any(isinstance(record, Attached) for _, entry in entries for record in entry.records),
        logged_in_from_seal=_is_from_seal(submissions, logins, entries),
        orphans=orphans,
        seconds=round(seconds, 1),
    )


def shortcomings(figures: Figures, invoices: Sequence[Invoice], site: Path, entries: Entries) -> list[str]:
    """What was promised and is not so, in words; empty when all is well."""
    ledger = Ledger()
    for sequence, entry in entries:
        fold(ledger, sequence, entry)
    wanted = {invoice.request_key for invoice in invoices}
    there = {str(submission["request_key"]) for submission in _lines(site / SUBMISSIONS_FILE)}
    survived = count(invoices, Fault.WORKER_AT_ANSWER)
    doubtful = sum(invoice.fault.kills_browser for invoice in invoices)
    found = (
        (figures.steps == len(wanted), f"{figures.steps} of {len(wanted)} steps are settled"),
        (there == wanted, f"the site has {len(there & wanted)} of {len(wanted)} invoices"),
        (figures.duplicates == 0, f"{figures.duplicates} were sent twice"),
        (
            figures.recorded_after_worker_death >= survived,
            f"{figures.recorded_after_worker_death} outcomes survived their worker, not {survived}",
        ),
        (
            figures.unknown_reconciled >= doubtful,
            f"{figures.unknown_reconciled} of {doubtful} unknown outcomes were settled",
        ),
        (
            figures.reattached or not any(invoice.fault.kills_worker for invoice in invoices),
            "no worker took over the page of the one before",
        ),
        (figures.logged_in_from_seal, "the run did not start logged in from the seal"),
        (ledger.lease is not None and ledger.lease.phase == "closed", "the last lease is not torn down"),
        (figures.orphans == 0, f"{figures.orphans} processes are left over"),
    )
    return [words for is_so, words in found if not is_so]


def _lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def _inherited(entries: Entries) -> set[str]:
    """Request keys whose last commit was applied for a worker that never got to say what came of it: a successor took
    the lease over first, and did not send it again."""
    open_commits: dict[tuple[str, int], str] = {}
    inherited: dict[str, tuple[str, int]] = {}
    applied: set[tuple[str, int]] = set()
    for record in (record for _, entry in entries for record in entry.records):
        match record:
            case Intent(request_key=str() as key, lease=lease, sequence=sequence):
                open_commits[(lease, sequence)] = key
                inherited.pop(key, None)
            case Outcome(lease=lease, sequence=sequence, outcome=ActOutcome.APPLIED):
                applied.add((lease, sequence))
            case Reconciled(request_key=key, counted=True):
                open_commits = {commit: held for commit, held in open_commits.items() if held != key}
            case Attached(lease=lease):
                inherited.update({key: commit for commit, key in open_commits.items() if commit[0] == lease})
            case _:
                pass
    return {key for key, commit in inherited.items() if commit in applied}


def _is_from_seal(
    submissions: Sequence[Mapping[str, Any]], logins: Sequence[Mapping[str, Any]], entries: Entries
) -> bool:
    granted = [record for _, entry in entries for record in entry.records if isinstance(record, LeaseGranted)]
    bases = {run: [grant.base for grant in granted if grant.scope.run == run] for run in (LOGIN_RUN, RUN)}
    sessions = {submission["session"] for submission in submissions}
    return (
        bases[LOGIN_RUN][:1] == [0]
        and bool(bases[RUN])
        and min(bases[RUN]) > 0
        and [login["session"] for login in logins] == list(sessions)
    )
