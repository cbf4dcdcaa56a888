"""A step in a program: declared, done once, verified, or settled by looking. Never repeats anything by itself."""

import hashlib
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Literal, Protocol, Self, TypeVar

import msgspec

from lessor import points
from lessor.errors import Code, error_of, problem
from lessor.ids import fresh_id
from lessor.messages.action import AnyAction, Commit, Observation, PageView
from lessor.messages.ids import request_key
from lessor.messages.reply import Acted, OutcomeTold, Reconciled, Reply, StepState, StepTold
from lessor.messages.request import Checkpoint, DeclareStep, Request
from lessor.messages.step import Desired, StepRecord
from lessor.ports import Pacer
from lessor.reconcilers import Asking, Found, Reader, Reconciler

R = TypeVar("R", bound=Reply)
"""The kind of reply a call expects."""
WAIT_S = (0.5, 30.0)
"""Between two looks, doubling, unless the owner says how long."""
VERIFY_S = (0.2, 2.0)
"""Between two looks at a page for what a step expects, doubling."""

Lookup = Callable[[str], Awaitable[str | None]]
"""Looks a request key up in the outside world: evidence when the effect is there, None when it is not."""


class Office(Protocol):
    """The client, as far as steps need it."""

    worker: str
    clock: Pacer
    reconcilers: dict[str, Reconciler]

    async def outcome(self, profile: str, *, key: str | None = None) -> OutcomeTold | None: ...
    async def patiently(self, profile: str, verb: str, request: Request[R], kind: type[R], timeout_s: float) -> R: ...
    async def reconcile(
        self,
        profile: str,
        key: str,
        verdict: Literal["succeeded", "not_sent", "still_unknown"],
        *,
        evidence: str,
        by: str,
        looked_up_ms: int | None = None,
        how: str = "",
        run: str | None = None,
    ) -> Reconciled: ...


class Page(Protocol):
    """The lease, as far as steps need it."""

    profile: str

    @property
    def client(self) -> Office: ...
    async def navigate(self, url: str) -> PageView: ...
    async def observe(self) -> Observation: ...
    async def act(self, action: AnyAction, *, step: Commit | None = None, timeout_s: float = 30.0) -> Acted: ...


@dataclass(frozen=True, slots=True)
class Declared:
    """Which step, whose, and what it is to bring about."""

    run: str
    claim: int
    task: str
    step: str
    desired: Desired

    @staticmethod
    def keys(task: str, depends: "Sequence[str | Step]") -> tuple[str, ...]:
        """Request keys of the steps that a step depends on, named within its task or given."""
        return tuple(one.request_key if isinstance(one, Step) else request_key(task, one) for one in depends)


def payload_digest(payload: object) -> str:
    """sha256, in hex, of a payload as JSON with sorted keys; "" for None."""
    if payload is None:
        return ""
    return hashlib.sha256(msgspec.json.encode(payload, order="deterministic")).hexdigest()


