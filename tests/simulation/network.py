"""Questions on their way to hosts, and answers on their way back: late, twice, out of order, or lost."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec

from lessor.broker import subjects
from lessor.broker.subjects import Asked, ToHost, ToList, ToProfile, ToRun
from lessor.check.history import Came, Dropped, Passed, Told
from lessor.errors import Code, Problem, problem
from lessor.messages import wire
from lessor.messages.ids import ProfileKey
from lessor.messages.reply import AnyReply, Refused, Reply
from lessor.messages.request import RUN_VERBS, VERBS, Act, ListProfiles, RenewAll, Request
from lessor.ports import Call, HostCall, RunCall, Silence
from tests.model.stream import Line
from tests.simulation.clockwork import Loop, Process, Scheduler
from tests.simulation.recorder import Recorder

HOPS_MAX = 3
Respond = Callable[[bytes], None]


@dataclass(slots=True)
class Chances:
    """Of a message, each way."""

    lost: float = 0.0
    twice: float = 0.0
    late: float = 0.0
    late_s_max: float = 12.0

    def silence(self) -> None:
        self.lost = self.twice = self.late = 0.0


class Network:
    """Core messaging of the broker: no memory, no order between different messages."""

    def __init__(self, scheduler: Scheduler, recorder: Recorder) -> None:
        self.scheduler, self.recorder = scheduler, recorder
        self.chances = Chances()
        self.doors: list[Gateway] = []

    def send(self, subject: str, body: bytes, respond: Respond) -> bool:
        """False: nobody listens to that subject."""
        asked = subjects.parse(subject)
        assert asked is not None, subject
        door = self._who(asked)
        if door is None:
            return False
        draw, chances = self.scheduler.random, self.chances
        if draw.random() < chances.twice:
            self.recorder.fault("duplicate request")
            self._carry(door, subject, body, respond, draw.uniform(0, 2))
        if draw.random() < chances.lost:
            self.recorder.fault("lost request")
            return True
        if draw.random() < chances.late:
            self.recorder.fault("late request")
            self._carry(door, subject, body, respond, draw.uniform(0.5, chances.late_s_max))
        else:
            self._carry(door, subject, body, respond, draw.uniform(0.0002, 0.004))
        return True

    def _carry(self, door: "Gateway", subject: str, body: bytes, respond: Respond, delay_s: float) -> None:
        self.scheduler.at(delay_s, lambda: door.arrives(subject, body, respond))

    def _who(self, asked: Asked) -> "Gateway | None":
        doors = [door for door in self.doors if door.listens(asked)]
        return self.scheduler.random.choice(doors) if doors else None

    def forward(self, host: str, subject: str, body: bytes, respond: Respond, hops: int) -> None:
        door = next((door for door in self.doors if door.host == host and door.is_reachable), None)
        if door is not None:
            self.scheduler.at(0.001, lambda: door.arrives(subject, body, respond, hops))


class Gateway:
    """A host's doors, as `broker.gateway` has them. One per incarnation."""

    def __init__(self, network: Network, host: str, loop: Loop, line: Line, deliver: Callable[[object], None]) -> None:
        self._network, self.host, self._loop, self._line = network, host, loop, line
        self._deliver = deliver
        self._process: Process = loop.process
        self._routes: dict[tuple[ProfileKey, int], Callable[[Call], None]] = {}
        self._open: set[int] = set()
        self.shared = True
        """Answers what any host may."""
        network.doors.append(self)
        self._process.at_end.append(self.leave)

    def leave(self) -> None:
        """Off the network; what is in hand stays unanswered."""
        if self in self._network.doors:
            self._network.doors.remove(self)
        recorder = self._network.recorder
        recorder.add(Dropped(at_ms=recorder.at_ms, slots=tuple(sorted(self._open))))
        self._open.clear()

    @property
    def is_reachable(self) -> bool:
        return self in self._network.doors and self._process.alive and self._line.is_open

    def listens(self, asked: Asked) -> bool:
        if not self.is_reachable:
            return False
        match asked:
            case ToProfile(key=key, epoch=int() as epoch):
                return (key, epoch) in self._routes
            case ToHost(host=host):
                return host == self.host
            case _:
                return self.shared

    def open(self, key: ProfileKey, principal: str, epoch: int, deliver: Callable[[Call], None]) -> str:
        self._loop.call_soon_threadsafe(self._routes.__setitem__, (key, epoch), deliver)
        return subjects.route(key, principal, epoch)

    def shut(self, key: ProfileKey, epoch: int) -> None:
        self._loop.call_soon_threadsafe(self._routes.pop, (key, epoch), None)

    def arrives(self, subject: str, body: bytes, respond: Respond, hops: int = 0) -> None:
        """A message for this host: it waits while the process is stopped, and is gone when that is dead."""
        if self.is_reachable:
            self._process.at(0, lambda: self._take(subject, body, respond, hops))

    def _take(self, subject: str, body: bytes, respond: Respond, hops: int) -> None:
        asked = subjects.parse(subject)
        now_ms, recorder = self._process.clock.now_ms(), self._network.recorder
        match asked:
            case ToProfile(caller, key, verb, epoch):
                request = wire.decode(body, VERBS[verb])
                if isinstance(request, Act):
                    recorder.latest = request
                    recorder.acts.setdefault(getattr(request.action, "text", ""), request)
                slot = recorder.slot()
                self._open.add(slot)
                recorder.add(
                    Came(
                        at_ms=recorder.at_ms,
                        slot=slot,
                        caller=caller,
                        profile=str(key),
                        verb=verb,
                        body=msgspec.Raw(body),
                        host=self.host,
                    )
                )

                def answer(reply: Reply) -> None:
                    self._loop.call_soon_threadsafe(self._answer, slot, reply, respond)

                def forward(host: str) -> None:
                    self._loop.call_soon_threadsafe(self._forward, slot, host, subject, body, respond, hops)

                call = Call(caller, key, request, now_ms, answer, forward)
                deliver = self._routes.get((key, epoch)) if epoch is not None else None
                if epoch is not None and deliver is None:
                    self._open.discard(slot)
                    recorder.add(Passed(at_ms=recorder.at_ms, slot=slot))
                    return
                (deliver or self._deliver)(call)
            case ToRun(caller, run, verb):
                self._deliver(RunCall(caller, run, wire.decode(body, RUN_VERBS[verb]), now_ms, self._plain(respond)))
            case ToHost(caller):
                self._deliver(HostCall(caller, wire.decode(body, RenewAll), now_ms, self._plain(respond)))
            case ToList(caller):
                self._deliver(HostCall(caller, wire.decode(body, ListProfiles), now_ms, self._plain(respond)))
            case None:
                raise AssertionError(subject)

    def _plain(self, respond: Respond) -> Callable[[Reply], None]:
        def answer(reply: Reply) -> None:
            self._loop.call_soon_threadsafe(self._back, reply, respond)

        return answer

    def _answer(self, slot: int, reply: Reply, respond: Respond) -> None:
        recorder = self._network.recorder
        self._open.discard(slot)
        assert isinstance(reply, AnyReply)
        recorder.add(Told(at_ms=recorder.at_ms, slot=slot, reply=reply))
        self._back(reply, respond)

    def _forward(self, slot: int, host: str, subject: str, body: bytes, respond: Respond, hops: int) -> None:
        if hops >= HOPS_MAX:
            moved = problem(Code.MOVED, "The profile is changing hands: ask again.", retry_after_s=0.5)
            self._answer(slot, Refused(error=moved), respond)
            return
        recorder = self._network.recorder
        self._open.discard(slot)
        recorder.add(Passed(at_ms=recorder.at_ms, slot=slot))
        self._network.forward(host, subject, body, respond, hops + 1)

    def _back(self, reply: Reply, respond: Respond) -> None:
        draw, chances = self._network.scheduler.random, self._network.chances
        if not self._line.is_open or draw.random() < chances.lost:
            self._network.recorder.fault("lost answer")
            return
        body = wire.encode(reply)
        self._network.scheduler.at(draw.uniform(0.0002, 0.004), lambda: respond(body))


class WorkerLine:
    """`ports.Line` of one worker process."""

    def __init__(self, network: Network, process: Process, line: Line) -> None:
        self._network, self._process, self._line = network, process, line

    async def ask(self, subject: str, request: Request[Any], timeout_s: float) -> AnyReply | Problem | Silence:
        loop = asyncio.get_running_loop()
        if not self._line.is_open:
            await asyncio.sleep(0.001)
            return Silence.DISCONNECTED
        answer: asyncio.Future[bytes] = loop.create_future()

        def respond(body: bytes) -> None:
            if self._line.is_open:
                self._process.at(0, lambda: loop.call_soon_threadsafe(heard, body))

        def heard(body: bytes) -> None:
            if not answer.done():
                answer.set_result(body)

        if not self._network.send(subject, wire.encode(request), respond):
            await asyncio.sleep(0.002)
            return Silence.NO_RESPONDERS
        await asyncio.wait({answer}, timeout=timeout_s)
        return wire.decode_reply(answer.result()) if answer.done() else Silence.TIMEOUT
