"""Acceptance of profiles over the real broker: health, revoke by any host, delete, rollback, sweep (L08, L10, L41)."""

import asyncio
from typing import TypeVar

import lessor
from lessor.broker.stream import open_stream
from lessor.broker.subjects import Shard
from lessor.broker.vault import ObjectVault, open_vault
from lessor.errors import Code, Problem, problem
from lessor.ids import fresh_id
from lessor.messages.health import HealthCheck
from lessor.messages.ids import Caller
from lessor.messages.record import Activated, LeaseClosed, LeaseGranted, Outcome, ProfileChanged, SealCommitted
from lessor.messages.reply import ActOutcome, CeremonyTold, Closed, GenerationsTold, ProfileTold, Receipt, Reply
from lessor.messages.request import (
    AskGenerations,
    Ceremony,
    CheckProfile,
    DeleteProfile,
    ProfileRequest,
    RevokeProfile,
    RollBack,
)
from lessor.ports import Call
from lessor.runtime import Host
from tests.support.stage import ORIGIN, URL, Stage, refused
from tests.support.wire import code

R = TypeVar("R", bound=Reply)
GO = lessor.Click(ref="go")
HEALTH = HealthCheck(url=URL, text="Sign out")


async def ask(stage: Stage, verb: str, request: ProfileRequest, kind: type[R], *, principal: str = "me") -> R:
    told = await stage.wire("r1", principal=principal).send(verb, request)
    assert isinstance(told, kind), told
    return told


async def revoke(stage: Stage) -> ProfileTold:
    return await ask(stage, "revoke", RevokeProfile(id=fresh_id()), ProfileTold)


async def sealed_with(stage: Stage, client: lessor.Client, run: str, text: str) -> Receipt:
    lease = await (await stage.take(client, run)).acquire("shop")
    await lease.observe()
    await lease.act(lessor.Type(ref="box", text=text))
    receipt = await lease.close()
    await stage.model.none_lives()
    return receipt


async def vault_of(stage: Stage) -> ObjectVault:
    assert not isinstance(await open_stream(stage.connection, Shard()), Problem)
    vault = await open_vault(stage.connection, Shard())
    assert isinstance(vault, ObjectVault), vault
    return vault


async def test_l08_revoked_ceremony_and_strangers_are_refused_without_a_browser(stage: Stage) -> None:
    client = await stage.hosted()
    stranger = stage.wire("r9", principal="eve")
    run = await stage.take(client, "r1")
    await ask(stage, "login", Ceremony(id=fresh_id(), ceremony="c1"), CeremonyTold)
    with refused(Code.CEREMONY_OPEN):
        await run.acquire("shop", wait_s=0)
    assert code(await stranger.acquire()) is Code.NOT_FOUND
    assert code(await stranger.send("revoke", RevokeProfile(id=fresh_id()))) is Code.NOT_FOUND
    assert (await revoke(stage)).state == "revoked"
    with refused(Code.PROFILE_REVOKED):
        await run.acquire("shop", wait_s=0)
    assert stage.model.started == 0


async def test_l10_a_revoke_while_the_browser_starts_wins(stage: Stage) -> None:
    client = await stage.hosted()
    run = await stage.take(client, "r1")
    gate = stage.model.hold("start")
    acquiring = asyncio.create_task(run.acquire("shop"))
    await gate.reached.wait()
    assert (await revoke(stage)).state == "revoked"
    gate.open()
    with refused(Code.PROFILE_REVOKED):
        await acquiring
    await stage.model.none_lives()
    assert await stage.written(LeaseGranted) == []


async def test_a_revoke_needs_no_word_from_the_owner(stage: Stage) -> None:
    """Another host takes the profile, settles what was open, closes unsealed; the owner's next beat ends the page."""
    stage.limits = lessor.Limits(session_ttl_s=3, beat_s=0.5, margin_s=0.5, outage_s=1, reconnect_s=0.5)
    client = await stage.hosted()
    lease = await (await stage.take(client, "r1")).acquire("shop")
    await lease.observe()
    gate = stage.model.hold("dispatched")
    acting = asyncio.create_task(lease.act(GO))
    await gate.reached.wait()
    other = await stage.open_host("i")
    # Whichever host the broker picks: the owner that is busy with an act, or the other one.
    await other_hears(stage, other)
    with refused(Code.OUTCOME_UNKNOWN):
        await acting
    await stage.model.none_lives()
    closed = (await stage.closed(1))[0]
    assert (closed.reason, closed.receipt) == ("revoked", "discarded")
    assert [one.outcome for one in await stage.written(Outcome)] == [ActOutcome.UNKNOWN]
    assert await stage.written(SealCommitted) == []
    chain = await stage.chain()
    assert chain.own is not None
    assert chain.own.state == "revoked", "whoever owns it next"
    assert [one.host for one in await stage.written(Activated)][:2] == [f"{stage.tenant}-h", f"{stage.tenant}-i"]
    with refused(Code.LEASE_REVOKED, Code.LEASE_CLOSED):
        await lease.observe()
    with refused(Code.PROFILE_REVOKED):
        await (await stage.take(client, "r2")).acquire("shop", wait_s=0)


