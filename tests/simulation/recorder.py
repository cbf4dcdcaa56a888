"""The history of one simulated world, and how often each fault and each step was hit."""

from collections import Counter

from lessor.broker.jetstream import Stored
from lessor.check.history import AnyMoment, Concluded, History, Owned, RunWritten, Wrote
from lessor.errors import Effect
from lessor.messages import wire
from lessor.messages.record import Entry, Own
from lessor.messages.request import Act
from lessor.messages.run import RunRecord
from tests.simulation.clockwork import Scheduler


class Recorder:
    """Everything that the checker is shown."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self.history: History = []
        self.faults: Counter[str] = Counter()
        self.steps: Counter[str] = Counter()
        self.broken: list[str] = []
        self.acts: dict[str, Act] = {}
        """By the text that an act types: which request it came with."""
        self.latest: Act | None = None
        self._slots = 0

    @property
    def at_ms(self) -> int:
        return self._scheduler.now_ms

    def add(self, moment: AnyMoment) -> None:
        self.history.append(moment)

    def slot(self) -> int:
        self._slots += 1
        return self._slots

    def fault(self, kind: str) -> None:
        self.faults[kind] += 1

    def stored(self, message: Stored) -> None:
        """The broker's own order is the order of the history."""
        kind, *names = message.subject.split(".")[2:]
        match kind, names:
            case "p", [tenant, profile, "own"]:
                own = wire.decode(message.data, Own)
                self.add(Owned(at_ms=self.at_ms, profile=f"{tenant}/{profile}", sequence=message.sequence, own=own))
            case "p", [tenant, profile, _]:
                entry = wire.decode(message.data, Entry)
                self.add(Wrote(at_ms=self.at_ms, profile=f"{tenant}/{profile}", sequence=message.sequence, entry=entry))
            case "run", [tenant, run]:
                record = wire.decode(message.data, RunRecord)
                self.add(RunWritten(at_ms=self.at_ms, run=f"{tenant}/{run}", revision=message.sequence, record=record))
            case _:
                pass

    def concluded(self, text: str, profile: str, effect: Effect, code: str | None) -> None:
        """What a program was told of an act."""
        act = self.acts.get(text)
        lease, sequence = (act.lease, act.sequence) if act is not None else ("", 0)
        self.add(
            Concluded(
                at_ms=self.at_ms, profile=profile, lease=lease, sequence=sequence, effect=effect, code=code, act=text
            )
        )
