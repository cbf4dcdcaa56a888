"""Actors killed inside a live process: restarts at every step, give-up, passivation, and that nobody is blocked."""

import asyncio
import time
from collections.abc import Awaitable, Callable

import msgspec
import pykka
import pytest

import lessor
from lessor.actors.process import Process
from lessor.actors.profile import ProfileActor
from lessor.actors.run import RunActor
from lessor.actors.supervisor import SupervisorActor
from lessor.actors.worker import WorkerSupervisor
from lessor.client import Client, Lease
from lessor.errors import Code, LessorError
from lessor.ids import fresh_id
from lessor.messages.record import Intent, LeaseRenewed, Outcome, SealCommitted
from lessor.messages.reply import ActOutcome, Cancelled, Refused
from lessor.messages.request import Cancel
from tests.model.browser import Gate
from tests.support.broker import until
from tests.support.stage import URL, Stage, refused
from tests.support.wire import GO, code

ANSWER_MS_MAX = 200


def actors(kind: type[Process]) -> list["pykka.ActorRef[Process]"]:
    return pykka.ActorRegistry.get_by_class(kind)


def kill(kind: type[Process]) -> "pykka.ActorRef[Process]":
    """Break the only actor of that kind: it cannot handle what it is told."""
    (ref,) = actors(kind)
    ref.tell(object())
    return ref


async def begun(stage: Stage) -> Lease:
    client = await stage.hosted()
    lease = await (await stage.take(client, "r1")).acquire("shop")
    await lease.observe()
    return lease


Hold = Callable[[Stage], Gate]
STEPS: dict[str, tuple[Hold, ActOutcome | None, int]] = {
    "aiming": (lambda stage: stage.model.hold("aim"), ActOutcome.NOT_SENT, 0),
    "intent not yet sent": (lambda stage: stage.holds.hold(Intent, "before"), ActOutcome.NOT_SENT, 0),
    "intent on disk": (lambda stage: stage.holds.hold(Intent, "after"), ActOutcome.UNKNOWN, 0),
    "before the input": (lambda stage: stage.model.hold("dispatch"), ActOutcome.UNKNOWN, 0),
    "after the input": (lambda stage: stage.model.hold("dispatched"), ActOutcome.UNKNOWN, 1),
    "outcome not yet sent": (lambda stage: stage.holds.hold(Outcome, "before"), ActOutcome.UNKNOWN, 1),
    "outcome on disk": (lambda stage: stage.holds.hold(Outcome, "after"), ActOutcome.APPLIED, 1),
}


@pytest.mark.parametrize("step", STEPS)
async def test_f05_an_owner_killed_at_a_step_of_an_act(stage: Stage, step: str) -> None:
    hold, outcome, inputs = STEPS[step]
    lease = await begun(stage)
    gate = hold(stage)
    acting = asyncio.create_task(lease.act(GO))
    await gate.reached.wait()
    dead = kill(ProfileActor)
    match outcome:
        case ActOutcome.APPLIED:
            acted = await acting
            assert (acted.recorded, acted.sequence) == (True, 1)
        case ActOutcome.UNKNOWN:
            with pytest.raises(lessor.OutcomeUnknown):
                await acting
        case _:
            with refused(Code.NOT_SENT):
                await acting
    gate.open()  # what was under way in the dead actor's name goes on now, and must come to nothing
    assert not dead.is_alive()
    again = await lease.run.acquire("shop")
    assert again.reattached is (outcome is not ActOutcome.UNKNOWN)
    page = await again.observe()
    assert (await again.act(GO, revision=page.revision)).sequence == again.next_sequence - 1
    assert len(stage.model.hits) == inputs + 1
    first = [one.outcome for one in await stage.written(Outcome) if (one.lease, one.sequence) == (lease.id, 1)]
    assert first == ([] if outcome is ActOutcome.NOT_SENT else [outcome])


SEALS: dict[str, Hold] = {
    "exporting": lambda stage: stage.model.hold("seal"),
    "commit not yet sent": lambda stage: stage.holds.hold(SealCommitted, "before"),
    "commit on disk": lambda stage: stage.holds.hold(SealCommitted, "after"),
    "ending the browser": lambda stage: stage.model.hold("kill"),
}


