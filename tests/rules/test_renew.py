"""Renewal: by worker, by sweep, never shortening, never past the maxima (contract 18, 19)."""

import pytest

from lessor.errors import Code
from lessor.messages.record import LeaseClosed, LeaseClosing, LeaseRenewed
from lessor.messages.reply import Renewed
from lessor.messages.run import RunStatus
from tests.support.rules import MINUTE_MS, Owner, Worker, code


def leased(*, horizon_s: float = 900, deadline_s: float = 6 * 3600) -> tuple[Owner, Worker]:
    owner = Owner()
    owner.set_run("r1", deadline_s=deadline_s)
    worker = Worker(owner, "r1")
    worker.granted(horizon_s=horizon_s)
    return owner, worker


def expiries(owner: Owner) -> list[float]:
    """Minutes after the grant to which the lease was renewed."""
    return [(renewed.expires_ms - owner.began_ms) / MINUTE_MS for renewed in owner.written(LeaseRenewed)]


def test_l14_earlier_horizon_does_not_shorten() -> None:
    owner, r1 = leased(horizon_s=900)
    assert isinstance(r1.renew(60), Renewed)
    assert r1.left_s == 900
    assert expiries(owner) == []


def test_l14_horizon_in_the_past_is_refused() -> None:
    _, r1 = leased()
    assert code(r1.renew(0)) is Code.INVALID_REQUEST


def test_l15_parked_run_is_renewed_once_up_to_its_deadline() -> None:
    owner, _ = leased(horizon_s=900, deadline_s=20 * 60)
    owner.set_run("r1", RunStatus.PARKED, deadline_s=20 * 60)
    for minute in (11, 16):
        owner.at(minute)
        owner.sweep("r1")
    assert expiries(owner) == [20]


def test_l15_workers_renewal_ends_at_the_runs_deadline() -> None:
    owner, r1 = leased(horizon_s=900, deadline_s=20 * 60)
    for minute in (11, 16):
        owner.at(minute)
        r1.renew()
    assert expiries(owner) == [20]


def test_l16_parked_run_lives_to_the_cap_and_is_closed_in_time() -> None:
    owner, _ = leased(horizon_s=900)
    owner.set_run("r1", RunStatus.PARKED)
    for minute in range(1, 70):
        owner.at(minute)
        owner.sweep("r1")
    assert expiries(owner) == [25, 35, 45, 55, 60]
    [closing] = owner.written(LeaseClosing)
    assert (closing.reason, closing.seal) == ("cap", True)
    assert owner.written(LeaseClosed)[0].gone_ms == owner.began_ms + 59 * MINUTE_MS + 45_000


def test_l17_queued_run_is_renewed_by_the_sweep() -> None:
    owner, _ = leased(horizon_s=900)
    owner.at(11)
    owner.set_run("r1", RunStatus.QUEUED)
    owner.sweep("r1")
    assert expiries(owner) == [26]


def test_l17_ended_run_is_never_renewed_and_closed_once() -> None:
    owner, _ = leased(horizon_s=900)
    owner.at(11)
    owner.set_run("r1", RunStatus.FINISHED)
    owner.sweep("r1")
    owner.at(12)
    owner.sweep("r1")
    assert expiries(owner) == []
    assert len(owner.written(LeaseClosing)) == 1


def test_sweep_does_not_renew_a_running_run() -> None:
    owner, _ = leased(horizon_s=900)
    for minute in range(1, 15):
        owner.at(minute)
        owner.sweep("r1")
    assert expiries(owner) == []
    owner.at(15)
    assert owner.written(LeaseClosing)[0].reason == "expired"


def test_l22_whole_life_is_60_min_however_often_it_is_renewed() -> None:
    owner, r1 = leased(horizon_s=900)
    for minute in range(1, 60):
        owner.at(minute)
        r1.renew()
    assert max(expiries(owner)) == 60


@pytest.mark.parametrize("asked_s", [900, 86_400])
def test_renewal_is_at_most_15_min(asked_s: float) -> None:
    owner, r1 = leased(horizon_s=60)
    owner.wait(30)
    assert isinstance(r1.renew(asked_s), Renewed)
    assert r1.left_s == 900


def test_expiry_is_final() -> None:
    owner, r1 = leased(horizon_s=60)
    owner.now_ms += 60_000
    assert code(r1.renew()) is Code.LEASE_EXPIRED
    owner.wait(0)
    assert code(r1.renew()) is Code.LEASE_EXPIRED


def test_closed_lease_is_not_renewed() -> None:
    _, r1 = leased()
    r1.close()
    assert code(r1.renew()) is Code.LEASE_CLOSED