async def other_hears(stage: Stage, other: Host) -> None:
    """Hand the revoke to that host, as the broker may do."""
    loop = asyncio.get_running_loop()
    told: asyncio.Future[Reply] = loop.create_future()

    def answer_(reply: Reply) -> None:
        loop.call_soon_threadsafe(told.set_result, reply)

    def forwarded(host: str) -> None:
        loop.call_soon_threadsafe(told.set_exception, AssertionError(f"forwarded to {host}"))

    call = Call(
        caller=Caller(stage.tenant, "me"),
        key=stage.key(),
        request=RevokeProfile(id=fresh_id()),
        arrived_ms=other.clock.now_ms(),
        answer=answer_,
        forward=forwarded,
    )
    other._tell(call)
    answer = await asyncio.wait_for(told, 5)
    assert isinstance(answer, ProfileTold), answer
    assert answer.state == "revoked"


async def test_delete_removes_the_sealed_objects_and_retires_the_name(stage: Stage) -> None:
    client = await stage.hosted()
    assert (await sealed_with(stage, client, "r1", "kept")).generation == 1
    vault = await vault_of(stage)
    assert len(await vault.names(stage.key())) == 1
    told = await stage.wire("r1").send("delete", DeleteProfile(id=fresh_id()))
    assert code(told) is Code.INVALID_REQUEST
    await revoke(stage)
    assert (await ask(stage, "delete", DeleteProfile(id=fresh_id()), ProfileTold)).state == "deleted"
    assert await vault.names(stage.key()) == ()
    assert (await stage.awaited(ProfileChanged, 3))[-1].state == "deleted"
    async with asyncio.timeout(5):
        while "shop" in await client.profiles():  # noqa: ASYNC110  # nobody is told
            await asyncio.sleep(0.01)
    with refused(Code.NOT_FOUND):
        await client.show_profile("shop")
    with refused(Code.FORBIDDEN):
        await client.create_profile("shop", origins=[ORIGIN])


async def test_unhealthy_state_does_not_become_current_and_a_rollback_finds_it(stage: Stage) -> None:
    client = await stage.hosted()
    await client.create_profile("shop", origins=[ORIGIN], settle_s=0, health=HEALTH)
    assert (await sealed_with(stage, client, "r1", "logged in")).generation == 1
    receipt = await sealed_with(stage, client, "r2", "logged out")
    assert (receipt.kind, receipt.generation, receipt.aside) == ("seal_failed", None, 2)
    assert (await client.show_profile("shop")).state == "authentication_required"
    lease = await (await stage.take(client, "r3")).acquire("shop")
    assert (lease.generation, (await lease.observe()).text) == (1, "logged in")
    await lease.close(discard=True)
    await stage.closed(3)
    assert (await ask(stage, "rollback", RollBack(id=fresh_id(), generation=2), ProfileTold)).generation == 3
    lease = await (await stage.take(client, "r4")).acquire("shop")
    assert (lease.generation, (await lease.observe()).text) == (3, "logged out")


async def test_a_check_runs_in_a_browser_of_its_own_and_leaves_none(stage: Stage) -> None:
    client = await stage.hosted()
    await client.create_profile("shop", origins=[ORIGIN], settle_s=0, health=HEALTH)
    await sealed_with(stage, client, "r1", "logged in")
    assert (await ask(stage, "check", CheckProfile(id=fresh_id()), ProfileTold)).generation == 2
    stage.model.healthy = lambda _: False
    told = await ask(stage, "check", CheckProfile(id=fresh_id()), ProfileTold)
    assert (told.state, told.generation) == ("authentication_required", 2)
    await stage.model.none_lives()


async def test_l41_a_failed_seal_is_retried_and_never_success_without_a_generation(stage: Stage) -> None:
    await stage.hosted()
    stage.model.seals_with = problem(Code.SEAL_FAILED, "The browser did not give its state.")
    r1 = stage.wire("r1")
    await r1.granted()
    assert code(await r1.send("close", r1.closing())) is Code.SEAL_FAILED
    waiting = asyncio.create_task((await stage.take(await stage.worker("b"), "r2")).acquire("shop"))
    assert await stage.written(LeaseClosed) == []
    stage.model.seals_with = None
    closed = await r1.send("close", r1.closing())
    assert isinstance(closed, Closed), closed
    assert (closed.receipt.kind, closed.receipt.generation) == ("sealed", 1)
    assert (await waiting).generation == 1


async def test_what_an_older_epoch_left_is_swept_and_what_is_kept_stays(stage: Stage) -> None:
    client = await stage.hosted()
    await sealed_with(stage, client, "r1", "one")
    vault = await vault_of(stage)
    for left in ("2-1-cut", "import-of-nobody"):
        await vault.put(f"{stage.key()}/{left}", b"left")
    await sealed_with(stage, client, "r2", "two")
    told = await ask(stage, "generations", AskGenerations(id=fresh_id()), GenerationsTold)
    expected = {*(one.object for one in told.generations), f"{stage.key()}/import-of-nobody"}
    async with asyncio.timeout(5):
        while set(await vault.names(stage.key())) != expected:  # noqa: ASYNC110  # nobody is told
            await asyncio.sleep(0.01)