@pytest.mark.parametrize("step", SEALS)
async def test_f05_an_owner_killed_while_it_seals(stage: Stage, step: str) -> None:
    lease = await begun(stage)
    await lease.act(lessor.Type(ref="box", text="kept"))
    gate = SEALS[step](stage)
    closing = asyncio.create_task(lease.close())
    await gate.reached.wait()
    kill(ProfileActor)
    receipt = await closing
    gate.open()
    assert (receipt.kind, receipt.generation) == ("sealed", 1)
    again = await lease.run.acquire("shop")
    assert (again.generation, (await again.observe()).text) == (1, "kept")


async def test_f05_an_owner_killed_while_a_browser_starts(stage: Stage) -> None:
    client = await stage.hosted()
    run = await stage.take(client, "r1")
    gate = stage.model.hold("start")
    acquiring = asyncio.create_task(run.acquire("shop"))
    await gate.reached.wait()
    kill(ProfileActor)
    lease = await acquiring
    gate.open()
    await lease.observe()
    await until(lambda: len(stage.model.live) == 1)


async def test_f05_a_run_actor_killed_during_an_act_says_unknown_and_its_successor_is_told(stage: Stage) -> None:
    lease = await begun(stage)
    client = lease.run.client
    gate = stage.model.hold("dispatched")
    acting = asyncio.create_task(lease.act(GO))
    reading = asyncio.create_task(lease.observe())
    await gate.reached.wait()
    kill(RunActor)
    with pytest.raises(lessor.OutcomeUnknown):
        await acting
    with refused(Code.MOVED):
        await reading
    with refused(Code.MOVED):
        await lease.observe()
    gate.open()
    told = await client.outcome("shop", lease=lease.id, sequence=1)
    assert told is not None
    assert told.outcome is ActOutcome.APPLIED
    again = await (await stage.take(client, "r1")).acquire("shop")
    assert (again.id, again.next_sequence, len(stage.model.hits)) == (lease.id, 2, 1)


async def test_f05_a_workers_supervisor_killed_leaves_no_call_without_an_answer(stage: Stage) -> None:
    lease = await begun(stage)
    gate = stage.model.hold("dispatched")
    acting = asyncio.create_task(lease.act(GO))
    await gate.reached.wait()
    kill(WorkerSupervisor)
    with pytest.raises(lessor.OutcomeUnknown):
        await acting
    with refused(Code.MOVED):
        await stage.take(lease.run.client, "r2")
    gate.open()


async def test_f05_a_hosts_supervisor_killed_fails_its_host_and_answers_everyone(stage: Stage) -> None:
    lease = await begun(stage)
    host = stage.hosts["h"]
    gate = stage.model.hold("dispatched")
    wire = stage.wire("r1")
    await wire.acquire()
    acting = asyncio.create_task(wire.touch(wire.acting()))
    await gate.reached.wait()
    kill(SupervisorActor)
    async with asyncio.timeout(5):
        await host.failed.wait()
    assert host.why is not None
    assert code(await acting) is Code.MOVED
    asked = await wire.send("outcome", wire.asking(1))
    assert code(asked) is Code.MOVED
    gate.open()
    await stage.leave()
    await stage.open_host()
    told = await lease.run.client.outcome("shop", lease=lease.id, sequence=1)
    assert told is not None
    assert told.outcome is ActOutcome.UNKNOWN
    assert len(stage.model.hits) == 1


async def test_f06_a_crash_loop_is_given_up_and_written_down_and_disturbs_nobody(stage: Stage) -> None:
    stage.limits = msgspec.structs.replace(stage.limits, restarts_max=2)
    lease = await begun(stage)
    client = lease.run.client
    (broken,) = actors(ProfileActor)
    await client.create_profile("other", origins=["http://127.0.0.1:1"])
    other = await (await stage.take(client, "r2")).acquire("other")
    unharmed = next(ref for ref in actors(ProfileActor) if ref != broken)
    for _ in range(stage.limits.restarts_max + 1):
        broken.tell(object())
        await asyncio.to_thread(broken.actor_stopped.wait, 5)
        await _until_changed(client)
        found = [ref for ref in actors(ProfileActor) if ref != unharmed]
        broken = found[0] if found else broken
    with refused(Code.PROFILE_QUARANTINED):
        await client.status("shop")
    stranger = await stage.worker("b", principal="other")
    with refused(Code.NOT_FOUND):
        await stranger.status("shop")
    own = (await stage.chain()).own
    assert own is not None
    assert own.state == "quarantined"
    assert unharmed.is_alive()
    assert (await other.observe()).revision == "r0"
    await other.act(GO)


