"""What the command line says of itself, and what it does not load to say it."""

import re
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from lessor.cli.answer import plain
from lessor.cli.main import EXIT_CODES
from lessor.cli.restarts import RESTARTS_MAX, Restarts
from lessor.cli.words import How, action
from lessor.errors import Code, Exit, Problem, problem
from lessor.messages.action import Check, Press, Scroll, Select, Type
from tests.cli.programs import Place

DOCS = Path(__file__).parents[2] / "docs" / "cli.md"


def test_help_and_docs_name_every_exit_code() -> None:
    """One per error class, the same in both places."""
    wanted = {0, 1, 2, 130, *(int(code) for code in Exit)}
    assert {int(code) for code in re.findall(r"^ *(\d+) ", EXIT_CODES, re.MULTILINE)} == wanted
    assert {int(code) for code in re.findall(r"^\| (\d+) \|", DOCS.read_text(), re.MULTILINE)} == wanted


def test_docs_name_every_command(place: Place) -> None:
    """And --help lists them."""
    listed = re.findall(r"^  ([a-z]+) +\S", place.run("--help").out.partition("Commands:")[2], re.MULTILINE)
    assert len(listed) > 10
    assert [name for name in listed if f"`lessor {name}" not in DOCS.read_text()] == []


@pytest.mark.parametrize(
    ("words", "heavy"),
    [
        (["--help"], ["playwright", "cryptography", "nats", "pykka"]),
        (["act", "--help"], ["playwright", "cryptography", "nats", "pykka"]),
        (["status", "--timeout", "0.1"], ["playwright", "cryptography"]),
    ],
)
def test_commands_load_only_what_they_need(place: Place, words: list[str], heavy: list[str]) -> None:
    """`--help` needs no broker and no actors, workers need no browser and no cryptography."""
    script = (
        "import sys\nfrom lessor.cli.main import app\n"
        "try:\n    app(sys.argv[1].split())\nexcept SystemExit:\n    pass\n"
        "print([name for name in sys.argv[2].split() if name in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, " ".join(words), " ".join(heavy)],
        capture_output=True,
        text=True,
        timeout=20,
        check=False,
        env=place.environment(),
    )
    assert done.stderr.splitlines()[-1] == "[]", done.stderr


def test_actions_in_words() -> None:
    assert action(["type", "e1", "two words"], How()) == Type(ref="e1", text="two words")
    assert action(["select", "e1", "a", "b"], How()) == Select(ref="e1", options=("a", "b"))
    assert action(["check", "e1"], How(off=True)) == Check(ref="e1", on=False)
    assert action(["press", "Enter"], How(ref="e1")) == Press(key="Enter", ref="e1")
    assert action(["scroll"], How(by_px=-200)) == Scroll(by_px=-200)
    refused = action(["press", "x" * 41], How())
    assert isinstance(refused, Problem)
    assert refused.code is Code.INVALID_REQUEST


def test_an_error_record_always_says_effect_and_retryable() -> None:
    """Also where they have their defaults."""
    assert msgspec.to_builtins(problem(Code.PROFILE_BUSY, "wait", position=2)) == {
        "code": "profile_busy",
        "message": "wait",
        "effect": "none",
        "retryable": True,
        "position": 2,
    }


def test_plain_keeps_lines_and_drops_commands() -> None:
    assert plain("a\tb\nc") == "a\tb\nc"
    assert plain("\x1b[2J\r\x9b\u202e") == "\ufffd[2J\ufffd\ufffd\ufffd"


def test_restarts_are_bounded_and_pause_longer_each_time() -> None:
    restarts = Restarts()
    assert [restarts.pause_s(0.0) for _ in range(RESTARTS_MAX + 1)] == [0.1, 0.2, 0.4, 0.8, 1.6, None]
    assert restarts.pause_s(61.0) == pytest.approx(0.1)
