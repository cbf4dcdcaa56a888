"""One profile's part of a history, prepared for scans."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from lessor.check.history import (
    Acknowledged,
    AnyMoment,
    Came,
    Dropped,
    Healed,
    History,
    Passed,
    Rest,
    RunWritten,
    Sent,
    Told,
    Tried,
    Wrote,
)
from lessor.limits import Limits
from lessor.messages.record import AnyRecord
from lessor.messages.request import ProfileRequest

Number = tuple[str, int]
"""A lease and a sequence."""


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that must never be true, and the few moments that prove it."""

    predicate: str
    what: str
    proof: tuple[AnyMoment, ...] = ()

    def __str__(self) -> str:
        return "\n".join([f"{self.predicate}: {self.what}", *(f"    {moment}" for moment in self.proof)])


Findings = Iterator[Finding]


@dataclass(slots=True)
class View:
    """`moments` are the profile's own, and all run records of its tenant."""

    profile: str
    limits: Limits
    moments: History = field(default_factory=list[AnyMoment])
    requests: dict[int, ProfileRequest] = field(default_factory=dict[int, ProfileRequest])
    came: dict[int, Came] = field(default_factory=dict[int, Came])
    has_acknowledgements: bool = False
    """Without them, as in a production journal, what is stored counts as acknowledged."""
    has_sent: bool = False
    decided_ms: dict[str, int] = field(default_factory=dict[str, int])
    """By nonce: when an entry was first published, where that was seen."""
    ends_ms: int = 0
    healed_ms: int | None = None

    def records(self) -> Iterator[tuple[Wrote, AnyRecord]]:
        for moment in self.moments:
            if isinstance(moment, Wrote):
                for record in moment.entry.records:
                    yield moment, record

    def known(self) -> Iterator[tuple[AnyMoment, tuple[Wrote, ...]]]:
        """Each moment, with the entries that an owner knows to be on disk since the one before.

        An acknowledgement covers everything stored before it: its owner has replayed that.
        """
        waiting: list[Wrote] = []
        for moment in self.moments:
            learnt: tuple[Wrote, ...] = ()
            if isinstance(moment, Wrote):
                waiting.append(moment)
                if not self.has_acknowledgements:
                    learnt, waiting = tuple(waiting), []
            elif isinstance(moment, Acknowledged):
                learnt = tuple(entry for entry in waiting if entry.sequence <= moment.sequence)
                waiting = [entry for entry in waiting if entry.sequence > moment.sequence]
            yield moment, learnt


def views(history: History, limits: Limits) -> list[View]:
    """Every profile of the history, in the order of their first moments."""
    found: dict[str, View] = {}
    slots: dict[int, View] = {}
    runs: list[RunWritten] = []
    acknowledged = any(isinstance(moment, Acknowledged) for moment in history)
    sent = any(isinstance(moment, Sent) for moment in history)
    for moment in history:
        match moment:
            case RunWritten(run=run):
                runs.append(moment)
                for view in found.values():
                    if _tenant(view.profile) == _tenant(run):
                        view.moments.append(moment)
            case Told(slot=slot) | Passed(slot=slot):
                if slot in slots:
                    slots[slot].moments.append(moment)
            case Dropped(slots=dropped):
                for view in {id(slots[slot]): slots[slot] for slot in dropped if slot in slots}.values():
                    view.moments.append(moment)
            case Healed() | Rest():
                for view in found.values():
                    view.moments.append(moment)
                    view.healed_ms = moment.at_ms if isinstance(moment, Healed) else view.healed_ms
            case _:
                if moment.profile not in found:
                    begun = View(moment.profile, limits, has_acknowledgements=acknowledged, has_sent=sent)
                    begun.moments += [run for run in runs if _tenant(run.run) == _tenant(moment.profile)]
                    found[moment.profile] = begun
                _place(found[moment.profile], moment, slots)
    for view in found.values():
        view.ends_ms = history[-1].at_ms
    return list(found.values())


def _tenant(name: str) -> str:
    return name.split("/", 1)[0]


def _place(view: View, moment: AnyMoment, slots: dict[int, View]) -> None:
    view.moments.append(moment)
    if isinstance(moment, Came):
        slots[moment.slot] = view
        view.came[moment.slot], view.requests[moment.slot] = moment, moment.request
    elif isinstance(moment, Tried):
        view.decided_ms.setdefault(moment.nonce, moment.at_ms)


@dataclass(slots=True)
class Runs:
    """Run records over time, by revision."""

    written: dict[int, RunWritten] = field(default_factory=dict[int, RunWritten])
    replaced_ms: dict[int, int] = field(default_factory=dict[int, int])
    current: dict[str, int] = field(default_factory=dict[str, int])

    def learn(self, moment: RunWritten) -> None:
        if moment.run in self.current:
            self.replaced_ms[self.current[moment.run]] = moment.at_ms
        self.current[moment.run] = moment.revision
        self.written[moment.revision] = moment

    def fresh(self, revision: int, at_ms: int) -> bool:
        """Whether it was current at most 5 s before."""
        return self.replaced_ms.get(revision, at_ms) >= at_ms - 5000
