"""The report's page: everything in one file, nothing loaded, every value escaped."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape

from lessor import audit
from lessor.audit import Line
from lessor.cli.books import Book
from lessor.cli.stepping import word
from lessor.journal import Ledger, fold
from lessor.lease.declaring import record_of
from lessor.lease.verdict import Desk, Now
from lessor.limits import Limits
from lessor.messages.record import Checkpointed, Intent, Outcome, Reconciled, StepDeclared
from lessor.messages.reply import ActOutcome
from lessor.messages.step import StepRecord, StepState

STYLE = """
body{font:15px/1.5 system-ui,sans-serif;max-width:75rem;margin:2rem auto;padding:0 1rem;color:#1c2024}
h1{font-size:1.5rem}h2{font-size:1.15rem;margin-top:2rem}
table{border-collapse:collapse;width:100%}th,td{text-align:left;vertical-align:top;padding:.3rem .6rem;
border-bottom:1px solid #e3e6e9;overflow-wrap:anywhere}th{color:#596470;font-weight:600}
code{font:13px/1.4 ui-monospace,monospace}.s{white-space:nowrap;font-weight:600}
.SUCCEEDED{color:#0a7a3d}.UNKNOWN,.FAILED,.broken{color:#b3261e}.DISPATCHED,.INTENDED{color:#8a5a00}
section{border:1px solid #e3e6e9;border-radius:6px;padding:.6rem 1rem;margin:.8rem 0}dl{display:grid;
grid-template-columns:9rem 1fr;gap:.2rem .8rem;margin:.3rem 0}dt{color:#596470}dd{margin:0;overflow-wrap:anywhere}
@media(prefers-color-scheme:dark){body{background:#14171a;color:#e4e7ea}th,td,section{border-color:#30363c}}
"""
AUDIT_KINDS = ("read", "lease_renewed")
"""Shown in the timeline only as a count: they decide nothing."""


@dataclass(frozen=True, slots=True)
class Told:
    """What the page says."""

    name: str
    profiles: tuple[str, ...]
    steps: tuple[tuple[str, StepRecord], ...]
    lines: tuple[Line, ...]
    heads: tuple[tuple[str, str], ...]
    whole: bool


def told_of(name: str, books: Sequence[Book], run: str | None) -> Told:
    """Everything on record about a run; without one, about the profile."""
    lines: list[Line] = []
    steps: list[tuple[str, StepRecord]] = []
    checked = [(book.profile, audit.verify(book.stored)) for book in books]
    for book in books:
        entries = book.entries()
        lines.extend(audit.lines(book.profile, entries, run))
        ledger = Ledger()
        for sequence, entry in entries:
            fold(ledger, sequence, entry)
        desk = Desk(host="", boot=ledger.boot, tenant="", profile=book.profile, limits=Limits(), epoch=ledger.epoch)
        records = (record_of(ledger, desk, key, Now(0, 0)) for key in ledger.steps)
        steps.extend((book.profile, step) for step in records if run is None or step.run == run)
    lines.sort(key=lambda line: (line.entry.unix_ms or 0, line.sequence))
    return Told(
        name=name,
        profiles=tuple(book.profile for book in books),
        steps=tuple(steps),
        lines=tuple(lines),
        heads=tuple((profile, one.head) for profile, one in checked),
        whole=not any(one.broken for _, one in checked),
    )


def page(told: Told) -> str:
    counts = {state: sum(step.state is state for _, step in told.steps) for state in StepState}
    summary = ", ".join(f"{count} {state}" for state, count in counts.items() if count) or "no commits"
    chain = "whole" if told.whole else '<span class="broken">broken: what follows cannot be relied on</span>'
    heads = " ".join(f"{escape(profile)} <code>{head}</code>" for profile, head in told.heads)
    shown = [line for line in told.lines if line.kind not in AUDIT_KINDS]
    return "\n".join(
        (
            '<!doctype html><html lang="en"><head><meta charset="utf-8">',
            "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">",
            f"<title>{escape(told.name)}</title><style>{STYLE}</style></head><body>",
            f"<h1>Run {escape(told.name)}</h1>",
            f"<dl><dt>Profiles</dt><dd>{escape(', '.join(told.profiles))}</dd><dt>Steps</dt><dd>{summary}</dd>",
            f"<dt>From, to</dt><dd>{_span(told.lines)}</dd>",
            f"<dt>Journal</dt><dd>{chain}; its last entry: {heads}</dd></dl>",
            "<h2>Steps</h2>",
            *(_step(profile, step, told.lines) for profile, step in told.steps),
            f"<h2>Timeline</h2><p>{len(shown)} records, {len(told.lines) - len(shown)} reads and renewals left out</p>",
            "<table><tr><th>Time</th><th>Profile</th><th>#</th><th>What</th><th></th></tr>",
            *map(_row, shown),
            "</table></body></html>\n",
        )
    )


def _span(lines: Sequence[Line]) -> str:
    return f"{lines[0].at} to {lines[-1].at}" if lines else "nothing"


def _row(line: Line) -> str:
    return (
        f'<tr><td class="s">{line.at}</td><td>{escape(line.profile)}</td><td>{line.sequence}</td>'
        f'<td class="s">{escape(line.kind)}</td><td><code>{escape(line.says())}</code></td></tr>'
    )


def _step(profile: str, step: StepRecord, lines: Sequence[Line]) -> str:
    desired, state = step.desired, word(step)
    wanted = (
        ("Target", desired.target),
        ("Payload", f"sha256 {desired.payload_hash}" if desired.payload_hash else ""),
        ("Evidence", ", ".join(desired.evidence) or "none declared"),
        ("Expects", " and ".join(filter(None, (desired.expect.url, desired.expect.text))) if desired.expect else ""),
        ("Waits for", ", ".join(key[:12] for key in desired.depends)),
    )
    seen = (
        ("State", state),
        ("Found", step.evidence or ""),
        ("By", step.by or ""),
        ("Commits", str(step.commits)),
        ("Key", step.request_key),
    )
    return (
        f"<section><b>{escape(step.task)}: {escape(step.step)}</b> at {escape(profile)}"
        f' <span class="s {state.split(",")[0]}">{escape(state)}</span>'
        f"<dl>{_pairs(wanted)}</dl><dl>{_pairs(seen)}</dl>"
        f"<table>{''.join(map(_way, _of(step.request_key, lines)))}</table></section>"
    )


def _pairs(pairs: Iterable[tuple[str, str]]) -> str:
    return "".join(f"<dt>{name}</dt><dd>{escape(value)}</dd>" for name, value in pairs if value)


def _of(key: str, lines: Sequence[Line]) -> list[Line]:
    """What the journal holds on a step, the outcomes of its commits included."""
    found: list[Line] = []
    commits = set[tuple[str, int]]()
    for line in lines:
        record = line.record
        if isinstance(record, Intent) and record.request_key == key:
            commits.add((record.lease, record.sequence))
        if getattr(record, "request_key", None) == key or (
            isinstance(record, Outcome) and (record.lease, record.sequence) in commits
        ):
            found.append(line)
    return found


def _way(line: Line) -> str:
    """A checkpoint of the step: those that follow from the journal, and its worker's own."""
    match line.record:
        case StepDeclared():
            name, fact = "declared", f"by run {line.record.run}, claim {line.record.claim}"
        case Checkpointed():
            name, fact = line.record.name, line.record.fact
        case Intent():
            name = "submit_intent_recorded"
            fact = f"{line.record.do} on {line.record.target}, act {line.record.sequence} of {line.record.lease}"
        case Reconciled():
            counted = "" if line.record.counted else " (does not count)"
            name, fact = "result_reconciled", f"{line.record.verdict}{counted}: {line.record.evidence}"
            fact += f"; {line.record.how or 'look'} by {line.record.by}"
        case Outcome(outcome=outcome, why=why):
            name = "submit_dispatched" if outcome is ActOutcome.APPLIED else "outcome"
            fact = f"{outcome}, {why}" if why else str(outcome)
        case _:
            name, fact = line.kind, line.says()
    return f'<tr><td class="s">{line.at}</td><td class="s">{escape(name)}</td><td>{escape(fact)}</td></tr>'
