"""A login with known secrets over real Chromium, and a search of everything that is left of it."""

import base64
import json
import logging
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest
import structlog
from structlog.testing import capture_logs

import lessor
from lessor.broker.embedded import Endpoint
from lessor.broker.subjects import Shard
from lessor.browser.secretstore import Secrets
from lessor.cli.books import Book
from lessor.cli.demo.site import Site
from lessor.cli.demo.site_log import LOGINS_FILE
from lessor.cli.page import page, told_of
from lessor.limits import Limits
from tests.support.pages import ref
from tests.support.stage import Stage, staged

PASSWORD = "hush-Xk29-password"
TOKEN = "hush-Qv71-token"


@pytest.fixture
async def stage(endpoint: Endpoint, tmp_path: Path) -> AsyncIterator[Stage]:
    async with staged(endpoint, tmp_path, Limits(), model=False) as stage:
        yield stage


def forms(secret: str) -> list[bytes]:
    """A secret as it is, and as the encodings around here would hide it."""
    plain = secret.encode()
    return [plain, base64.b64encode(plain)[:-3], plain.hex().encode(), plain.replace(b"-", b"%2D")]


async def test_s19_a_password_a_cookie_and_a_token_are_found_nowhere(
    stage: Stage, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Not in the journal, the logs, the replies, the report, the sealed state or what a host leaves on disk."""
    caplog.set_level(logging.DEBUG)
    replies: list[object] = []
    with capture_logs() as logged, Site(tmp_path / "site", users={"demo": PASSWORD}) as site:
        await stage.open_host()
        Secrets(stage.directory / "h" / "secrets").store(stage.tenant, "books", PASSWORD)
        client = await stage.worker()
        await client.create_profile("shop", origins=[site.url], settle_s=0)
        run = await stage.take(client, "r1")
        lease = await run.acquire("shop")
        async with run.step(
            "login", target=f"{site.url}/login?token={TOKEN}", payload={"user": "demo"}, evidence=["person"]
        ) as step:
            await lease.navigate(f"{site.url}/login?access_token={TOKEN}")  # Answered with the worker's own address.
            replies.append(await lease.navigate(f"{site.url}/login?next=/invoices/new"))
            seen = await lease.observe()
            await step.checkpoint("page_loaded", f"at {site.url}/login?token={TOKEN}, Cookie: session={TOKEN}")
            acts = [lessor.Type(ref=ref(seen, "User"), text="demo")]
            acts.append(lessor.Type(ref=ref(seen, "Password"), secret="books"))
            for action in acts:
                acted = await step.act(action)
                replies.append(acted.page)
            replies.append(await step.commit(lessor.Click(ref=ref(seen, "Log in"))))
            shown = await lease.observe()
            assert "Log in" not in [one.name for one in shown.elements], "logged in"
            await client.reconcile(
                "shop", step.request_key, "succeeded", evidence=f"password={PASSWORD} worked", by=f"Bearer {TOKEN}"
            )
        replies.append(await client.steps("shop"))
        replies.append(await client.outcome("shop", key=step.request_key))
        replies.append(await client.status("shop"))
        with pytest.raises(lessor.LessorError) as told:
            await lease.act(lessor.Type(ref="e999.0", text=PASSWORD))
        replies.append(str(told.value))
        assert (await lease.close()).kind == "sealed"
        await stage.closed(1)
    stored = await stage.stream.scan(Shard().journal(stage.key()))
    logins = [json.loads(line) for line in (tmp_path / "site" / LOGINS_FILE).read_text().splitlines()]
    cookie = str(logins[0]["session"])  # What the cookie begins with.
    places = {
        "journal": b"\n".join(one.data for one in stored),
        "logs": repr((logged, caplog.text)).encode(),
        "replies": b"\n".join(msgspec.json.encode(reply) for reply in replies),
        "report": page(told_of("r1", [Book("shop", tuple((one.sequence, one.data) for one in stored))], "r1")).encode(),
        "disk": b"\n".join(_left(stage)),
    }
    assert b"page_loaded" in places["journal"], "the search looks where things are"
    found = [
        (place, secret)
        for place, held in places.items()
        for secret in (PASSWORD, TOKEN, cookie)
        for form in forms(secret)
        if form in held
    ]
    assert found == []
    structlog.reset_defaults()


def _left(stage: Stage) -> list[bytes]:
    """Everything below the host's and the live directory, the secret store itself aside."""
    roots = (stage.directory / "h", stage.live)
    files = [path for root in roots for path in root.rglob("*") if path.is_file() and "secrets" not in path.parts]
    return [path.read_bytes() for path in files]
