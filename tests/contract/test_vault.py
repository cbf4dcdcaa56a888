"""What every `ports.Vault` promises (contract 25)."""

import hashlib
import os

import pytest

from lessor.messages.ids import ProfileKey
from tests.contract.conftest import Bench
from tests.support.broker import fresh


@pytest.fixture
def key() -> ProfileKey:
    return ProfileKey("acme", fresh("p"))


@pytest.mark.parametrize("size", [0, 1, 3_000_000])
async def test_what_was_put_is_read_back(bench: Bench, key: ProfileKey, size: int) -> None:
    sealed = os.urandom(size)
    digest = await bench.vault.put(f"{key}/1-abc", sealed)

    assert hashlib.sha256(sealed).hexdigest() == digest
    assert sealed == await bench.vault.get(f"{key}/1-abc", digest)


async def test_another_digest_or_name_reads_nothing(bench: Bench, key: ProfileKey) -> None:
    digest = await bench.vault.put(f"{key}/1-abc", b"sealed")

    assert await bench.vault.get(f"{key}/1-abc", "0" * 64) is None
    assert await bench.vault.get(f"{key}/2-abc", digest) is None


async def test_only_the_objects_of_a_profile_are_named(bench: Bench, key: ProfileKey) -> None:
    longer = ProfileKey(key.tenant, f"{key.profile}-b")
    for name in (f"{key}/2-b", f"{key}/1-a", f"{longer}/1-a"):
        await bench.vault.put(name, b"sealed")

    assert (f"{key}/1-a", f"{key}/2-b") == await bench.vault.names(key)
    assert (f"{longer}/1-a",) == await bench.vault.names(longer)


async def test_what_was_deleted_is_gone_and_deleting_again_is_nothing(bench: Bench, key: ProfileKey) -> None:
    name = f"{key}/1-a"
    digest = await bench.vault.put(name, b"sealed")

    await bench.vault.delete(name)
    await bench.vault.delete(name)

    assert await bench.vault.get(name, digest) is None
    assert await bench.vault.names(key) == ()


async def test_a_strange_name_is_a_name(bench: Bench, key: ProfileKey) -> None:
    name = f"{key}/../*.> x\u00fc"
    digest = await bench.vault.put(name, b"sealed")

    assert await bench.vault.get(name, digest) == b"sealed"
    assert (name,) == await bench.vault.names(key)
