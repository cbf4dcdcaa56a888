"""`lessor demo` counts what happened, and nothing else: from the site's log, the journal and the process table."""

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from lessor.cli.demo.figures import read
from lessor.cli.demo.plan import INVOICES_MAX, Fault, plan
from lessor.cli.demo.processes import MARK
from lessor.cli.demo.site_log import LOGINS_FILE, SUBMISSIONS_FILE

END_S_MAX = 5.0
"""A Ctrl-C is obeyed within this."""


@pytest.fixture
def places(tmp_path: Path) -> Iterator[dict[str, str]]:
    """An environment whose temporary directory is the test's own. Afterwards nothing of a demo is left there."""
    with tempfile.TemporaryDirectory(prefix="d-") as short:
        yield {**os.environ, "TMPDIR": short}
        assert list(Path(short).iterdir()) == []


def demo(places: dict[str, str], *arguments: str) -> tuple[int, dict[str, object], str]:
    """Exit code, figures and timeline of one demo."""
    command = [sys.executable, "-m", "lessor", "demo", "--json", *arguments]
    ended = subprocess.run(command, env=places, capture_output=True, text=True, timeout=50, check=False)
    assert ended.stdout.count("\n") == 1, ended.stderr
    return ended.returncode, dict(json.loads(ended.stdout)), ended.stderr


def test_s03_workers_and_browser_die_after_the_click_and_nothing_is_sent_twice(places: dict[str, str]) -> None:
    code, figures, timeline = demo(places)
    seconds = figures.pop("seconds")
    assert figures == {
        "steps": 2,
        "site_submissions": 2,
        "duplicates": 0,
        "recorded_after_worker_death": 1,
        "unknown_reconciled": 1,
        "reattached": True,
        "logged_in_from_seal": True,
        "orphans": 0,
    }
    assert code == 0
    assert isinstance(seconds, float)
    assert seconds < 20
    assert "2 invoices wanted, 2 at the site, none twice." in timeline


def test_s15_a_seed_draws_other_kills_and_the_figures_follow(places: dict[str, str]) -> None:
    """One worker dies before its click; one submission is lost with its browser, proved so, and sent again."""
    drawn = [invoice.fault for invoice in plan(2, seed=20)]
    assert drawn == [Fault.BROWSER_LOST, Fault.WORKER_BEFORE_CLICK]

    code, figures, timeline = demo(places, "--seed", "20")
    counted = {name: figures[name] for name in ("steps", "site_submissions", "duplicates", "unknown_reconciled")}
    assert counted == {"steps": 2, "site_submissions": 2, "duplicates": 0, "unknown_reconciled": 1}
    assert (figures["recorded_after_worker_death"], figures["reattached"]) == (0, True)
    assert "settled as not_sent" in timeline
    assert code == 0


def test_a_site_that_drops_its_answers_is_looked_up(places: dict[str, str]) -> None:
    code, figures, timeline = demo(places, "--seed", "2", "--site", "drop")
    assert (figures["site_submissions"], figures["duplicates"], figures["reattached"]) == (2, 0, False)
    assert timeline.count("by its request key: it is there") == 2
    assert code == 0


def test_workers_that_ask_nobody_send_twice_and_the_demo_says_so(places: dict[str, str]) -> None:
    code, figures, timeline = demo(places, "--naive")
    assert (figures["site_submissions"], figures["duplicates"]) == (4, 2)
    assert (figures["steps"], figures["recorded_after_worker_death"], figures["unknown_reconciled"]) == (0, 0, 0)
    assert "2 were sent twice" in timeline
    assert code == 1


@pytest.mark.parametrize("moment", ["serves", "at its gate"])
def test_a_ctrl_c_ends_it_soon_and_leaves_nothing(places: dict[str, str], moment: str) -> None:
    command = [sys.executable, "-m", "lessor", "demo"]
    with subprocess.Popen(command, env=places, stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        assert any(moment in line for line in running.stdout)
        running.send_signal(signal.SIGINT)
        assert running.wait(END_S_MAX) == 130
    assert [process for process in psutil.process_iter() if _is_of(process, places["TMPDIR"])] == []


def _is_of(process: psutil.Process, directory: str) -> bool:
    try:
        return process.environ().get(MARK, "").startswith(directory)
    except psutil.Error:
        return False


def test_duplicates_are_counted_at_the_site(tmp_path: Path) -> None:
    twice = {"request_key": "k1", "session": "s"}
    (tmp_path / SUBMISSIONS_FILE).write_text(f"{json.dumps(twice)}\n" * 2)
    (tmp_path / LOGINS_FILE).write_text("")

    figures = read(tmp_path, entries=(), orphans=3, seconds=1.26)
    assert (figures.site_submissions, figures.duplicates, figures.steps) == (2, 1, 0)
    assert (figures.reattached, figures.logged_in_from_seal) == (False, False)
    assert (figures.orphans, figures.seconds) == (3, 1.3)


def test_a_seed_draws_the_same_plan_and_every_fault_can_come() -> None:
    assert plan(5, seed=7) == plan(5, seed=7)
    assert plan(5, seed=7) != plan(5, seed=8)
    assert {invoice.fault for seed in range(5) for invoice in plan(INVOICES_MAX, seed)} == set(Fault)
    assert len({invoice.request_key for invoice in plan(INVOICES_MAX, None)}) == INVOICES_MAX
