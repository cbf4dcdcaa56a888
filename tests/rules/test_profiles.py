"""Profiles between leases: health, rollback, import, login, keys, delete (contract 4, 25-28)."""

import msgspec
import pytest

from lessor.errors import Code, Problem, problem
from lessor.lease.verdict import (
    ChoreOver,
    RemoveObjects,
    Reseal,
    Sealed,
    SealState,
    SweepObjects,
    TryState,
)
from lessor.messages.health import HealthCheck
from lessor.messages.ids import Caller
from lessor.messages.record import LeaseClosed, ProfileChanged, Rewrapped, SealCommitted
from lessor.messages.reply import CeremonyTold, Closed, GenerationsTold, Granted, ProfileTold, Receipt, Refused, Reply
from lessor.messages.request import (
    AskGenerations,
    Ceremony,
    CheckProfile,
    CreateProfile,
    DeleteProfile,
    ImportState,
    ProfileRequest,
    Rewrap,
    RollBack,
    ShowProfile,
)
from tests.support.rules import ME, Owner, Worker, code, revoke

HEALTH = HealthCheck(url="https://shop.test/account", text="Sign out")
LOGGED_OUT = problem(Code.AUTHENTICATION_REQUIRED, "The health check failed: its page does not show the text.")
SHA = "0" * 64


def profile(*, health: bool = False, sealed: int = 0) -> Owner:
    """A free profile with that many generations."""
    owner = Owner(limits=msgspec.structs.replace(Owner().limits, place_s=0.1))
    if health:
        asked = CreateProfile(id=owner.id(), origins=("https://shop.test",), health=HEALTH)
        assert isinstance(owner.call(asked), ProfileTold)
    owner.set_run("r1")
    for _ in range(sealed):
        worker = Worker(owner, "r1")
        worker.granted()
        worker.close()
    return owner


def told(reply: Reply | None) -> ProfileTold:
    assert isinstance(reply, ProfileTold), reply
    return reply


def kept(owner: Owner) -> list[tuple[int, bool, bool]]:
    reply = owner.call(AskGenerations(id=owner.id()))
    assert isinstance(reply, GenerationsTold), reply
    return [(one.generation, one.current, one.unhealthy) for one in reply.generations]


def importing(owner: Owner, *, ceremony: str | None = None, generation: int | None = None) -> ImportState:
    number = generation or owner.ledger.next_generation
    name = f"acme/shop/{number}-1-{owner.id()}"
    return ImportState(id=owner.id(), generation=number, object=name, sha256=SHA, ceremony=ceremony)


def test_state_that_fails_the_health_check_is_stored_aside() -> None:
    owner = profile(health=True, sealed=1)
    r1 = Worker(owner, "r1")
    r1.granted()
    owner.hold(SealState)
    slot = owner.ask(r1.closing())
    order = owner.take(SealState)
    assert (order.generation, order.health) == (2, HEALTH)
    owner.tell(Sealed("object-aside", SHA, 100, "1", unhealthy=LOGGED_OUT.message))
    answer = owner.reply(slot)
    assert isinstance(answer, Closed), answer
    assert answer.receipt == Receipt(kind="seal_failed", reason="ended", aside=2)
    assert owner.written(LeaseClosed)[-1].receipt == "seal_failed"
    assert kept(owner) == [(2, False, True), (1, True, False)]
    assert told(owner.call(ShowProfile(id=owner.id()))).state == "authentication_required"
    owner.let(SealState)
    granted = Worker(owner, "r1").acquire()
    assert isinstance(granted, Granted), "readiness informs: a run may log in by itself"
    assert granted.generation == 1


def test_a_healthy_seal_makes_the_profile_ready_again() -> None:
    owner = profile(health=True, sealed=1)
    owner.hold(TryState)
    slot = owner.ask(CheckProfile(id=owner.id()))
    owner.tell(ChoreOver(owner.take(TryState).slot, LOGGED_OUT))
    assert told(owner.reply(slot)).state == "authentication_required"
    r1 = Worker(owner, "r1")
    r1.granted()
    r1.close()
    assert told(owner.call(ShowProfile(id=owner.id()))).state == "ready"
    assert owner.ledger.generation == 2


@pytest.mark.parametrize(
    ("found", "state"),
    [
        (LOGGED_OUT, "authentication_required"),
        (problem(Code.NEEDS_USER, "The sealed state is missing."), "needs_user"),
    ],
)
def test_a_check_says_what_it_found_and_seals_only_what_passes(found: Problem, state: str) -> None:
    owner = profile(health=True, sealed=1)
    assert told(owner.call(CheckProfile(id=owner.id()))).state == "ready"
    assert [sealed.source for sealed in owner.written(SealCommitted)] == ["lease", "check"]
    owner.hold(TryState)
    slot = owner.ask(CheckProfile(id=owner.id()))
    owner.tell(ChoreOver(owner.take(TryState).slot, found))
    answer = told(owner.reply(slot))
    assert (answer.state, answer.why, answer.generation) == (state, found.message, 2)


