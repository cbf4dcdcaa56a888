"""Secrets by reference: the value goes from the host's private file into a secret field, and nowhere else."""

from __future__ import annotations

import msgspec
import pytest

from lessor.browser.secretstore import Secrets
from lessor.errors import Code, Problem
from lessor.messages.action import Type
from tests.support.engines import KEY, Rig, do, go, named, refused, script
from tests.support.web import Web

pytestmark = pytest.mark.asyncio(loop_scope="session")

FORM = "<form><label>User <input></label><label>Password <input type=password></label></form>"


async def test_b24_a_secret_reference_fills_the_field_and_its_value_is_nowhere_in_sight(rig: Rig, web: Web) -> None:
    web.pages["/secret"] = FORM
    session = await rig.start(rig.engine(), rig.spec(web.origin))
    Secrets(rig.root / "secrets").store(KEY.tenant, "crm-password", "hunter2")
    page = await go(session, f"{web.origin}/secret")
    after = await do(session, Type(ref=named(page, "Password").ref, secret="crm-password"), page)
    assert await script(session, "document.querySelector('[type=password]').value") == "hunter2"
    assert b"hunter2" not in msgspec.json.encode(after)
    assert named(after, "Password").value is None


async def test_a_secret_goes_into_secret_fields_only_and_a_missing_one_says_what_to_do(rig: Rig, web: Web) -> None:
    web.pages["/secret"] = FORM
    session = await rig.start(rig.engine(), rig.spec(web.origin))
    store = Secrets(rig.root / "secrets")
    store.store(KEY.tenant, "crm-password", "hunter2")
    page = await go(session, f"{web.origin}/secret")
    assert await refused(session, Type(ref=named(page, "User").ref, secret="crm-password"), page) is (
        Code.ACTION_NOT_ALLOWED
    )
    assert await refused(session, Type(ref=named(page, "Password").ref, secret="other"), page) is Code.NEEDS_USER
    assert isinstance(store.value("another-tenant", "crm-password"), Problem)


async def test_a_secret_that_others_can_read_is_refused(rig: Rig) -> None:
    store = Secrets(rig.root / "secrets")
    store.store("acme", "open", "hunter2")
    (rig.root / "secrets" / "acme" / "open").chmod(0o644)
    found = store.value("acme", "open")
    assert isinstance(found, Problem)
    assert "hunter2" not in str(found)
    assert (store.names("acme"), store.remove("acme", "open"), store.names("acme")) == (("open",), True, ())
