"""Run verbs over the run record's compare-and-set: read, decide, write, a few times over."""

from lessor.actors.words import Ports
from lessor.errors import Code, Problem, problem
from lessor.messages.reply import Refused, RunTold
from lessor.messages.run import RunReading, RunRecord
from lessor.ports import RunCall
from lessor.runs import decide_run

TRIES_MAX = 5


async def serve(ports: Ports, call: RunCall) -> tuple[Refused | RunTold, RunReading | None]:
    """The answer, and, when the record was written, what it says now."""
    for _ in range(TRIES_MAX):
        reading = await ports.runs.read(call.key)
        if isinstance(reading, Problem):
            return Refused(error=reading), None
        before = reading.record
        unix_ms = ports.clock.unix_ms()
        after = decide_run(call.key.run, call.caller.principal, before, call.request, unix_ms)
        if isinstance(after, Problem):
            return Refused(error=after), None
        if after == before:
            return _told(call, after, reading.revision), None
        revision = await ports.runs.write(call.key, after, reading.revision)
        if isinstance(revision, Problem):
            return Refused(error=revision, effect=revision.effect), None
        if revision is not None:
            seen = RunReading(run=call.key.run, revision=revision, record=after, read_ms=ports.clock.now_ms())
            return _told(call, after, revision), seen
    contended = problem(Code.OVERLOADED, "Many write this run at once: ask again.", retry_after_s=0.2)
    return Refused(error=contended), None


def _told(call: RunCall, record: RunRecord, revision: int) -> RunTold:
    return RunTold(run=call.key.run, revision=revision, record=record)