def test_a_check_that_could_not_run_says_nothing_about_the_profile() -> None:
    owner = profile(health=True, sealed=1)
    owner.hold(TryState)
    slot = owner.ask(CheckProfile(id=owner.id()))
    owner.tell(ChoreOver(owner.take(TryState).slot, problem(Code.BROKER_UNAVAILABLE, "Away.")))
    assert code(owner.reply(slot)) is Code.BROKER_UNAVAILABLE
    assert told(owner.call(ShowProfile(id=owner.id()))).state == "ready"


def test_a_health_check_elsewhere_is_refused() -> None:
    owner = profile()
    foreign = HealthCheck(url="https://shop.test.evil.test/account")
    asked = CreateProfile(id=owner.id(), origins=("https://shop.test",), health=foreign)
    assert code(owner.call(asked)) is Code.INVALID_REQUEST
    assert code(owner.call(CheckProfile(id=owner.id()))) is Code.INVALID_REQUEST


def test_rollback_makes_an_earlier_state_a_new_generation() -> None:
    owner = profile(sealed=2)
    assert told(owner.call(RollBack(id=owner.id(), generation=1))).generation == 3
    record = owner.written(SealCommitted)[-1]
    assert (record.lease, record.base, record.source) == (None, 1, "rollback")
    granted = Worker(owner, "r1").acquire()
    assert isinstance(granted, Granted)
    assert granted.generation == 3
    assert code(owner.call(RollBack(id=owner.id(), generation=1))) is Code.PROFILE_BUSY


def test_rollback_to_what_is_not_kept_or_is_current_is_refused() -> None:
    owner = profile(sealed=12)
    assert [number for number, _, _ in kept(owner)] == list(range(12, 2, -1))
    assert code(owner.call(RollBack(id=owner.id(), generation=2))) is Code.NOT_FOUND
    assert code(owner.call(RollBack(id=owner.id(), generation=12))) is Code.INVALID_REQUEST


def test_a_chore_that_fails_leaves_the_profile_as_it_was_and_lets_the_next_one_in() -> None:
    owner = profile(sealed=2)
    owner.hold(Reseal)
    slot = owner.ask(RollBack(id=owner.id(), generation=1))
    waiting = Worker(owner, "r1").poll()
    assert owner.reply(waiting) is None, "a newcomer waits for the end of the chore"
    assert code(owner.call(RollBack(id=owner.id(), generation=1))) is Code.PROFILE_BUSY
    owner.tell(ChoreOver(owner.take(Reseal).slot, problem(Code.NEEDS_USER, "It does not open.")))
    assert code(owner.reply(slot)) is Code.NEEDS_USER
    granted = owner.reply(waiting)
    assert isinstance(granted, Granted)
    assert granted.generation == 2


def test_an_import_counts_only_for_the_next_generation_and_its_own_profile() -> None:
    owner = profile(sealed=1)
    assert code(owner.call(importing(owner, generation=1))) is Code.INVALID_REQUEST
    foreign = msgspec.structs.replace(importing(owner), object="acme/bank/2-1-x")
    assert code(owner.call(foreign)) is Code.FORBIDDEN
    assert told(owner.call(importing(owner))).generation == 2
    assert owner.written(SealCommitted)[-1].source == "import"
    Worker(owner, "r1").granted()
    assert code(owner.call(importing(owner))) is Code.PROFILE_BUSY


def open_ceremony(owner: Owner, word: str = "c1") -> Reply:
    return owner.call(Ceremony(id=owner.id(), ceremony=word))


def test_l08_an_open_ceremony_refuses_everybody_else() -> None:
    owner = profile(sealed=1)
    assert open_ceremony(owner) == CeremonyTold(left_s=300)
    assert code(Worker(owner, "r1").acquire()) is Code.CEREMONY_OPEN
    requests: list[ProfileRequest] = [
        importing(owner),
        RollBack(id=owner.id(), generation=1),
        Ceremony(id=owner.id(), ceremony="c2"),
        Rewrap(id=owner.id(), key="k2"),
    ]
    assert [code(owner.call(request)) for request in requests] == [Code.CEREMONY_OPEN] * len(requests)
    owner.wait(100)
    assert open_ceremony(owner) == CeremonyTold(left_s=200), "asking again prolongs nothing"
    assert not owner.released, "an open ceremony keeps the profile with its owner"


def test_a_ceremony_is_used_once() -> None:
    owner = profile()
    open_ceremony(owner)
    assert told(owner.call(importing(owner, ceremony="c1"))).generation == 1
    assert owner.written(SealCommitted)[-1].source == "login"
    assert code(owner.call(importing(owner, ceremony="c1"))) is Code.CEREMONY_OPEN
    assert isinstance(Worker(owner, "r1").acquire(), Granted)


def test_a_ceremony_whose_state_fails_goes_on_until_its_time_is_over() -> None:
    owner = profile(health=True)
    open_ceremony(owner)
    owner.hold(TryState)
    slot = owner.ask(importing(owner, ceremony="c1"))
    owner.tell(ChoreOver(owner.take(TryState).slot, LOGGED_OUT))
    assert code(owner.reply(slot)) is Code.AUTHENTICATION_REQUIRED
    assert code(Worker(owner, "r1").acquire()) is Code.CEREMONY_OPEN
    owner.wait(300)
    assert code(owner.call(importing(owner, ceremony="c1"))) is Code.CEREMONY_OPEN
    assert isinstance(Worker(owner, "r1").acquire(), Granted)


