"""Runs, leases and answers from the command line: what a run's owner does, each command a process of its own."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.cli.programs import Place
from tests.cli.test_calls import PAGE, Person
from tests.support.web import Web


@pytest.fixture
def person(town: Place, web: Web) -> Iterator[Person]:
    web.pages.update({"/shop": PAGE, "/done": "<title>done</title>thanks"})
    web.log.clear()
    person = Person(town, web)
    created = town.call("profile", "create", person.profile, "--origin", web.origin, "--approve", "click")
    assert created.code == 0, created.err
    yield person
    person.does("close", "--discard")


def told(town: Place, *words: str) -> Any:
    done = town.call(*words, "--json")
    assert done.code == 0, done.err
    return done.json


def test_an_act_that_needs_a_yes_is_approved_and_goes_on(person: Person) -> None:
    refs = person.at_the_shop()
    asked = person.does("act", "click", refs["Order"], "--json")
    assert (asked.code, asked.json["error"]["code"]) == (12, "approval_required")
    assert person.web.paths() == ["/shop"]
    [shown] = [one for one in told(person.town, "run", "list", "--open")["runs"] if one["run"] == person.run]
    assert shown["record"]["status"] == "parked"
    assert "Order" in shown["record"]["approvals"][0]["question"]
    answered = told(person.town, "approve", person.run, "--by", "ann")
    assert (answered["record"]["status"], answered["record"]["approvals"][0]["answered_by"]) == ("queued", "ann")
    assert told(person.town, "run", "resume", person.run)["record"]["status"] == "running"
    acted = person.told("act", "click", refs["Order"])
    assert (acted["sequence"], acted["page"]["title"]) == (1, "done")


def test_a_rejected_act_is_not_sent(person: Person) -> None:
    refs = person.at_the_shop()
    person.does("act", "click", refs["Order"])
    told(person.town, "reject", person.run)
    refused = person.does("act", "click", refs["Order"], "--json")
    assert (refused.code, refused.json["error"]["code"]) == (13, "approval_rejected")
    assert person.web.paths() == ["/shop"]


def test_leases_are_listed_renewed_shown_and_closed(person: Person) -> None:
    person.told("acquire", "--horizon-s", "60")
    person.told("navigate", f"{person.web.origin}/shop")
    [lease] = [one for one in told(person.town, "lease", "list")["leases"] if one["profile"] == person.profile]
    assert (lease["holder"]["run"], lease.get("queue")) == (person.run, None)
    assert lease["holder"]["page_url"].endswith("/shop")
    assert lease["holder"]["expires_in_s"] <= 60
    renewed = told(person.town, "lease", "renew", person.profile, "--run", person.run)
    assert renewed["lease"]["expires_in_s"] == 900
    assert told(person.town, "lease", "show", person.profile)["holder"]["expires_in_s"] > 800
    listed = person.town.call("lease", "list")
    assert person.run in listed.out
    assert told(person.town, "lease", "close", person.profile, "--run", person.run)["kind"] == "sealed"


def test_a_run_is_parked_and_cancelled_from_here(person: Person) -> None:
    person.told("acquire")
    parked = told(person.town, "run", "park", person.run, "--question", "Is it right?")
    assert parked["record"]["approvals"][-1]["question"] == "Is it right?"
    assert told(person.town, "run", "cancel", person.run)["record"]["status"] == "cancelled"
    ended = person.does("acquire", "--json")
    assert (ended.code, ended.json["error"]["code"]) == (15, "run_ended")


def test_watch_follows_live(person: Person) -> None:
    with person.town.started("lease", "list", "--watch", "--json") as watch:
        json.loads(watch.line())
        person.told("acquire")
        while person.run not in (line := watch.line()):
            assert json.loads(line)
