"""F15 with users of an operator's broker: nobody asks in another's name, and nobody hears another's answers."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from nats.aio.client import Client

import lessor
from lessor.config import Config
from lessor.runtime import Runtime
from tests.support.broker import configured_server
from tests.wire.fake import Fake


def user(name: str) -> dict[str, object]:
    """As the page on the wire says."""
    allowed = {"publish": f"lessor.v1.local.{name}.>", "subscribe": f"_INBOX.local.{name}.>"}
    return {"user": name, "password": name, "permissions": allowed}


@pytest.fixture
async def url(tmp_path: Path, fake: Fake) -> AsyncIterator[str]:
    """A broker with users, and a host on it."""
    settings: dict[str, object] = {
        "jetstream": {"store_dir": str(tmp_path / "store"), "sync_interval": "always"},
        "accounts": {
            "LESSOR": {"jetstream": "enabled", "users": [{"user": "host", "password": "h"}, user("me"), user("other")]}
        },
    }

    async def browser(config: Config) -> Fake:
        return fake

    with configured_server(tmp_path, settings) as server:
        config = Config(data_dir=tmp_path / "data", nats_url=server.url, nats_user="host", nats_password="h")
        async with Runtime(config, browser=browser):
            yield server.url


def as_user(url: str, name: str) -> str:
    return f"nats://{name}:{name}@{urlsplit(url).netloc}"


async def test_f15_a_principal_works_under_its_own_permissions(url: str, fake: Fake) -> None:
    async with lessor.connect(as_user(url, "me"), principal="me") as client:
        await client.create_profile("shop", origins=["https://shop.example"])
        async with client.run("r1") as run:
            lease = await run.acquire("shop")
            await lease.observe()
            assert (await lease.act(lessor.Click(ref="e1.aa"))).effect == "applied"
    assert fake.clicks == 1


async def test_f15_nobody_asks_in_anothers_name(url: str) -> None:
    async with lessor.connect(as_user(url, "me"), principal="me") as mine:
        await mine.create_profile("shop", origins=["https://shop.example"])
        # It may not even listen for answers there, so that it hears of it at once.
        async with lessor.connect(as_user(url, "other"), principal="me") as stranger:
            for asked in (stranger.show_profile("shop"), stranger.profiles(), stranger.show_run("r1")):
                with pytest.raises(lessor.LessorError) as refused:
                    await asked
                assert refused.value.code is lessor.Code.FORBIDDEN
        async with lessor.connect(as_user(url, "other"), principal="other") as stranger:
            assert await stranger.profiles() == ()
            with pytest.raises(lessor.LessorError) as refused:
                await stranger.show_profile("shop")
            assert refused.value.code is lessor.Code.NOT_FOUND


@pytest.mark.parametrize("subject", ["_INBOX.>", "_INBOX.local.me.>", "lessor.>", "lessor.v1.local.me.>", "lessor.0.>"])
async def test_f15_nobody_listens_to_another(url: str, subject: str) -> None:
    told: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    async def on_error(error: Exception) -> None:
        if not told.done():
            told.set_result(str(error))

    client = Client()
    await client.connect(as_user(url, "other"), error_cb=on_error)
    await client.subscribe(subject)  # pyright: ignore[reportUnknownMemberType]  # one parameter is untyped
    assert "permissions violation" in (await asyncio.wait_for(told, 5)).lower()
    await client.close()


@pytest.mark.parametrize("name", ["Shop", "a.b", "*", ">", "", "a b", "x" * 64])
async def test_a_name_that_is_none_never_leaves_the_client(url: str, name: str) -> None:
    async with lessor.connect(as_user(url, "me"), principal="me") as client:
        for asked in (client.show_profile(name), client.show_run(name)):
            with pytest.raises(lessor.LessorError) as refused:
                await asked
            assert refused.value.code is lessor.Code.INVALID_REQUEST