def test_a_ceremony_needs_a_free_profile_and_ends_when_asked() -> None:
    owner = profile()
    r1 = Worker(owner, "r1")
    r1.granted()
    assert code(open_ceremony(owner)) is Code.PROFILE_BUSY
    r1.close()
    open_ceremony(owner)
    assert owner.call(Ceremony(id=owner.id(), ceremony="c1", end=True)) == CeremonyTold(left_s=0)
    assert isinstance(Worker(owner, "r1").acquire(), Granted)


def test_a_rewrap_goes_on_where_a_crash_left_it() -> None:
    owner = profile(sealed=3)
    owner.key = "k2"
    owner.hold(Reseal)
    owner.ask(Rewrap(id=owner.id(), key="k2"))
    owner.go_well(owner.take(Reseal))
    assert [moved.generation for moved in owner.written(Rewrapped)] == [1]
    owner.crash()
    owner.let(Reseal)
    owner.call(Rewrap(id=owner.id(), key="k2"))
    assert [moved.generation for moved in owner.written(Rewrapped)] == [1, 2, 3]
    assert {sealed.key_id for sealed in owner.ledger.kept} == {"k2"}
    assert [sealed.number for sealed in owner.ledger.kept] == [1, 2, 3]
    assert len({sealed.object for sealed in owner.ledger.kept}) == 3


def test_a_rewrap_by_a_host_with_other_keys_is_refused() -> None:
    owner = profile(sealed=1)
    assert code(owner.call(Rewrap(id=owner.id(), key="k2"))) is Code.SETUP_FAILED
    assert owner.written(Rewrapped) == []


def test_delete_wants_a_revoke_first_and_forgets_the_profile() -> None:
    owner = profile(sealed=1)
    assert code(owner.call(DeleteProfile(id=owner.id()))) is Code.INVALID_REQUEST
    revoke(owner)
    assert code(Worker(owner, "r1").acquire()) is Code.PROFILE_REVOKED
    assert told(owner.call(DeleteProfile(id=owner.id()))).state == "deleted"
    assert len(owner.ordered(RemoveObjects)) == 1
    assert owner.released
    assert [changed.state for changed in owner.written(ProfileChanged)][-1] == "deleted"


def test_delete_that_cannot_remove_the_objects_can_be_asked_again() -> None:
    owner = profile(sealed=1)
    revoke(owner)
    owner.hold(RemoveObjects)
    slot = owner.ask(DeleteProfile(id=owner.id()))
    owner.tell(ChoreOver(owner.take(RemoveObjects).slot, problem(Code.BROKER_UNAVAILABLE, "Away.")))
    assert code(owner.reply(slot)) is Code.BROKER_UNAVAILABLE
    owner.let(RemoveObjects)
    assert told(owner.call(DeleteProfile(id=owner.id()))).state == "deleted"


def test_nothing_of_it_is_for_somebody_else() -> None:
    owner, eve = profile(sealed=1), Caller(ME.tenant, "eve")
    requests: list[ProfileRequest] = [
        AskGenerations(id="x"),
        RollBack(id="x", generation=1),
        CheckProfile(id="x"),
        importing(owner),
        Ceremony(id="x", ceremony="c"),
        Ceremony(id="x", ceremony="c", end=True),
        Rewrap(id="x", key="k2"),
        DeleteProfile(id="x"),
    ]
    answers = [owner.call(request, eve) for request in requests]
    assert [answer.error.code if isinstance(answer, Refused) else None for answer in answers] == [Code.NOT_FOUND] * len(
        requests
    )


def test_only_what_is_not_kept_and_an_hour_old_is_swept_by_its_own_epoch() -> None:
    owner = profile(sealed=11)
    swept = owner.ordered(SweepObjects)[-1]
    assert (len(swept.keep), swept.old) == (10, ())
    owner.wait(3600)
    owner.released = False
    worker = Worker(owner, "r1")
    worker.granted()
    worker.close()
    swept = owner.ordered(SweepObjects)[-1]
    assert swept.old == ("object-1", "object-2")
    assert not set(swept.old) & set(swept.keep)


def test_the_current_generation_is_kept_however_old() -> None:
    owner = profile(sealed=1)
    for number in range(2, 14):
        r1 = Worker(owner, "r1")
        r1.granted()
        owner.hold(SealState)
        owner.ask(r1.closing())
        owner.take(SealState)
        owner.tell(Sealed(f"aside-{number}", SHA, 100, "1", unhealthy="logged out"))
        owner.let(SealState)
    ledger = owner.ledger
    assert ledger.generation == 1
    assert [sealed.number for sealed in ledger.kept] == [1, *range(4, 14)]
    assert [owner.written(SealCommitted)[-1].base] == [1]
