"""`lessor doctor`: each check with its remedy, exit code 21 when something fails, nothing changed."""

import json
from pathlib import Path
from typing import Any

from lessor.browser.keyring import Keyring
from lessor.cli import check_machine
from lessor.config import Config
from tests.cli.programs import Place

CHECKS = ["browser", "browser start", "sandbox", "broker", "data directory", "keys", "live directory", "clock"]


def by_name(told: Any) -> dict[str, dict[str, str]]:
    return {one["check"]: one for one in told["checks"]}


def test_a_machine_that_is_fit(place: Place) -> None:
    """A real browser is started in its keeper, and nothing is left of it, nor of a data directory."""
    done = place.run("doctor", "--json")
    assert done.code == 0, done.out
    told = by_name(done.json)
    assert list(told) == CHECKS
    assert {one["result"] for one in told.values()} <= {"ok", "warn"}
    assert "Chromium" in told["browser"]["found"]
    assert not place.data_dir.exists()
    assert place.processes() == []


def test_no_browser_and_no_directory(place: Place) -> None:
    """Every failure names its remedy, in the table and in JSON."""
    place.data_dir.write_text("a file")
    done = place.run("doctor", "--json", LESSOR_CHROMIUM="/nowhere/chromium")
    assert done.code == 21
    told = by_name(json.loads(done.out))
    failed = [name for name, one in told.items() if one["result"] == "fail"]
    assert failed == ["browser", "browser start", "data directory"]
    assert all(one["remedy"] for one in told.values() if one["result"] != "ok")
    assert place.processes() == []


def test_a_running_broker_is_seen(town: Place) -> None:
    done = town.run("doctor", "--json", "--timeout", "20")
    assert "runs at nats://127.0.0.1:" in by_name(done.json)["broker"]["found"]


def test_keys_that_others_can_read_or_that_are_gone(tmp_path: Path) -> None:
    config = Config(data_dir=tmp_path)
    assert check_machine.keys(config).result == "ok"
    keyring = Keyring(tmp_path / "keys")
    keyring.ensure()
    assert "current version k1" in check_machine.keys(config).found
    (tmp_path / "keys" / "k1.key").chmod(0o644)
    assert check_machine.keys(config).result == "fail"
    (tmp_path / "keys" / "k1.key").unlink()
    assert "backup" in check_machine.keys(config).remedy


def test_a_directory_that_is_open_to_others(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    found = check_machine.directory(Config(data_dir=tmp_path))
    assert (found.result, found.remedy) == ("warn", f"chmod 700 {tmp_path}")