async def _until_changed(client: Client) -> None:
    """The restarted owner has answered, or the profile rests."""
    async with asyncio.timeout(10):
        while True:
            try:
                await client.status("shop")
                return
            except LessorError as error:
                if error.code is Code.PROFILE_QUARANTINED:
                    return


async def test_p17_a_stranger_wakes_nothing(stage: Stage) -> None:
    """A profile at rest stays at rest, whatever others ask of it; its principal's own question wakes it."""
    stage.limits = msgspec.structs.replace(stage.limits, idle_s=0.02)
    client = await stage.hosted()
    await until(lambda: not actors(ProfileActor))
    before = await stage.chain()
    stranger = await stage.worker("b", principal="other")
    for _ in range(3):
        with refused(Code.NOT_FOUND):
            await stranger.status("shop")
        with refused(Code.NOT_FOUND):
            await stranger.revoke_profile("shop")
    assert (await stage.chain()).last == before.last
    mine = asyncio.gather(*(client.status("shop") for _ in range(8)))
    theirs = asyncio.gather(*(stranger.status("shop") for _ in range(8)), return_exceptions=True)
    assert {one.profile for one in await mine} == {"shop"}
    assert {one.code for one in await theirs if isinstance(one, LessorError)} == {Code.NOT_FOUND}
    with refused(Code.FORBIDDEN):
        await stranger.create_profile("shop", origins=["http://127.0.0.1:1"])


async def test_no_call_is_lost_while_an_owner_goes_to_rest(stage: Stage) -> None:
    stage.limits = msgspec.structs.replace(stage.limits, idle_s=0.02)
    client = await stage.hosted()
    for turn in range(15):
        told = await asyncio.gather(*(client.status("shop") for _ in range(8)))
        assert {one.profile for one in told} == {"shop"}
        if turn % 3 == 0:
            await until(lambda: not actors(ProfileActor))
    epochs = {one.epoch for one in await stage.entries()}
    assert len(epochs) > 3, "it rested and was woken again"


async def test_nobody_waits_for_a_navigation(stage: Stage) -> None:
    """Renewals, questions and a cancel are answered while a navigation of 20 s is under way."""
    client = await stage.hosted()
    wire = stage.wire("r1")
    await wire.granted(horizon_s=100)
    await wire.touch(wire.acting())
    gate = stage.model.hold("navigate")
    navigate = wire.navigating(URL)
    navigating = asyncio.create_task(wire.touch(navigate, timeout_s=20))
    await gate.reached.wait()
    took_ms: list[float] = []

    async def timed(told: Awaitable[object]) -> object:
        began = time.perf_counter()
        answer = await told
        took_ms.append((time.perf_counter() - began) * 1000)
        assert not isinstance(answer, Refused), answer
        return answer

    for turn in range(10):
        await timed(wire.touch(wire.renewing(200 + 10 * turn)))
        await timed(client.status("shop"))
        await timed(wire.send("outcome", wire.asking(1)))
    cancel = Cancel(id=fresh_id(), lease=wire.seen.lease, claim=wire.claim, request=navigate.id)
    cancelled = await timed(wire.ask(f"{wire.seen.route}.cancel", cancel))
    assert isinstance(cancelled, Cancelled)
    assert cancelled.found
    assert code(await navigating) is Code.NAVIGATION_CANCELLED
    took_ms.sort()
    assert took_ms[int(len(took_ms) * 0.95)] < ANSWER_MS_MAX, took_ms


async def test_one_message_per_host_and_tick_renews_every_lease_of_a_worker(stage: Stage) -> None:
    leases = 12
    stage.limits = msgspec.structs.replace(stage.limits, tick_s=0.5, renew_below_s=600, browsers_max=leases)
    client = await stage.hosted()
    heard: list[str] = []

    async def hear(message: object) -> None:
        heard.append(str(message))

    await stage.connection.subscribe(f"lessor.v1.{stage.tenant}.*.h.*.renew", hear)
    names = [f"p{number}" for number in range(leases)]
    for name in names:
        await client.create_profile(name, origins=["http://127.0.0.1:1"])
    began = time.monotonic()
    held = [await (await stage.take(client, f"r-{name}")).acquire(name, horizon_s=300) for name in names]
    for name in names:
        await stage.awaited(LeaseRenewed, 1, name)
    ticks = (time.monotonic() - began) / stage.limits.tick_s
    assert 1 <= len(heard) <= ticks + 1, "one message a tick, whatever the number of leases"
    assert len({lease.id for lease in held}) == leases