class Step:
    """An idempotent unit of work whose commit carries the request key (contract, Steps).

    `async with` declares it, and settles what an earlier try left open if its kind has a reconciler. In the
    block `done` says whether there is anything to do; leaving it normally looks for the declared evidence.
    """

    def __init__(self, lease: Page, declared: Declared) -> None:
        self.lease, self._declared = lease, declared
        self.task, self.step = declared.task, declared.step
        self.request_key = request_key(declared.task, declared.step)
        self.record = StepRecord(
            request_key=self.request_key, task=self.task, step=self.step, run=declared.run, desired=declared.desired
        )
        """Desired and observed state, as last heard of."""

    def __repr__(self) -> str:
        return f"<Step {self.task}:{self.step} {self.record.state or 'not begun'}>"

    @property
    def desired(self) -> Desired:
        return self.record.desired

    @property
    def done(self) -> bool:
        """Nothing is left to do: SUCCEEDED, or committed with no evidence to look for."""
        state = self.record.state
        return state is StepState.SUCCEEDED or (state is StepState.DISPATCHED and not self.desired.evidence)

    async def __aenter__(self) -> Self:
        said = self._declared
        request = DeclareStep(
            id=fresh_id(), run=said.run, claim=said.claim, task=said.task, step=said.step, desired=said.desired
        )
        told = await self.lease.client.patiently(self.lease.profile, "declare", request, StepTold, 10.0)
        self.record = told.step
        if self.record.open:
            await self.settle()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None and self.record.state is StepState.DISPATCHED and self.desired.evidence:
            await self.verify()

    async def state(self) -> StepState | None:
        """What is on record; None when the commit was never tried."""
        told = await self.lease.client.outcome(self.lease.profile, key=self.request_key)
        self._know(told.step if told is not None else None)
        return self.record.state

    def _know(self, state: StepState | None) -> None:
        self.record = msgspec.structs.replace(self.record, state=state)

    async def checkpoint(self, name: str, fact: str = "") -> None:
        """Put a fact on record that others can verify, such as `form_filled`; at most 64, never a secret."""
        said = self._declared
        request = Checkpoint(
            id=fresh_id(), run=said.run, claim=said.claim, request_key=self.request_key, name=name, fact=fact
        )
        told = await self.lease.client.patiently(self.lease.profile, "checkpoint", request, StepTold, 10.0)
        self.record = told.step

    async def act(self, action: AnyAction, *, timeout_s: float = 30.0) -> Acted:
        """An act of the step that is not its commit."""
        return await self.lease.act(action, step=Commit(task=self.task, step=self.step), timeout_s=timeout_s)

    async def commit(self, action: AnyAction, *, timeout_s: float = 30.0) -> Acted:
        """The act that may have the business effect. Tried again, it gets the recorded answer, not a second click."""
        key = self.request_key if self.desired.effects else None
        commit = Commit(task=self.task, step=self.step, request_key=key)
        acted = await self.lease.act(action, step=commit, timeout_s=timeout_s)
        if key is not None:
            self._know(acted.step or StepState.DISPATCHED)
        return acted

    async def verify(self, timeout_s: float = 10.0) -> StepState | None:
        """Look at the page until it shows what the step expects, then ask the reconciler of its kind."""
        clock, wait_s = self.lease.client.clock, VERIFY_S[0]
        until_ms = clock.now_ms() + round(timeout_s * 1000)
        while self.desired.expect is not None:
            await self.lease.observe()  # The owner judges every page of the lease by itself.
            if await self.state() is not StepState.DISPATCHED:
                return self.record.state
            if clock.now_ms() + wait_s * 1000 > until_ms:
                break
            await clock.wait(wait_s)
            wait_s = min(VERIFY_S[1], wait_s * 2)
        return await self.settle(timeout_s=timeout_s)

    async def settle(self, *, timeout_s: float = 120.0) -> StepState | None:
        """Find out what became of it, by the reconciler of its kind; without one, it stays as it is."""
        reconciler = self.lease.client.reconcilers.get(self.desired.kind)
        if reconciler is not None:
            lease = self.lease
            self._know(
                await settle(lease.client, lease.profile, self.record, reconciler, page=lease, timeout_s=timeout_s)
            )
        return self.record.state

    async def reconcile(self, lookup: Lookup, *, by: str, timeout_s: float = 120.0) -> StepState:
        """Look until a verdict counts, or the time is over. Never repeats anything itself."""
        lease = self.lease
        state = await reconcile(lease.client, lease.profile, self.request_key, lookup, by=by, timeout_s=timeout_s)
        self._know(state)
        return state


async def settle(
    client: Office,
    profile: str,
    step: StepRecord,
    reconciler: Reconciler,
    *,
    page: Reader | None = None,
    by: str | None = None,
    timeout_s: float = 120.0,
) -> StepState:
    """Look by one reconciler until a verdict counts, its tries are used up, or the time is over (contract, Steps)."""
    clock = client.clock
    until_ms = clock.now_ms() + round(timeout_s * 1000)
    least_s = WAIT_S[0]
    tries = 0
    while True:
        told = await client.outcome(profile, key=step.request_key)
        if told is None:
            raise error_of(problem(Code.NO_RECORD, "There is no commit with this key on record: look outside."))
        assert told.step is not None
        if told.step not in (StepState.UNKNOWN, StepState.DISPATCHED):
            return told.step
        # The look-up is sent after this answer was: its time on the owner's clock is at least that.
        looked_up_ms = told.clock_ms
        points.reach("look.before")
        found = await reconciler.look(step, page)
        points.reach("look.after")
        tries += 1
        answer = await client.reconcile(
            profile,
            step.request_key,
            found.verdict,
            evidence=found.evidence,
            by=by or client.worker,
            looked_up_ms=looked_up_ms,
            how=reconciler.how,
            run=step.run or None,
        )
        if answer.counted or answer.step not in (StepState.UNKNOWN, StepState.DISPATCHED):
            return answer.step
        wait_s = max(0.1, answer.retry_after_s if answer.retry_after_s is not None else least_s)
        if tries >= reconciler.tries_max or clock.now_ms() + wait_s * 1000 > until_ms:
            return answer.step
        await clock.wait(wait_s)
        least_s = min(WAIT_S[1], least_s * 2)


async def reconcile(
    client: Office, profile: str, key: str, lookup: Lookup, *, by: str, timeout_s: float = 120.0
) -> StepState:
    """Settle a step whose outcome is not a fact: look up by its key, put the verdict on record (contract, Steps)."""

    async def look(step: StepRecord) -> Found:
        evidence = await lookup(step.request_key)
        if evidence is None:
            return Found("not_sent", "the look-up by request key found nothing")
        return Found("succeeded", evidence)

    step = StepRecord(request_key=key, task="?", step="?")
    asking = Asking(look, tries_max=1_000_000)
    return await settle(client, profile, step, asking, by=by, timeout_s=timeout_s)
