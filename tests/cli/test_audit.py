"""Steps, journal and report at the command line: one step lost with its browser, and a person's word on it."""

import getpass
import json
import os
import re
import signal
from typing import Any

import psutil
import pytest

from lessor.messages.hashing import digest
from tests.cli.programs import Place, until
from tests.cli.test_calls import PAGE, Person
from tests.support.web import Web


@pytest.fixture(scope="module")
def lost(town: Place, web: Web) -> Person:
    """A run whose first step is done, and whose second one lost its browser after the click."""
    web.pages.update({"/shop": PAGE, "/done": "<title>done</title>thanks"})
    person = Person(town, web)
    refs = person.at_the_shop()
    person.told("act", "type", refs["Name"], "Anna", "--step", "first")
    person.told("act", "click", refs["Order"], "--step", "first", "--commit")
    web.pages["/shop"] = PAGE.replace("/done", "/hold")
    refs = person.at_the_shop()
    with town.started("act", person.profile, "click", refs["Order"], "--run", person.run, "--step=second", "--commit"):
        assert web.held.wait(10)
        keepers = [one for one in town.processes() if "keeper" in " ".join(one.cmdline())]
        for browser in [child for keeper in keepers for child in keeper.children() if is_browser(child)]:
            os.kill(browser.pid, signal.SIGKILL)
        until(lambda: "UNKNOWN" in town.call("steps", "--profile", person.profile).out)
    web.release.set()
    return person


def is_browser(process: psutil.Process) -> bool:
    return "--remote-debugging" in " ".join(process.cmdline())


def test_steps_lists_what_is_known(lost: Person) -> None:
    town = lost.town
    steps = town.call("steps", "--profile", lost.profile, "--json").json["steps"]
    assert [(one["step"]["step"], one["step"]["state"]) for one in steps] == [
        ("first", "DISPATCHED"),
        ("second", "UNKNOWN"),
    ]
    assert "second" not in town.call("steps", "--unverified", "--profile", lost.profile).out
    assert "second" in town.call("steps", "--unknown", "--run", lost.run).out


def test_s16_a_person_resolves_it_with_name_and_evidence(lost: Person) -> None:
    """A not-sent that comes too early is recorded and does not count; what was seen counts at once."""
    early = lost.town.call("resolve", "second", "not-sent", "--evidence", "nothing there", "--profile", lost.profile)
    assert (early.code, "does not count yet" in early.err) == (12, True)
    done = lost.town.call("resolve", f"{lost.run}:second", "succeeded", "--evidence", "order 4711", "--json")
    assert (done.code, done.json["step"]) == (0, "SUCCEEDED")
    told = lost.town.call("outcome", lost.profile, "--task", lost.run, "--step", "second", "--json").json
    assert (told["outcome"], told["step"], told["evidence"]) == ("unknown", "SUCCEEDED", "order 4711")
    entries = exported(lost)
    verdicts = [one for entry in entries for one in entry["records"] if one["kind"] == "reconciled"]
    assert [(one["verdict"], one["counted"], one["how"]) for one in verdicts] == [
        ("not_sent", False, "person"),
        ("succeeded", True, "person"),
    ]
    assert all(one["by"] == f"{getpass.getuser()} as me" for one in verdicts)
    assert all(entry["unix_ms"] for entry in entries)
    assert lost.town.call("resolve", "nosuch", "succeeded", "--evidence", "x").code == 20


def exported(person: Person) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in person.town.call("journal", person.profile, "--json").out.splitlines()]
    return [line["entry"] for line in lines]


def test_the_journal_is_shown_and_exported_with_hashes_that_can_be_checked(lost: Person) -> None:
    shown = lost.town.call("journal", lost.profile).out
    assert re.search(r"Z  \S+ #\d+ +e\d+  intent ", shown)
    of_run = lost.town.call("journal", lost.run).out
    assert "lease_granted" in of_run
    assert "profile_changed" not in of_run
    before = ""
    for line in lost.town.call("journal", lost.profile, "--json").out.splitlines():
        raw = line[line.index('"entry":') + len('"entry":') : -1].encode()
        told = json.loads(line)
        assert (told["entry"]["prev"], told["sha256"]) == (before, digest(raw))
        before = told["sha256"]
    assert lost.town.call("journal", "nosuch").code == 20


def test_verify_finds_the_chain_whole_and_a_noted_head(lost: Person) -> None:
    told = lost.town.call("journal", "verify", lost.profile, "--json").json[lost.profile]
    assert (told["broken"], told["chained"]) == ([], told["entries"])
    assert lost.town.call("journal", "verify", lost.profile, "--head", told["head"]).code == 0
    assert lost.town.call("journal", "verify", lost.profile, "--head", "0" * 64).code == 20


def test_a_report_tells_the_run_on_one_page_that_loads_nothing(lost: Person) -> None:
    path = lost.town.data_dir / "report.html"
    done = lost.town.call("report", lost.run, "--out", str(path), "--json")
    assert (done.code, done.json["steps"], done.json["whole"]) == (0, 2, True)
    page = path.read_text()
    for word in ("second", "submit_intent_recorded", "lease_granted", lost.profile):
        assert word in page
    assert re.findall(r'(?:src|href)="', page) == []
    assert "default-src 'none'" in page


def test_follow_shows_what_is_written_from_now_on(lost: Person) -> None:
    shown = len(lost.town.call("journal", lost.profile).out.splitlines())
    with lost.town.started("journal", lost.profile, "--follow") as following:
        assert following.process.stdout is not None
        before = [following.process.stdout.readline() for _ in range(shown)]
        assert b"activated" in before[0]
        lost.told("acquire")
        assert b"lease_granted" in following.process.stdout.readline()
    lost.does("close", "--discard")
