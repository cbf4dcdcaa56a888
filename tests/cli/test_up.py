"""`lessor up`: ready soon, one per directory, ends when told, and leaves nothing behind however it ends."""

import json
import os
import signal
import time

import pytest

from lessor.broker.credentials import Credentials, read
from tests.cli.programs import Foreground, Place, until
from tests.support.web import Web

READY_S_MAX = 2.0
END_S_MAX = 5.0
ORPHAN_S_MAX = 2.0


def test_up_is_ready_soon_and_says_in_one_line_how_to_connect(place: Place) -> None:
    """Seeds stay in their files: no output and no command line holds it."""
    began_s = time.monotonic()
    with place.started("up") as up:
        line = up.line()
        assert time.monotonic() - began_s < READY_S_MAX
        config = json.loads((place.data_dir / "broker" / "broker.json").read_text())
        kept = [read(place.data_dir / "broker" / file) for file in ("host.nk", "users/local.me.nk")]
        seeds = [one.seed for one in kept if isinstance(one, Credentials)]
        assert len(seeds) == 2
        assert line == f"lessor is ready: LESSOR_DATA_DIR={place.data_dir} | nats://{config['listen']}"
        words = [word for one in place.processes() for word in (*one.cmdline(), *one.environ().values())]
        assert not any(seed in word for seed in seeds for word in (*words, place.said()))
        assert place.run("status").code == 0
    assert "made the first key" in place.said()


def test_ready_as_json_is_one_object(place: Place) -> None:
    """Programs get the same facts by name."""
    with place.started("up", "--json") as up:
        told = json.loads(up.line())
        assert told["ready"] is True
        assert told["pid"] == up.pid
        assert told["broker"].startswith("nats://127.0.0.1:")


def test_second_up_refuses_and_names_the_first(up: Foreground, place: Place) -> None:
    """And the first is not disturbed."""
    second = place.run("up")
    assert second.code == 21
    assert second.out == ""
    assert f"process {up.pid}" in second.err
    assert place.run("status").code == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_up_at_rest_ends_when_told(up: Foreground, place: Place, number: signal.Signals) -> None:
    """In 5 s, with exit code 0, and all of it."""
    up.process.send_signal(number)
    assert up.ended(END_S_MAX) == 0
    assert place.processes() == []


def test_ctrl_c_reaches_the_whole_terminal_and_still_ends_in_order(up: Foreground, place: Place) -> None:
    """A terminal signals the process group: the host is in another, and drains before the broker goes."""
    os.killpg(up.pid, signal.SIGINT)
    assert up.ended(END_S_MAX) == 0
    assert place.processes() == []
    assert "level=error" not in place.said()


@pytest.mark.parametrize("who", ["up", "host", "nats-server"])
def test_f01_at_rest_no_sigkill_leaves_an_orphan(up: Foreground, place: Place, who: str) -> None:
    """Killed `up` takes both along; what is killed below it comes back, alone."""
    host, broker = up.child(" host "), up.child("nats-server")
    victim = {"up": up.pid, "host": host.pid, "nats-server": broker.pid}[who]
    os.kill(victim, signal.SIGKILL)
    if who == "up":
        up.ended(1)
        until(lambda: place.processes() == [], ORPHAN_S_MAX)
        return
    word = " host " if who == "host" else "nats-server"
    until(lambda: place.said().count("is back") > 0)
    assert up.child(word).pid != victim
    assert [host, broker][who == "host"].is_running()
    until(lambda: place.run("status").code == 0)
    assert len(place.processes()) == 3


def test_a_host_that_dies_gives_the_page_back(up: Foreground, place: Place, web: Web) -> None:
    """The broker stays, and the next call goes on with the same page under the same lease (contract 15)."""
    web.pages["/kept"] = "<title>kept</title><input aria-label=Name>"
    place.run("profile", "create", "shop", "--origin", web.origin)
    before = place.run("acquire", "shop", "--run", "r", "--json").json
    place.run("navigate", "shop", f"{web.origin}/kept", "--run", "r")
    page = place.run("observe", "shop", "--run", "r", "--json").json
    typed = place.run("act", "shop", "type", page["elements"][0]["ref"], "mine", "--run", "r")
    assert typed.code == 0, typed.err
    os.kill(up.child(" host ").pid, signal.SIGKILL)
    until(lambda: "the host is back" in place.said())
    again = place.run("observe", "shop", "--run", "r", "--json")
    assert again.json["elements"][0]["value"] == "mine", again.err
    after = place.run("acquire", "shop", "--run", "r", "--json").json
    assert (after["lease"], after["next_sequence"], after["reattached"]) == (before["lease"], 2, True)


def test_what_is_in_flight_is_waited_for_and_a_second_signal_is_not(place: Place) -> None:
    """One line says what is waited for; told again, `up` ends at once, and its broker and host with it."""
    with place.started("tests.cli.slow_up") as up:
        assert up.line().startswith("lessor is ready")
        up.process.send_signal(signal.SIGTERM)
        until(lambda: "settling and sealing" in place.said(), END_S_MAX)
        assert up.process.poll() is None
        up.process.send_signal(signal.SIGTERM)
        assert up.ended(1.5) == 0
    assert place.said().count("settling and sealing") == 1
    assert place.processes() == []


def test_a_host_that_never_starts_ends_up_after_a_bounded_number_of_tries(place: Place) -> None:
    """At first its own words are the answer; later, when it keeps dying, `up` gives up and says so."""
    with place.started("tests.cli.slow_up", "dies") as up:
        assert up.line().startswith("lessor is ready")
        assert up.ended(15) == 21
    assert place.said().count("the host ended; starting it again") == 6
    assert "ended too often" in place.said()
    assert place.processes() == []
