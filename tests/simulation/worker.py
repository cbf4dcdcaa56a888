"""Worker processes with scripted users: they acquire, read, act, commit steps, look up, close, and go away.

What a run has to do lies in a `Job`, which belongs to nobody: whichever worker takes the run goes on
from what the journal says of its steps.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, cast

import pykka

from lessor.actors.bridge import Slot
from lessor.actors.process import ChildFailed, Stop
from lessor.actors.run import Do, End, Go, Report, See, Take, Want
from lessor.actors.talk import Talk, as_problem
from lessor.actors.worker import Begin, Forget
from lessor.broker.subjects import Addresses
from lessor.errors import Class, Code, Problem
from lessor.messages.action import Commit, Type
from lessor.messages.ids import Caller, request_key
from lessor.messages.reply import (
    Acted,
    AnyReply,
    Granted,
    LeaseView,
    Navigated,
    Observed,
    OutcomeTold,
    Reconciled,
    RunTold,
    StepState,
)
from lessor.messages.request import (
    AskOutcome,
    AskStatus,
    Cancel,
    CancelRun,
    CreateProfile,
    Reconcile,
    Renew,
    Request,
    RevokeProfile,
)
from lessor.messages.run import RunStatus
from lessor.trust import Heard
from tests.model.stream import Line
from tests.simulation.clockwork import UNIX_MS, Loop, MachineClock, Process
from tests.simulation.network import WorkerLine
from tests.simulation.stepped import SimulatedIo, SteppedRun, SteppedWorker

if TYPE_CHECKING:
    from tests.simulation.world import World

ME = Caller("acme", "alice")
STRANGER = Caller("acme", "mallory")
Answered = AnyReply | Problem | None


@dataclass
class Job:
    """What a run has to do, and what is known to be done."""

    run: str
    profile: str
    steps: int
    attempt: int = 1
    done: set[int] = field(default_factory=set[int])
    finished: bool = False
    worker: Process | None = None
    """The process that works on it, if any."""

    @property
    def left(self) -> list[int]:
        return [step for step in range(self.steps) if step not in self.done]


class Fenced(Exception):
    """Another worker has the run: this one stops."""


class SimulatedWorker:
    """One worker name; its processes come and go."""

    def __init__(self, world: "World", name: str) -> None:
        self.world, self.name = world, name
        self.line = Line(world.store)
        self.process: Process | None = None
        self.starts = 0

    @property
    def is_up(self) -> bool:
        return self.process is not None and self.process.alive

    def start(self) -> None:
        world, self.starts = self.world, self.starts + 1
        draw = world.scheduler.random
        boot = f"{self.name}-{self.starts}"
        clock = MachineClock(world.scheduler, boot, draw.uniform(0.98, 1.02), draw.randrange(10_000_000), 0)
        self.process = process = Process(world.scheduler, self.name, clock)
        self.loop = Loop(process, world.broken)
        self.talk = self.talk_as(ME)
        io = SimulatedIo(self.loop, world)
        self._supervisor = SteppedWorker.start(io, self.talk, self.name, world.limits, self._failed, SteppedRun)

    def talk_as(self, caller: Caller) -> Talk:
        assert self.process is not None
        return Talk(
            line=WorkerLine(self.world.network, self.process, self.line),
            to=Addresses(caller),
            clock=self.process.clock,
            caller=caller,
            fresh=self.world.fresh,
        )

    def _failed(self, failed: ChildFailed) -> None:
        """A run's actor broke. When it was the supervisor, the whole process is started again."""
        if failed.name.startswith("worker ") and self.process is not None:
            self.world.scheduler.at(0, self._killed)

    def _killed(self) -> None:
        self.kill()
        self.world.scheduler.at(0.5, self._again)

    def _again(self) -> None:
        if not self.is_up:
            self.start()

    def kill(self) -> None:
        if self.process is not None and self.process.alive:
            self.process.kill()

    def work_on(self, job: Job) -> None:
        """Take the run and go on with it."""
        job.worker = self.process
        self.loop.call_soon_threadsafe(lambda: self.loop.create_task(self._work(job)))

    async def _work(self, job: Job) -> None:
        process, script = self.process, Script(self, job)
        try:
            await script.go()
        except Fenced:
            pass
        finally:
            if job.worker is process:
                job.worker = None

    # -- what an operator does from here

    def revoke(self, profile: str) -> None:
        request = RevokeProfile(id=self.world.fresh())
        self._order(self.talk.to.profile(profile, "revoke"), request)

    def cancel_run(self, run: str) -> None:
        self._order(self.talk.to.run(run, "cancel"), CancelRun(id=self.world.fresh()))

    def _order(self, subject: str, request: Request[Any]) -> None:
        def ask() -> None:
            self.loop.create_task(self.talk.line.ask(subject, request, 5))

        self.loop.call_soon_threadsafe(ask)

    # -- for scripts

    def bid(self, message: object) -> None:
        """Tell the supervisor, if it lives."""
        if self._supervisor.is_alive():
            self._supervisor.tell(message)


