"""`lessor login`: a person at a display signs in; without one it says how to import (contract 28)."""

import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass

import psutil
import pytest

from tests.cli.programs import LESSOR, WAIT_S, Place, until
from tests.support.broker import fresh
from tests.support.web import Web

NEEDED = ("Xvfb", "xdotool")


@pytest.fixture(autouse=True)
def person() -> None:
    """Somebody sits at a screen here, so there must be one: `make test` sees to it as root."""
    missing = [name for name in NEEDED if shutil.which(name) is None]
    if missing:
        pytest.fail(f"Install {' and '.join(missing)} (Debian: xvfb, xdotool): these tests sign in by hand.")


ACCOUNT = """<title>account</title>
<body style="margin:0"><script>
if (document.cookie.includes('session=')) document.body.append('Sign out');
else {
    const button = document.createElement('button');
    button.style = 'position:fixed;inset:0;width:100%;height:100%';
    button.textContent = 'Sign in';
    button.onclick = () => {
        document.cookie = 'session=by-hand; path=/';
        fetch('/signed-in').then(() => location.reload());
    };
    document.body.append(button);
}
fetch('/shown');
</script>"""


@contextmanager
def display() -> Generator[str]:
    """An X server of its own; it chooses the number."""
    read, write = os.pipe()
    with subprocess.Popen(
        ["Xvfb", "-displayfd", str(write), "-screen", "0", "1000x800x24", "-nolisten", "tcp"],
        pass_fds=(write,),
        stderr=subprocess.DEVNULL,
    ) as server:
        os.close(write)
        try:
            with os.fdopen(read) as said:
                yield f":{said.readline().strip()}"
        finally:
            server.terminate()
            server.wait(5)


@dataclass
class Person:
    """Somebody who runs `lessor login` in a terminal and looks at the window."""

    login: "subprocess.Popen[str]"
    screen: str
    live: str

    @property
    def windows(self) -> list[int]:
        """Processes of the browser that was opened for this login."""
        found = psutil.process_iter(["cmdline"])
        return [process.pid for process in found if self.live in " ".join(process.info["cmdline"] or ())]

    def clicks(self) -> bool:
        """Into the middle; whether that did anything is to be seen at the site."""
        subprocess.run(
            ["xdotool", "mousemove", "500", "500", "click", "1"],
            env={**os.environ, "DISPLAY": self.screen},
            check=True,
            timeout=WAIT_S,
        )
        return False

    def presses_enter(self) -> None:
        assert self.login.stdin is not None
        self.login.stdin.write("\n")
        self.login.stdin.flush()

    def reads(self, words: str) -> None:
        """Wait until the terminal says that."""
        assert self.login.stderr is not None
        said = ""
        while words not in said:
            line = self.login.stderr.readline()
            assert line, f"{words!r} was not said: {said}"
            said += line


@contextmanager
def logging_in(town: Place, profile: str) -> Generator[Person]:
    with display() as screen, tempfile.TemporaryDirectory(prefix="l-") as live:
        environment = town.environment(DISPLAY=screen, LESSOR_LIVE_DIR=live)
        with subprocess.Popen(
            [*LESSOR, "login", profile, "--json"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
        ) as login:
            try:
                yield Person(login, screen, live)
            finally:
                if login.poll() is None:
                    login.send_signal(signal.SIGINT)
                    login.wait(WAIT_S)


@pytest.fixture
def profile(town: Place, web: Web) -> str:
    name = fresh("id")
    web.pages.update({"/account": ACCOUNT, "/signed-in": "", "/shown": ""})
    web.log.clear()
    done = town.call(
        *("profile", "create", name, "--origin", web.origin),
        *("--health-url", f"{web.origin}/account", "--health-text", "Sign out"),
    )
    assert done.code == 0, done.err
    return name


def test_a_person_signs_in_and_the_next_lease_is_logged_in(town: Place, web: Web, profile: str) -> None:
    with logging_in(town, profile) as person:
        person.reads("press Enter")
        refused = town.call("acquire", profile, "--run", fresh("run"), "--json", "--wait-s", "0")
        assert refused.json["error"]["code"] == "ceremony_open"
        person.presses_enter()
        person.reads("health check failed")  # not signed in yet: the ceremony goes on
        until(lambda: "/shown" in web.paths())
        until(lambda: "/signed-in" in web.paths() or person.clicks())
        person.presses_enter()
        out, err = person.login.communicate(timeout=WAIT_S)
        assert person.login.returncode == 0, err
        assert person.windows == []
    assert '"generation":1' in out
    assert "by-hand" not in out + err
    run = ("--run", fresh("run"))
    assert town.call("acquire", profile, *run).code == 0
    assert town.call("navigate", profile, f"{web.origin}/account", *run).code == 0
    assert "Sign out" in town.call("observe", profile, *run).out
    town.call("close", profile, *run, "--discard")


def test_a_login_that_is_broken_off_frees_the_profile_and_seals_nothing(town: Place, profile: str) -> None:
    with logging_in(town, profile) as person:
        person.reads("press Enter")
        second = town.run("login", profile, "--json", DISPLAY=person.screen)
        assert second.json["error"]["code"] == "ceremony_open", "one ceremony at a time"
        person.login.send_signal(signal.SIGINT)
        assert person.login.wait(WAIT_S) == 130
        assert person.windows == []
    assert town.call("profile", "generations", profile, "--json").json["generations"] == []
    run = ("--run", fresh("run"))
    assert town.call("acquire", profile, *run).code == 0
    town.call("close", profile, *run, "--discard")


def test_without_a_display_it_says_how_to_import(town: Place, profile: str) -> None:
    done = town.run("login", profile, DISPLAY="", WAYLAND_DISPLAY="")
    assert done.code == 19
    assert f"lessor profile import {profile}" in done.err
