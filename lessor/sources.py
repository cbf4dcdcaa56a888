"""An application's own word on its runs, in front of lessor's records (contract 16).

An application that keeps its own run table plugs it in as a `RunSource`. lessor still keeps claim, holder, attempt,
deadline and approvals of acts in its own record; what a run *does* is then what the source says.

How a source is read, each time a close or a grant rests on it: status, then, if that is `parked`, the approvals, then
the status again. Two statuses that differ say nothing; after three such readings the page is kept. A source that
cannot be read closes nothing and grants nothing: the lease's expiry decides. A run that lessor has a record of and the
source does not know has ended.
"""

from typing import Final, Protocol

import msgspec

from lessor.errors import Code, Problem, problem
from lessor.messages.ids import RunKey
from lessor.messages.run import Approval, ApprovalState, RunReading, RunRecord, RunStatus
from lessor.ports import Clock, Runs

READINGS_MAX: Final = 3


class RunSource(Protocol):
    """What an application tells of its runs. Both answer within a few seconds; a Problem when they cannot."""

    async def status(self, key: RunKey) -> RunStatus | Problem | None:
        """What the run does now; None: there is no such run."""
        ...

    async def waits_for_own(self, key: RunKey) -> bool | Problem:
        """Whether an approval of the run's own (not of a child) waits for its answer now."""
        ...


class SourcedRuns:
    """`ports.Runs`: lessor's records with the source's status in them."""

    def __init__(self, inner: Runs, source: RunSource, clock: Clock) -> None:
        self._inner, self._source, self._clock = inner, source, clock

    def __repr__(self) -> str:
        return f"SourcedRuns({self._source!r})"

    async def read(self, key: RunKey) -> RunReading | Problem:
        """`read_ms` is taken before the first question, so it never flatters."""
        read_ms = self._clock.now_ms()
        reading = await self._inner.read(key)
        if isinstance(reading, Problem) or reading.record is None:
            return reading
        told = await self._told(key)
        if isinstance(told, Problem):
            return told
        record = None if told is None else _as_told(reading.record, *told)
        return msgspec.structs.replace(reading, record=record, read_ms=read_ms)

    async def _told(self, key: RunKey) -> tuple[RunStatus, bool] | Problem | None:
        for _ in range(READINGS_MAX):
            before = await self._source.status(key)
            if isinstance(before, Problem):
                return before
            waits = await self._source.waits_for_own(key) if before is RunStatus.PARKED else False
            if isinstance(waits, Problem):
                return waits
            after = await self._source.status(key)
            if isinstance(after, Problem):
                return after
            if before is after:
                return None if after is None else (after, waits)
        changing = f"Run {key} changed each time it was read: nothing rests on that, ask again."
        return problem(Code.BROKER_UNAVAILABLE, changing, retry_after_s=0.5)

    async def write(self, key: RunKey, record: RunRecord, revision: int) -> int | Problem | None:
        return await self._inner.write(key, record, revision)

    async def of_tenant(self, tenant: str) -> tuple[RunReading, ...]:
        """As lessor's own records have them: for people."""
        return await self._inner.of_tenant(tenant)


def _as_told(record: RunRecord, status: RunStatus, waits: bool) -> RunRecord:
    """The record with the source's status. `parked` needs the page when it waits for an approval, its or ours."""
    record = msgspec.structs.replace(record, status=status)
    if status is not RunStatus.PARKED or not waits or record.needs_page:
        return record
    theirs = Approval(
        id="source", question="An approval in the application.", asked_unix_ms=0, until_unix_ms=record.deadline_unix_ms
    )
    assert theirs.state is ApprovalState.PENDING
    return msgspec.structs.replace(record, approvals=(*record.approvals, theirs))
