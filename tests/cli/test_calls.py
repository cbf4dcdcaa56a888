"""Calls of the command line, each a process of its own: one lease over all of them, and every call bounded."""

import os
import signal
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from lessor.broker.credentials import Credentials, read
from tests.cli.programs import Done, Place, until
from tests.support.broker import fresh
from tests.support.web import Web

PAGE = """<title>shop</title>
<form action=/done><input name=who aria-label=Name><button>Order</button></form>"""


class Person:
    """Somebody at a terminal, with a profile and a run of their own."""

    def __init__(self, town: Place, web: Web) -> None:
        self.town, self.web = town, web
        self.profile, self.run = fresh("shop"), fresh("run")
        created = town.call("profile", "create", self.profile, "--origin", web.origin)
        assert created.code == 0, created.err

    def does(self, verb: str, *words: str) -> Done:
        return self.town.call(verb, self.profile, *words, "--run", self.run)

    def told(self, verb: str, *words: str) -> Any:
        """The payload of a call that must succeed."""
        done = self.does(verb, *words, "--json")
        assert done.code == 0, done.err
        return done.json

    @property
    def file(self) -> Path:
        return self.town.data_dir / "cli" / f"local.me.{self.run}.json"

    def at_the_shop(self) -> dict[str, str]:
        """The page is open and seen: element references by name."""
        self.told("acquire")
        self.told("navigate", f"{self.web.origin}/shop")
        return {one["name"]: one["ref"] for one in self.told("observe")["elements"]}


@pytest.fixture
def person(town: Place, web: Web) -> Iterator[Person]:
    web.pages.update({"/shop": PAGE, "/done": "<title>done</title>thanks"})
    web.log.clear()
    person = Person(town, web)
    yield person
    person.does("close", "--discard")


def test_calls_of_one_person_share_a_lease(person: Person) -> None:
    """Acquire, navigate, observe, act, close: claim and sequence go on from call to call (contract 1, 8, 17)."""
    refs = person.at_the_shop()
    assert person.told("act", "type", refs["Name"], "Ada")["sequence"] == 1
    acted = person.told("act", "click", refs["Order"])
    assert (acted["sequence"], acted["page"]["title"]) == (2, "done")
    assert person.web.paths() == ["/shop", "/done?who=Ada"]
    again = person.told("acquire")
    assert (again["reattached"], again["claim"], again["next_sequence"]) == (True, 1, 3)
    receipt = person.told("close")
    assert (receipt["kind"], receipt["generation"]) == ("sealed", 1)
    assert person.told("close") == receipt
    assert "lease_clos" in person.does("observe").err
    assert person.told("acquire")["generation"] == 1


def test_the_session_file_is_private_and_holds_no_secret_of_the_broker(person: Person) -> None:
    """0600 below 0700, and only what this run needs."""
    person.told("acquire")
    assert stat.S_IMODE(person.file.stat().st_mode) == 0o600
    assert stat.S_IMODE(person.file.parent.stat().st_mode) == 0o700
    kept = read(person.town.data_dir / "broker" / "users" / "local.me.nk")
    assert isinstance(kept, Credentials)
    assert kept.seed not in person.file.read_text()


def test_l02_an_act_whose_answer_was_lost_is_answered_from_the_record(person: Person) -> None:
    """The same command again is the same act: one request at the site (contract 8). A third must look first."""
    refs = person.at_the_shop()
    before = person.file.read_bytes()
    person.told("act", "click", refs["Order"])
    person.file.write_bytes(before)
    again = person.told("act", "click", refs["Order"])
    assert (again["sequence"], again["recorded"]) == (1, True)
    third = person.does("act", "click", refs["Order"])
    assert third.code == 10
    assert "page_changed" in third.err
    assert person.web.paths().count("/done?who=") == 1


def test_another_act_does_not_take_the_place_of_a_lost_one(person: Person) -> None:
    """The number is used: refused with what to do, and nothing happens."""
    refs = person.at_the_shop()
    before = person.file.read_bytes()
    person.told("act", "type", refs["Name"], "Ada")
    person.file.write_bytes(before)
    other = person.does("act", "click", refs["Order"])
    assert (other.code, "sequence_conflict" in other.err) == (10, True)
    assert person.web.paths() == ["/shop"]


def test_a_step_commits_once(person: Person) -> None:
    """Its key is that of task and step, whatever process asks (contract, Steps)."""
    refs = person.at_the_shop()
    person.told("act", "click", refs["Order"], "--step", "order", "--commit")
    person.told("navigate", f"{person.web.origin}/shop")
    refs = {one["name"]: one["ref"] for one in person.told("observe")["elements"]}
    again = person.told("act", "click", refs["Order"], "--step", "order", "--commit")
    assert again["recorded"] is True
    assert person.web.paths().count("/done?who=") == 1


def test_a_profile_in_use_is_told_with_holder_and_place(person: Person) -> None:
    """Waiting is shown on stderr after a second; the whole record is on stdout with --json."""
    person.told("acquire")
    other = person.town.call("acquire", person.profile, "--run", "other", "--wait-s", "1.5", "--json")
    assert other.code == 15
    error = other.json["error"]
    assert (error["code"], error["holder_run"], error["position"], error["effect"]) == (
        "profile_busy",
        person.run,
        1,
        "none",
    )
    assert f"waiting for the profile: held by run {person.run}, place 1 ..." in other.err
    status = person.town.call("status", person.profile, "--json").json
    assert (status["holder"]["run"], status["queue"]) == (person.run, ["other"])


