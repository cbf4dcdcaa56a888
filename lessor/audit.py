"""Reading a journal as an auditor: what each record says, and whether any is missing or altered. Pure.

Every entry names the sha256 of the one before it as it is stored, so that a changed, removed, inserted or
reordered entry breaks the chain behind it. The last entries can only be missed by who has noted a
later hash: `Verified.head` is there to be kept elsewhere.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import msgspec

from lessor.messages import wire
from lessor.messages.hashing import digest
from lessor.messages.record import AnyRecord, Entry, Intent, LeaseGranted, StepDeclared

Stored = tuple[int, bytes]
"""A journal message: its place in the stream, and its bytes."""
SHOWN_MAX = 200
"""Characters of one field on a person's line."""


class Broken(msgspec.Struct, frozen=True, kw_only=True):
    """Where a chain does not hold."""

    sequence: int
    why: str


class Verified(msgspec.Struct, frozen=True, kw_only=True):
    """What a check of one profile's journal found."""

    entries: int
    chained: int
    """Entries that name their predecessor; those from before chaining do not."""
    head: str
    """sha256 of the last entry: noted elsewhere, it shows later that nothing was cut off behind it."""
    head_found: bool | None = None
    """Whether the head that was asked about is among the entries."""
    broken: tuple[Broken, ...] = ()


def verify(stored: Iterable[Stored], head: str | None = None) -> Verified:
    """Replay the hashes. An entry that cannot be read breaks the chain, too."""
    entries = chained = last = 0
    before, begun = "", False
    seen = set[str]()
    broken: list[Broken] = []
    for sequence, data in stored:
        entries += 1
        if sequence <= last:
            broken.append(Broken(sequence=sequence, why=f"comes after {last}"))
        last = sequence
        try:
            prev = wire.decode(data, Entry).prev
        except msgspec.DecodeError:
            broken.append(Broken(sequence=sequence, why="cannot be read"))
            prev = before if begun else None
        if prev is not None:
            chained += 1
            if prev != before:
                broken.append(
                    Broken(sequence=sequence, why="the entry before it is missing, altered or not the one it names")
                )
        elif begun:
            broken.append(Broken(sequence=sequence, why="names no predecessor, though earlier ones do"))
        begun = begun or prev is not None
        before = digest(data)
        seen.add(before)
    return Verified(
        entries=entries,
        chained=chained,
        head=before,
        head_found=None if head is None else head in seen,
        broken=tuple(broken),
    )


@dataclass(frozen=True, slots=True)
class Line:
    """One record with its place and time."""

    profile: str
    sequence: int
    entry: Entry
    record: AnyRecord

    @property
    def kind(self) -> str:
        return str(self.record.__struct_config__.tag)

    @property
    def at(self) -> str:
        """Wall-clock time, where the entry has one."""
        if self.entry.unix_ms is None:
            return f"boot+{self.entry.at_ms / 1000:.3f}s"
        moment = datetime.fromtimestamp(self.entry.unix_ms / 1000, UTC)
        return moment.strftime("%Y-%m-%d %H:%M:%S.") + f"{self.entry.unix_ms % 1000:03d}Z"

    def says(self) -> str:
        """Its fields, in words."""
        return " ".join(f"{name}={_short(value)}" for name, value in fields(self.record))


def fields(record: AnyRecord) -> list[tuple[str, object]]:
    """What a record holds, without what it does not say; inner structures by their own names."""
    told: dict[str, object] = msgspec.to_builtins(record)
    flat: list[tuple[str, object]] = []
    for name, value in told.items():
        if name == "kind":
            continue
        if isinstance(value, dict):
            inner: dict[str, object] = msgspec.convert(value, dict[str, object])
            flat.extend((f"{name}.{key}", one) for key, one in inner.items() if one not in (None, "", [], ()))
        elif value not in (None, "", [], ()):
            flat.append((name, value))
    return flat


def _short(value: object) -> str:
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    cut = text if len(text) <= SHOWN_MAX else text[: SHOWN_MAX - 1] + "…"
    return repr(cut) if " " in cut else cut


def lines(profile: str, entries: Sequence[tuple[int, Entry]], run: str | None = None) -> list[Line]:
    """A profile's records in order; with `run`, only those that concern that run."""
    found: list[Line] = []
    concerns = Concerns(run)
    for sequence, entry in entries:
        found.extend(Line(profile, sequence, entry, record) for record in entry.records if concerns(record))
    return found


class Concerns:
    """Whether a record concerns a run: by its name, its leases, or its steps. Records are shown in journal order."""

    def __init__(self, run: str | None) -> None:
        self._run = run
        self._leases, self._keys = set[str](), set[str]()

    def __call__(self, record: AnyRecord) -> bool:
        if self._run is None:
            return True
        match record:
            case LeaseGranted(scope=scope, lease=lease) if scope.run == self._run:
                self._leases.add(lease)
            case Intent(run=self._run, request_key=str() as key) | StepDeclared(run=self._run, request_key=key):
                self._keys.add(key)
            case _:
                pass
        named = (getattr(record, "run", None), getattr(record, "lease", None), getattr(record, "request_key", None))
        return named[0] == self._run or named[1] in self._leases or named[2] in self._keys
