"""Files of a lease: on record when they lie in the store, readable by the profile's principal, dropped in time."""

from lessor.errors import Code, problem
from lessor.journal import Ledger
from lessor.lease.admit import known
from lessor.lease.answers import refuse, say
from lessor.lease.verdict import Asked, Desk, DropFiles, FileStored, Now, ReadFile, Verdict
from lessor.messages.record import ArtifactKept, ArtifactsDropped
from lessor.messages.reply import ArtifactTold
from lessor.messages.request import ReadArtifact

KEPT_MS = 24 * 3600 * 1000
"""How long after the run's deadline."""


def stored(ledger: Ledger, desk: Desk, event: FileStored, now: Now) -> Verdict:
    """It lies in the store: put it on record, unless nobody knows its lease any more."""
    held = next((lease for lease in ledger.leases.values() if lease.instance == event.instance), None)
    if held is None:
        return Verdict(desk, effects=(DropFiles((event.object,)),))
    kept = ArtifactKept(
        lease=held.id,
        artifact=event.artifact,
        object=event.object,
        object_sha256=event.object_sha256,
        key_id=event.key_id,
        kept_until_unix_ms=held.deadline_unix_ms + KEPT_MS,
    )
    over = [one for one in ledger.artifacts.values() if one.kept_until_unix_ms <= now.unix_ms]
    if not over:
        return Verdict(desk, records=(kept,))
    dropped = ArtifactsDropped(artifacts=tuple(one.artifact.id for one in over))
    return Verdict(desk, records=(kept, dropped), effects=(DropFiles(tuple(one.object for one in over)),))


def read(ledger: Ledger, desk: Desk, asked: Asked, now: Now) -> Verdict:
    """A list, or a piece of one file."""
    request = asked.request
    assert isinstance(request, ReadArtifact)
    strange = known(ledger, desk, asked.caller)
    if strange is not None:
        return refuse(ledger, desk, asked, strange, now)
    there = {name: one for name, one in ledger.artifacts.items() if now.unix_ms < one.kept_until_unix_ms}
    if request.artifact is None:
        return say(desk, asked, ArtifactTold(artifacts=tuple(one.artifact for one in there.values())))
    kept = there.get(request.artifact)
    held = None if kept is None else ledger.leases.get(kept.lease)
    if kept is None or held is None:
        gone = problem(Code.NOT_FOUND, "There is no such artifact, or its time is over: list what is kept.")
        return refuse(ledger, desk, asked, gone, now)
    return Verdict(desk, effects=(ReadFile(asked, kept, held.instance),))