def test_an_interrupted_call_ends_in_a_line(person: Person) -> None:
    """Exit code 130 and no traceback; its place in the queue lapses."""
    person.told("acquire")
    with person.town.started("acquire", person.profile, "--run", "hasty") as waiting:
        until(lambda: "hasty" in person.town.call("status", person.profile).out)
        waiting.process.send_signal(signal.SIGINT)
        assert waiting.ended(5) == 130
    assert "lessor: interrupted: " in person.town.said()
    assert "Traceback" not in person.town.said()


def test_a_run_that_another_worker_took_is_fenced(person: Person) -> None:
    """Without its file a person is another worker; the first one's calls do nothing any more (contract 1, 7)."""
    person.at_the_shop()
    first = person.file.read_bytes()
    person.file.unlink()
    assert person.told("acquire")["claim"] == 2
    person.file.write_bytes(first)
    fenced = person.does("observe")
    assert (fenced.code, "lease_fenced" in fenced.err) == (15, True)


def test_status_lists_hosts_and_profiles(person: Person) -> None:
    person.told("acquire")
    overview = person.town.call("status", "--json").json
    assert len(overview["hosts"]) == 1
    (mine,) = [one for one in overview["profiles"] if one["profile"] == person.profile]
    assert mine["holder"]["run"] == person.run
    table = person.town.call("status").out
    assert "PROFILE" in table
    assert person.profile in table
    assert person.profile in person.town.call("profile", "list").out.split()
    assert person.web.origin in person.town.call("profile", "show", person.profile).out


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["status", "nobody"], 20, "not_found"),
        (["profile", "show", "No Name"], 10, "invalid_request"),
        (["acquire", "nobody", "--run", "r"], 20, "not_found"),
        (["acquire", "nobody", "--run", "../r"], 10, "invalid_request"),
        (["observe", "nobody", "--run", "r"], 15, "lessor acquire nobody --run r"),
        (["act", "nobody", "hug", "e1", "--run", "r"], 10, "click REF"),
        (["act", "nobody", "click", "--run", "r"], 10, "click REF"),
        (["act", "nobody", "click", "e 1", "--run", "r"], 10, "invalid_request"),
        (["act", "nobody", "click", "e1", "--run", "r", "--commit"], 10, "--step"),
        (["act", "nobody", "click", "e1", "--run", "r", "--match", "none"], 10, "--match"),
        (["profile", "create", "p", "--origin", "ftp://x"], 10, "invalid_request"),
        (["profile", "create", "p"], 2, "--origin"),
        (["acquire", "p"], 2, "--run"),
        (["observe", "p", "--run", "r", "--timeout", "0"], 2, "--timeout"),
    ],
)
def test_what_cannot_be_done_is_said_in_a_line(town: Place, words: list[str], code: int, said: str) -> None:
    """On stderr, with the class's exit code, and nothing on stdout."""
    done = town.call(*words)
    assert (done.code, done.out) == (code, ""), done.err
    assert said in done.err
    if code != 2:
        assert done.err.count("\n") == 1


def test_a_page_cannot_command_the_terminal(person: Person) -> None:
    """What it says is shown without control characters."""
    person.web.pages["/shop"] = "<title>a\x1b]0;b</title>text \x1b[31mred\x9b2J"
    person.told("acquire")
    person.told("navigate", f"{person.web.origin}/shop")
    shown = person.does("observe").out
    assert "red" in shown
    assert not {"\x1b", "\x9b"} & set(shown)


def test_a_call_is_bounded_by_its_timeout(person: Person) -> None:
    """A page that does not answer."""
    person.web.release.clear()
    person.told("acquire")
    done = person.does("navigate", f"{person.web.origin}/hold", "--timeout", "1.5")
    person.web.release.set()
    assert done.code == 18, done.err
    assert done.seconds < 3


def test_a_second_command_for_the_run_is_refused_while_one_works(person: Person) -> None:
    """Neither waits unseen nor disturbs the first."""
    person.web.release.clear()
    person.told("acquire")
    with person.town.started("navigate", person.profile, f"{person.web.origin}/hold", "--run", person.run) as first:
        until(lambda: "/hold" in person.web.paths())
        second = person.does("observe")
        person.web.release.set()
        assert first.ended(5) == 0
    assert (second.code, "pending" in second.err) == (12, True)


def test_a_broker_that_hangs_costs_no_more_than_the_timeout(place: Place) -> None:
    """Stopped, not dead: nothing answers, and the call ends all the same."""
    with place.started("up") as up:
        up.line()
        broker: psutil.Process = up.child("nats-server")
        os.kill(broker.pid, signal.SIGSTOP)
        try:
            done = place.run("status", "--timeout", "1", "--json")
        finally:
            os.kill(broker.pid, signal.SIGCONT)
    assert done.code == 16
    assert done.json["error"]["retryable"] is True
    assert done.seconds < 4, "with what it takes to start Python"


def test_no_broker_and_no_host_are_told_apart(place: Place) -> None:
    never = place.run("status")
    assert (never.code, "lessor up" in never.err) == (21, True)
    with place.started("up") as up:
        up.line()
    gone = place.run("status", "--timeout", "1")
    assert gone.code == 16
