"""The owner of one profile: decode nothing, decide by the rules, append, answer, act.

One append is in flight at a time. While it is, everything else waits in the agenda, since the
chain cannot refuse its own writer; what comes after is decided on the state after it.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

from lessor import points
from lessor.actors.activation import Activated, Activation, NotMine
from lessor.actors.bridge import Io, Timer
from lessor.actors.hands import Hands
from lessor.actors.process import ChildFailed, Process
from lessor.actors.trace import traced
from lessor.actors.words import Beat, MayStart, Ports, RenewNow, RenewTick, Rested, Standing, Sweep, WantBrowser
from lessor.errors import Code, Effect, problem
from lessor.journal import Ledger, fold
from lessor.lease import decide
from lessor.lease.alarm import alarm_ms
from lessor.lease.answers import no_profile
from lessor.lease.recover import recover
from lessor.lease.sweep import exception
from lessor.lease.verdict import (
    Again,
    Aim,
    Alarm,
    Asked,
    BrowserGone,
    Desk,
    Drain,
    Event,
    Now,
    Release,
    RunSeen,
    Say,
    StartFailed,
    TickDue,
    Verdict,
    Visit,
)
from lessor.limits import ms
from lessor.messages import wire
from lessor.messages.hashing import digest
from lessor.messages.ids import ProfileKey
from lessor.messages.record import Entry, Own
from lessor.messages.reply import Refused
from lessor.messages.request import Act, CreateProfile, RevokeProfile
from lessor.messages.run import RunReading
from lessor.ports import Answer, Call, Landed, Superseded


class ProfileActor(Process):
    """One per live profile. `repr` shows lease, epoch and sequence."""

    def __init__(
        self,
        io: Io,
        ports: Ports,
        key: ProfileKey,
        until_ms: int,
        parent: Callable[[ChildFailed | Rested | Call | WantBrowser | Standing], None],
        asker: str | None = None,
    ) -> None:
        """`asker`: the principal whose question it is started for; a stranger's starts nothing. None: it must live."""
        super().__init__(io, f"profile {key}", parent)
        self.key, self.ports, self._up = key, ports, parent
        self._until_ms, self._asker = until_ms, asker
        self._ledger = Ledger()
        self._desk = Desk(
            host=ports.host,
            boot=ports.clock.boot,
            tenant=key.tenant,
            profile=key.profile,
            limits=ports.limits,
            epoch=0,
        )
        self._agenda: deque[Event] = deque()
        self._slots: dict[int, tuple[Answer, Call]] = {}
        self._slot_next = 1
        self._begun: dict[int, int] = {}
        """When the turn of a call came, for its trace."""
        self._busy = True
        """An append, or the activation, is under way: decide nothing."""
        self._resting = False
        self._standing: Standing | None = None
        self._principal: str | None = None
        self._revoking = False
        self._hands = Hands(self, ports, key)
        self._timer: Timer | None = None
        self._timer_ms: int | None = None

    def __repr__(self) -> str:
        held = self._ledger.lease
        lease = f"{held.phase} {held.scope.run} claim {held.claim} next {held.next_sequence}" if held else "no lease"
        return f"<ProfileActor {self.key} epoch {self._desk.epoch}: {lease}>"

    # -- activation

    def begin(self) -> None:
        self._activate(None)

    def _activate(self, creator: str | None, revoker: str | None = None) -> None:
        activation = Activation(self.ports, self.key, self._until_ms, creator, self._asker, self._hands.gone, revoker)
        self._revoking = revoker is not None
        self.perform(activation.run, self._activated)

    def _revoker(self) -> str | None:
        """Whoever wants the profile revoked, if that is among the calls that wait: it needs no word from its owner."""
        revokers = (
            call.caller.principal for _, call in self._slots.values() if isinstance(call.request, RevokeProfile)
        )
        return next(revokers, None)

    def _creator(self) -> str | None:
        """Whoever wants to create the profile, if that is among the calls that wait."""
        creators = (
            call.caller.principal for _, call in self._slots.values() if isinstance(call.request, CreateProfile)
        )
        return next(creators, None)

    def _activated(self, result: Activated | NotMine) -> None:
        if isinstance(result, NotMine):
            self._not_mine(result)
            return
        self._ledger, self._principal = result.ledger, result.principal
        self._hands.adopt(result.session)
        self._desk = replace(self._desk, epoch=result.epoch)
        self._open_door()
        self._carry_out(
            recover(
                self._ledger,
                self._desk,
                self.ports.incarnation,
                result.found,
                self._now(),
                revoked=result.revoked,
            )
        )

    def _not_mine(self, result: NotMine) -> None:
        creator = self._creator()
        if result.problem.code is Code.NOT_FOUND and creator is not None:
            self._asker = None
            self._activate(creator)
            return
        if result.strange and any(self._knows(call, result) for _, call in self._slots.values()):
            self._asker = None
            self._activate(None)
            return
        revoker = self._revoker()
        if result.host is not None and revoker is not None and not self._revoking:
            self._activate(None, revoker)
            return
        for slot in list(self._slots):
            answer, call = self._slots.pop(slot)
            if not self._knows(call, result):
                told = no_profile(self.key.profile)
                answer(Refused(error=told, effect=told.effect))
            elif result.host is not None:
                call.forward(result.host)
            else:
                answer(Refused(error=result.problem, effect=result.problem.effect))
        self._rest()

    def _knows(self, call: Call, result: NotMine) -> bool:
        """To strangers a profile that rests, or lives elsewhere, is one that never was (contract 4)."""
        return result.principal in (None, call.caller.principal) or isinstance(call.request, CreateProfile)

    def _open_door(self) -> None:
        profile = self._ledger.profile
        if profile is not None and not self._desk.route:
            route = self.ports.doors.open(self.key, profile.principal, self._desk.epoch, self.post)
            self._desk = replace(self._desk, route=route)

    # -- messages

    def receive(self, message: object) -> None:
        match message:
            case Call():
                self._call(message)
            case Beat(until_ms=until_ms):
                self._until_ms = until_ms
                self._hands.beat(until_ms, self._desk.epoch)
            case Sweep():
                self._sweep()
            case RenewTick():
                self._renew_tick(message)
            case RunReading():
                self._take(RunSeen(message))
            case MayStart(instance=instance, refused=refused):
                self._hands.may_start(instance, refused)
            case BrowserGone() | Drain():
                self._take(message)
            case RenewNow(worker=worker):
                self._renew_now(worker)
            case _Due():
                self._timer = self._timer_ms = None
                self._take(Alarm())
            case _:
                raise AssertionError(message)

    def _call(self, call: Call) -> None:
        if self._resting:
            self._up(call)
            return
        slot = self._slot_next
        self._slot_next += 1
        self._slots[slot] = (call.answer, call)
        self._take(Asked(slot, call.caller, call.request, call.arrived_ms))

    def _sweep(self) -> None:
        held = self._ledger.lease
        if held is not None and held.phase == "live":
            self._hands.read_holder(held.scope.run)

    def _renew_tick(self, tick: RenewTick) -> None:
        """Renewed by the rules; journaled only when little is left (contract 18)."""
        held, profile = self._ledger.lease, self._ledger.profile
        mine = profile is not None and (profile.principal, self.key.tenant) == (tick.principal, tick.tenant)
        if not mine or held is None or held.worker != tick.worker or held.id in tick.excepted:
            tick.answer(None, None)
            return
        now = self._now()
        low = held.live_at(now.ms) and held.expires_ms - now.ms <= ms(self.ports.limits.renew_below_s)
        tick.answer(exception(self._ledger, self._desk, now), self.actor_ref if low else None)

    def _renew_now(self, worker: str) -> None:
        held = self._ledger.lease
        if held is not None and held.worker == worker:
            self._take(TickDue())

    # -- decide, append, perform

    def take(self, event: Event) -> None:
        """An effect is complete; called in a turn of this actor."""
        self._take(event)

    def want_browser(self, instance: str) -> None:
        self._up(WantBrowser(self.key, self.actor_ref, instance))

    def start_failed(self, event: StartFailed) -> None:
        self._standing = None  # told anew: the place that was taken for it is free again
        self._take(event)

    def _tell_standing(self) -> None:
        held, start = self._ledger.lease, self._desk.start
        leased = held is not None and held.phase != "closed"
        live = None if start is not None and start.started is None else leased or start is not None
        run = held.scope.run if held is not None and leased else start.acquire.run if start is not None else None
        standing = Standing(self.key, live, run, tuple(place.run for place in self._desk.queue))
        if standing != self._standing:
            self._standing = standing
            self._up(standing)

    def _take(self, event: Event) -> None:
        self._agenda.append(event)
        self._run()

    def _run(self) -> None:
        while self._agenda and not self._busy:
            self._carry_out(decide(self._ledger, self._desk, self._agenda.popleft(), self._now()))
        if not self._resting:
            self._tell_standing()
        self._arm()

    def _now(self) -> Now:
        clock = self.ports.clock
        return Now(clock.now_ms(), clock.unix_ms(), self.ports.fresh())

    def _carry_out(self, verdict: Verdict) -> None:
        self._desk = verdict.desk
        for say in verdict.early:
            self._say(say)
        if not verdict.records:
            self._perform(verdict)
            return
        entry = Entry(
            epoch=self._desk.epoch,
            nonce=self.ports.fresh(),
            boot=self.ports.clock.boot,
            at_ms=self.ports.clock.now_ms(),
            records=verdict.records,
            unix_ms=self.ports.clock.unix_ms(),
            prev=self._ledger.tail,
        )
        self._append(entry, lambda sequence: self._landed(sequence, entry, verdict))

    def _append(self, message: Entry | Own, then: Callable[[int], None]) -> None:
        self._busy = True
        expected = self._ledger.last
        _pass(message, "before")

        def landed(result: Landed | Superseded) -> None:
            match result:
                case Landed(sequence=sequence):
                    _pass(message, "landed")
                    self._busy = False
                    then(sequence)
                case Superseded():
                    self.superseded()

        self.perform(lambda: self.ports.journal.append(self.key, message, expected), landed)

    def _landed(self, sequence: int, entry: Entry, verdict: Verdict) -> None:
        fold(self._ledger, sequence, entry)
        self._ledger.tail = digest(wire.encode(entry))
        self._open_door()
        self._perform(verdict)
        self._run()

    def _perform(self, verdict: Verdict) -> None:
        for say in verdict.replies:
            self._say(say)
        again: list[Event] = []
        for effect in verdict.effects:
            match effect:
                case Again(event=event):
                    again.append(event)
                case Release():
                    self._release()
                case _:
                    if isinstance(effect, Aim | Visit):
                        self._begun[effect.slot] = self.ports.clock.now_ms()
                    self._hands.do(effect, self._ledger, self._desk, self._until_ms)
        self._agenda.extendleft(reversed(again))

    def _say(self, say: Say) -> None:
        kept = self._slots.pop(say.slot, None)
        if kept is not None:
            if isinstance(kept[1].request, Act):
                points.reach("answer.before")
            kept[0](say.reply)
            begun_ms = self._begun.pop(say.slot, None)
            traced(kept[1], say.reply, begun_ms, self.ports.clock.now_ms(), self._ledger, self._desk)

    def _arm(self) -> None:
        """One timer, for the earliest thing due. While an append is pending nothing falls due."""
        if self._busy or self._resting:
            return
        when_ms = alarm_ms(self._ledger, self._desk)
        if when_ms is None or (self._timer_ms is not None and self._timer_ms <= when_ms):
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer_ms = when_ms
        self._timer = self.later(max(0, when_ms - self.ports.clock.now_ms()), _Due())

    # -- the end of an ownership

    def _release(self) -> None:
        own = Own(
            host=self.ports.host,
            incarnation=self.ports.incarnation,
            nonce=self.ports.fresh(),
            boot=self.ports.clock.boot,
            at_ms=self.ports.clock.now_ms(),
            state=self._left_as(),
            principal=self._principal,
        )
        self._append(own, lambda _sequence: self._rest())

    def _left_as(self) -> Literal["released", "revoked", "deleted"]:
        profile = self._ledger.profile
        match profile.state if profile is not None else None:
            case "revoked":
                return "revoked"
            case "deleted":
                return "deleted"
            case _:
                return "released"

    def superseded(self) -> None:
        """Somebody else owns the profile: drop the page (its keeper refuses us by now, or dies) and stop."""
        self._hands.drop()
        self._rest()

    def _rest(self) -> None:
        """Nothing is decided here any more; calls still in the mailbox go back up, in order."""
        if self._resting:
            return
        self._resting = self._busy = True
        self.ports.doors.shut(self.key, self._desk.epoch)
        waiting = list(self._slots.values())
        self._slots.clear()
        self._agenda.clear()
        self._up(Rested(self.key, self.actor_ref))
        for _, call in waiting:
            self._up(call)

    def ended(self) -> None:
        """No caller is left without an answer: what became of an act is in the journal."""
        self.ports.doors.shut(self.key, self._desk.epoch)
        self._hands.leave(ungranted=self._desk.start is not None)
        if self._timer is not None:
            self._timer.cancel()
        unsettled = problem(
            Code.MOVED,
            "The profile's owner stopped: ask again; after an act ask for its outcome first.",
            effect=Effect.UNKNOWN,
            retry_after_s=0.2,
        )
        for answer, _ in self._slots.values():
            answer(Refused(error=unsettled, effect=unsettled.effect))
        self._slots.clear()

    def unheard(self, message: object) -> None:
        match message:
            case Call() if self._resting:
                self._up(message)
            case Call():
                message.answer(Refused(error=problem(Code.MOVED, "The profile's owner stopped: ask again.")))
            case RenewTick():
                message.answer(None, None)
            case _:
                pass


def _pass(message: Entry | Own, when: str) -> None:
    """The points around an append; without a hook nothing is even named."""
    if points.hook is not None and isinstance(message, Entry):
        for record in message.records:
            points.reach(f"{record.__struct_config__.tag}.{when}")


@dataclass(frozen=True, slots=True)
class _Due:
    """The timer of `_arm`."""
