"""Profiles by the command line, on real Chromium: carried in and out, checked, rolled back, under new keys, gone."""

import json
import stat
from pathlib import Path
from typing import Any

import pytest

from tests.cli.programs import Done, Place
from tests.support.broker import fresh
from tests.support.web import Web

CRUMB = "crumb-that-nobody-may-see"
ACCOUNT = """<title>account</title><body><script>
document.body.append(document.cookie.includes('session=') ? 'Sign out' : 'Sign in');
document.body.append(localStorage.token || '');
</script>"""
LOGGED_OUT = "<script>document.cookie = 'session=; max-age=0; path=/'</script>bye"


class Identity:
    """One profile with a health check."""

    def __init__(self, town: Place, web: Web) -> None:
        self.town, self.web, self.name = town, web, fresh("id")
        done = town.call(
            *("profile", "create", self.name, "--origin", web.origin),
            *("--health-url", f"{web.origin}/account", "--health-text", "Sign out"),
        )
        assert done.code == 0, done.err

    def does(self, verb: str, *words: str) -> Done:
        return self.town.call("profile", verb, self.name, *words, "--json")

    def told(self, verb: str, *words: str) -> Any:
        done = self.does(verb, *words)
        assert done.code == 0, done.err
        return done.json

    def state(self, directory: Path, crumb: str | None) -> str:
        """A file as Playwright's `storage_state` writes it; without a session when `crumb` is None."""
        cookie = {
            "name": "session",
            "value": crumb,
            "domain": "127.0.0.1",
            "path": "/",
            "expires": -1,
            "httpOnly": False,
            "secure": False,
            "sameSite": "Lax",
        }
        stored = {"origin": self.web.origin, "localStorage": [{"name": "token", "value": "kept"}]}
        file = directory / f"state-{crumb}.json"
        file.write_text(json.dumps({"cookies": [cookie] if crumb else [], "origins": [stored]}))
        return str(file)

    def leased(self, path: str, *, discard: bool = False) -> tuple[str, Done]:
        """What the page shows to a lease; and the close."""
        run = ("--run", fresh("run"))
        for verb, words in (("acquire", ()), ("navigate", (f"{self.web.origin}{path}",))):
            done = self.town.call(verb, self.name, *words, *run)
            assert done.code == 0, done.err
        text = self.town.call("observe", self.name, *run, "--json").json["text"]
        return text, self.town.call("close", self.name, *run, "--json", *(("--discard",) if discard else ()))


@pytest.fixture
def identity(town: Place, web: Web) -> Identity:
    web.pages.update({"/account": ACCOUNT, "/logout": LOGGED_OUT})
    return Identity(town, web)


def test_an_imported_state_is_logged_in_and_comes_out_again_only_on_purpose(identity: Identity, tmp_path: Path) -> None:
    assert identity.told("import", identity.state(tmp_path, CRUMB))["generation"] == 1
    text, closed = identity.leased("/account")
    assert "Sign out" in text
    assert "kept" in text
    assert closed.json["generation"] == 2
    out = tmp_path / "out.json"
    refused = identity.does("export", str(out))
    assert (refused.code, out.exists()) == (10, False)
    done = identity.does("export", str(out), "--plaintext")
    assert (done.code, done.json["generation"]) == (0, 2)
    assert "warning" in done.err
    assert stat.S_IMODE(out.stat().st_mode) == 0o600
    assert CRUMB in [cookie["value"] for cookie in json.loads(out.read_text())["cookies"]]
    assert identity.does("export", str(out), "--plaintext").code == 10, "it overwrites nothing"
    assert CRUMB not in done.out + done.err


def test_an_import_that_is_not_logged_in_changes_nothing(identity: Identity, tmp_path: Path) -> None:
    assert identity.does("import", identity.state(tmp_path, None)).code == 19
    nonsense = tmp_path / "nonsense.json"
    nonsense.write_text('{"cookies": 3}')
    assert identity.does("import", str(nonsense)).code == 10
    assert identity.told("generations")["generations"] == []
    assert identity.told("show")["state"] == "ready"


def test_b28_what_logged_out_lies_aside_and_a_rollback_is_logged_in(identity: Identity, tmp_path: Path) -> None:
    identity.told("import", identity.state(tmp_path, CRUMB))
    _, closed = identity.leased("/logout")
    assert (closed.code, closed.json["error"]["code"]) == (13, "seal_failed")
    assert "generation 2" in closed.err
    assert identity.told("show")["state"] == "authentication_required"
    assert [
        (one["generation"], one.get("unhealthy", False)) for one in identity.told("generations")["generations"]
    ] == [
        (2, True),
        (1, False),
    ]
    assert "Sign out" in identity.leased("/account", discard=True)[0], "the healthy generation is still the current one"
    assert identity.told("check")["state"] == "ready"
    assert identity.told("rollback", "2")["generation"] == 4
    assert identity.does("check").code == 19
    assert "Sign in" in identity.leased("/account", discard=True)[0]
    assert identity.told("rollback", "1")["generation"] == 5
    assert "Sign out" in identity.leased("/account", discard=True)[0]


def test_keys_are_rotated_under_the_profiles_and_nothing_is_found_in_the_clear(
    identity: Identity, tmp_path: Path
) -> None:
    """No cookie in the broker's store, the keys' directory, the logs (contract 27)."""
    identity.told("import", identity.state(tmp_path, CRUMB))
    identity.leased("/account")
    run = ("--run", fresh("run"))
    assert identity.town.call("acquire", identity.name, *run).code == 0
    waiting = identity.town.call("keys", "rotate", "--json")
    assert (waiting.code, waiting.json["error"]["code"]) == (12, "pending")
    assert identity.name in waiting.err
    assert identity.town.call("close", identity.name, *run).code == 0
    rotated = identity.town.call("keys", "rotate", "--json")
    assert rotated.code == 0, rotated.err + identity.town.said()
    (gone,) = rotated.json["dropped"]
    assert {one["key_id"] for one in identity.told("generations")["generations"]} == {rotated.json["current"]}
    listed = identity.town.call("keys", "list", "--json").json["keys"]
    assert [(key["key"], key["current"]) for key in listed] == [(rotated.json["current"], True)]
    assert f"local/{identity.name}" in listed[0]["profiles"]
    assert not (identity.town.data_dir / "keys" / f"{gone}.key").exists()
    assert "Sign out" in identity.leased("/account")[0]
    assert identity.told("rollback", "1")["state"] == "ready"
    assert_nowhere(CRUMB, identity.town)


def assert_nowhere(secret: str, town: Place) -> None:
    files = [path for path in town.data_dir.rglob("*") if path.is_file()]
    assert any("obs" in str(path) or "OBJ" in str(path) for path in files), "the store was searched, too"
    needles = (secret.encode(), secret.encode().hex().encode())
    found = [path for path in (*files, town.log) if any(needle in path.read_bytes() for needle in needles)]
    assert found == []


def test_a_revoked_profile_can_be_deleted_and_its_name_is_not_given_again(identity: Identity, tmp_path: Path) -> None:
    identity.told("import", identity.state(tmp_path, CRUMB))
    assert identity.does("delete").code == 10
    assert identity.told("revoke")["state"] == "revoked"
    assert identity.does("rollback", "1").code == 15
    assert identity.told("delete")["state"] == "deleted"
    assert identity.name not in identity.town.call("profile", "list", "--json").json["profiles"]
    assert identity.does("show").code == 20
    assert identity.town.call("profile", "create", identity.name, "--origin", identity.web.origin).code == 20
