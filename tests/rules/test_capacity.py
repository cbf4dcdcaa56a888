"""Browsers per host and per tenant, and whose turn it is when a full host has room again (contract 2; L11)."""

from lessor.errors import Code
from lessor.lease.capacity import Capacity
from lessor.limits import Limits
from lessor.messages.ids import ProfileKey


def key(name: str) -> ProfileKey:
    """`a1` is profile 1 of tenant a."""
    return ProfileKey(name[0], name)


def full(*live: str, tenant_leases_max: int = 32) -> Capacity:
    capacity = Capacity(Limits(browsers_max=len(live), tenant_leases_max=tenant_leases_max))
    for name in live:
        assert capacity.ask(key(name), 0) is None
    return capacity


def position(capacity: Capacity, name: str, now_ms: int = 0) -> int | None:
    refused = capacity.ask(key(name), now_ms)
    if refused is None:
        return None
    assert (refused.code, refused.retryable) == (Code.CAPACITY, True)
    return refused.position


def test_l11_full_host_refuses_and_has_room_after_a_close() -> None:
    capacity = full("a1", "a2")
    assert position(capacity, "a3") == 1
    assert position(capacity, "a1") is None, "who has a browser reattaches"
    capacity.free(key("a2"))
    assert position(capacity, "a3") is None


def test_first_come_first_served_within_a_tenant() -> None:
    capacity = full("a1")
    assert [position(capacity, name, at) for at, name in enumerate(("b1", "b2", "b3"))] == [1, 2, 3]
    capacity.free(key("a1"))
    assert position(capacity, "b2", 5) == 2
    assert position(capacity, "b1", 6) is None


def test_tenant_with_fewer_browsers_comes_first() -> None:
    capacity = full("a1", "a2", "a3")
    assert [position(capacity, name, at) for at, name in enumerate(("a4", "a5", "b1"))] == [1, 2, 1]
    capacity.free(key("a1"))
    assert position(capacity, "a4", 10) == 2
    assert position(capacity, "b1", 11) is None


def test_place_lapses_10_s_after_its_last_poll() -> None:
    capacity = full("a1")
    assert position(capacity, "b1", 0) == 1
    assert position(capacity, "c1", 1) == 2
    capacity.free(key("a1"))
    assert position(capacity, "c1", 9_999) == 2
    assert position(capacity, "c1", 10_000) is None


def test_tenants_quota_holds_while_the_host_has_room() -> None:
    capacity = Capacity(Limits(browsers_max=10, tenant_leases_max=2))
    assert [capacity.ask(key(name), 0) for name in ("a1", "a2")] == [None, None]
    refused = capacity.ask(key("a3"), 0)
    assert refused is not None
    assert (refused.code, refused.retryable) == (Code.CAPACITY, True)
    assert capacity.ask(key("b1"), 0) is None
    capacity.free(key("a1"))
    assert capacity.ask(key("a3"), 1) is None


def test_browsers_found_again_count() -> None:
    capacity = Capacity(Limits(browsers_max=1))
    capacity.found(key("a1"))
    assert position(capacity, "b1") == 1