class Script:
    """One worker's work on one job."""

    def __init__(self, worker: SimulatedWorker, job: Job) -> None:
        self.worker, self.world, self.job = worker, worker.world, job
        self._draw = worker.world.scheduler.random
        self._loop, self._talk = worker.loop, worker.talk
        self._ref: pykka.ActorRef[Any] | None = None
        self._view: LeaseView | None = None
        self._revision = "r0"
        self._claim = 0

    async def go(self) -> None:
        slot = Slot(self._loop)
        self.worker.bid(Begin(self.job.run, self.job.attempt, slot.set))
        started = await slot.get(5)
        if started is None:
            return
        self._ref = ref = cast("pykka.ActorRef[Any]", started)
        try:
            await self._take()
            while self.job.left and not self.job.finished:
                if self._view is None and not await self._acquire():
                    await self._pause(0.5, 3)
                    continue
                await self._something()
                await self._pause(0.05, self.world.think_s)
            await self._finish()
        finally:
            self.worker.bid(Forget(ref))

    async def _pause(self, least_s: float, most_s: float) -> None:
        await asyncio.sleep(self._draw.uniform(least_s, most_s))

    async def _tell(self, make: Callable[[Callable[[object], None]], object], timeout_s: float) -> Answered:
        slot = Slot(self._loop)
        assert self._ref is not None
        try:
            self._ref.tell(make(slot.set))
        except pykka.ActorDeadError:
            raise Fenced from None
        answer = await slot.get(timeout_s)
        if isinstance(answer, Problem):
            self._mind(answer)
        elif answer is not None:
            assert isinstance(answer, AnyReply)
            if answer.lease is not None:
                self._view = answer.lease
            return answer
        return answer if isinstance(answer, Problem) else None

    def _mind(self, told: Problem) -> None:
        if told.code in (Code.RUN_FENCED, Code.LEASE_FENCED):
            raise Fenced
        if told.code in (Code.RUN_ENDED, Code.PROFILE_REVOKED):
            self.job.finished = True
        if told.code.class_.drops_lease or told.code in (Code.BROWSER_GONE, Code.BROKER_UNAVAILABLE, Code.MOVED):
            self._view = None

    async def _take(self) -> None:
        deadline = datetime.fromtimestamp(UNIX_MS / 1000 + self.world.deadline_s, UTC)
        while True:
            told = await self._tell(lambda answer: Take(deadline, answer), 12)
            if isinstance(told, RunTold):
                self._claim = told.record.claim
                return
            if self.job.finished:
                raise Fenced
            await self._pause(0.2, 1)

    async def _acquire(self) -> bool:
        horizon_s = self._draw.choice([10, 30, 60, 400])
        patience_s = self._draw.choice([1, 5, 20])
        told = await self._tell(lambda answer: Want(self.job.profile, horizon_s, patience_s, answer), patience_s + 60)
        if isinstance(told, Problem) and told.code is Code.NOT_FOUND:
            await self._create()
        return isinstance(told, Granted)

    async def _create(self) -> None:
        settle_s = self.world.size.settle_s
        request = CreateProfile(id=self.world.fresh(), origins=("https://shop.test",), settle_s=settle_s)
        await self._ask("create", request, 5)

    async def _something(self) -> None:
        """One thing a program may do next."""
        draw = self._draw.random()
        if draw < 0.16:
            await self._read(lambda answer: Go(self.job.profile, "https://shop.test/", "main", 8, answer))
        elif draw < 0.30:
            await self._read(lambda answer: See(self.job.profile, "main", 5, answer))
        elif draw < 0.46:
            await self._act(None)
        elif draw < 0.82:
            await self._commit(self.job.left[0])
        elif draw < 0.86:
            await self._ask_next()
        elif draw < 0.89:
            await self._renew()
        elif draw < 0.92:
            await self._stranger()
        elif draw < 0.93:
            await self._act_and_cancel()
        elif draw < 0.96:
            self._view = None
            await self._tell(lambda answer: End(self.job.profile, self._draw.random() < 0.3, 20, answer), 25)
        else:
            await self._wait_for_somebody()

    async def _read(self, make: Callable[[Callable[[object], None]], object]) -> None:
        told = await self._tell(make, 20)
        if isinstance(told, Navigated | Observed):
            self._revision = told.page.revision

    async def _act(self, step: Commit | None) -> Answered:
        timeout_s = self._draw.choice([1, 5, 15])
        text = self.world.text()
        do = Type(ref="e1", text=text)
        told = await self._tell(
            lambda answer: Do(self.job.profile, do, self._revision, "main", "target", step, timeout_s, answer),
            timeout_s + 20,
        )
        if told is not None:
            if isinstance(told, Acted) and told.page is not None:
                self._revision = told.page.revision
            by_key = isinstance(told, Acted) and told.recorded
            if not by_key:
                code = str(told.code) if isinstance(told, Problem) else None
                self.world.recorder.concluded(text, self._whose(), told.effect, code)
        if isinstance(told, Problem) and told.code.class_ is Class.OUTCOME_UNKNOWN:
            self._view = None
        return told

    def _whose(self) -> str:
        return f"{ME.tenant}/{self.job.profile}"

    async def _commit(self, number: int) -> None:
        """Run a step if the journal allows it, settle it if it cannot tell."""
        step = f"step-{number}"
        key = request_key(self.job.run, step)
        told = await self._of_key(key)
        match told:
            case OutcomeTold(step=StepState.SUCCEEDED | StepState.DISPATCHED):
                self.job.done.add(number)
            case OutcomeTold(step=StepState.UNKNOWN) if self._draw.random() < 0.9:
                await self._reconcile(number, key)
            case OutcomeTold(step=StepState.NOT_SENT | StepState.FAILED | StepState.UNKNOWN) | None:
                # Some programs try an unknown step again: that must be refused.
                acted = await self._act(Commit(task=self.job.run, step=step, request_key=key))
                if isinstance(acted, Acted):
                    self.job.done.add(number)
                elif isinstance(acted, Problem) and acted.code is Code.OUTCOME_UNKNOWN:
                    await self._reconcile(number, key)
            case _:
                await self._pause(0.2, 1)

    async def _of_key(self, key: str) -> OutcomeTold | Problem | None:
        """None: no record, so it was never committed."""
        request = AskOutcome(id=self.world.fresh(), budget_s=5, request_key=key)
        heard = await self._ask("outcome", request, 5.5)
        if isinstance(heard, OutcomeTold):
            return heard
        told = as_problem(heard)
        return None if told.code is Code.NO_RECORD else told

    async def _ask(self, verb: str, request: Any, timeout_s: float) -> Heard:
        return await self._talk.line.ask(self._talk.to.profile(self.job.profile, verb), request, timeout_s)

    async def _reconcile(self, number: int, key: str) -> None:
        """As `client.reconcile` does: the look-up is sent after an answer of the owner's clock."""
        for _ in range(self._draw.randrange(1, 8)):
            told = await self._of_key(key)
            if not isinstance(told, OutcomeTold) or told.step not in (StepState.UNKNOWN, StepState.DISPATCHED):
                return
            looked_up_ms = told.clock_ms
            await self._pause(0.01, 0.2)
            found = key in self.world.keys_hit
            request = Reconcile(
                id=self.world.fresh(),
                request_key=key,
                verdict="succeeded" if found else "not_sent",
                evidence="looked it up",
                by=self.worker.name,
                looked_up_ms=looked_up_ms,
            )
            answer = await self._ask("reconcile", request, 10)
            if isinstance(answer, Reconciled) and answer.counted:
                return
            if told.page_gone_ms is None and not told.lease_live and not self.world.nemesis.active:
                # Nobody can ever confirm it from here: that step is a person's, and its run goes on without.
                self.job.done.add(number)
                return
            await self._pause(0.2, 4)

    async def _ask_next(self) -> None:
        """A program that does not remember whether it acted asks: the number is settled."""
        if self._view is None:
            return
        view = self._view
        request = AskOutcome(
            id=self.world.fresh(), budget_s=5, lease=view.lease, claim=view.claim, sequence=view.next_sequence
        )
        if self._draw.random() < 0.5:
            # Asked while an act of the same run is on its way.
            asking = asyncio.ensure_future(self._ask("outcome", request, 5.5))
            await self._act(None)
            await asyncio.wait({asking})
        else:
            await self._ask("outcome", request, 5.5)
            # The actor learns of the number that was used up with its next reattach.
            await self._acquire()

    async def _act_and_cancel(self) -> None:
        """Stop waiting for an act under way: it settles all the same."""
        acting = asyncio.ensure_future(self._act(None))
        await self._pause(0.003, 0.06)
        act = self.world.recorder.latest
        if act is not None and self._view is not None:
            view = self._view
            request = Cancel(id=self.world.fresh(), lease=view.lease, claim=view.claim, request=act.id)
            await self._talk.line.ask(f"{view.route}.cancel", request, 5)
        await asyncio.wait({acting})
        acting.result()

    async def _renew(self) -> None:
        if self._view is not None:
            view = self._view
            request = Renew(id=self.world.fresh(), lease=view.lease, claim=view.claim, horizon_s=100)
            await self._talk.line.ask(f"{view.route}.renew", request, 5)

    async def _stranger(self) -> None:
        talk = self.worker.talk_as(STRANGER)
        request = AskStatus(id=self.world.fresh())
        await talk.line.ask(talk.to.profile(self.job.profile, "status"), request, 5)

    async def _wait_for_somebody(self) -> None:
        """The run parks, queues, or waits for a person; then it goes on, here or elsewhere."""
        status = self._draw.choice([RunStatus.WAITING_USER, RunStatus.QUEUED, RunStatus.PARKED])
        if not status.needs_page:
            self._view = None
        await self._tell(lambda answer: Report(status, answer), 60)
        await self._pause(0.5, 15)
        if self._draw.random() < 0.3:
            raise Fenced
        await self._take()
        self._view = None

    async def _finish(self) -> None:
        while not self.job.finished:
            told = await self._tell(lambda answer: Report(RunStatus.FINISHED, answer), 60)
            if isinstance(told, RunTold):
                self.job.finished = True
            else:
                await self._pause(0.3, 2)


def stop(worker: SimulatedWorker) -> None:
    worker.bid(Stop())
