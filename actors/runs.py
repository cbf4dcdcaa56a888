"""Run verbs over the run record's compare-and-set: read, decide, write, a few times over."""

from lessor.actors.words import Ports
from lessor.errors import Code, Problem, problem
from lessor.messages.ids import RunKey
from lessor.messages.reply import Refused, RunTold
from lessor.messages.request import ShowRun
from lessor.messages.run import RunReading
from lessor.ports import RunCall
from lessor.runs import Change, decide_run

TRIES_MAX = 5


async def serve(ports: Ports, call: RunCall) -> tuple[Refused | RunTold, RunReading | None]:
    """The answer, and, unless it was only shown, what the record says now."""
    run, principal = call.key.run, call.caller.principal
    told = await write_run(
        ports, call.key, lambda record: decide_run(run, principal, record, call.request, ports.clock.unix_ms())
    )
    if isinstance(told, Problem):
        return Refused(error=told, effect=told.effect), None
    assert told.record is not None
    seen = None if isinstance(call.request, ShowRun) else told
    return RunTold(run=run, revision=told.revision, record=told.record), seen


async def write_run(ports: Ports, key: RunKey, change: Change) -> RunReading | Problem:
    """Change a run's record; the change is decided again on each newer record. What it says then, or why not."""
    for _ in range(TRIES_MAX):
        reading = await ports.runs.read(key)
        if isinstance(reading, Problem):
            return reading
        after = change(reading.record)
        if isinstance(after, Problem):
            return after
        if after == reading.record:
            return reading
        revision = await ports.runs.write(key, after, reading.revision)
        if isinstance(revision, Problem):
            return revision
        if revision is not None:
            return RunReading(run=key.run, revision=revision, record=after, read_ms=ports.clock.now_ms())
    return problem(Code.OVERLOADED, "Many write this run at once: ask again.", retry_after_s=0.2)
