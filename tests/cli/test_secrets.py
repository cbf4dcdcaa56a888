"""`lessor secret`: values go in by stdin and never come out."""

import json
import stat
import subprocess

from tests.cli.programs import LESSOR, Place


def test_a_secret_is_stored_private_listed_by_name_and_removed(place: Place) -> None:
    stored = subprocess.run(
        [*LESSOR, "secret", "set", "shop-password"],
        input="hunter2\n",
        text=True,
        capture_output=True,
        check=True,
        timeout=20,
        env=place.environment(),
    )
    assert "hunter2" not in stored.stdout + stored.stderr
    listed = place.run("secret", "list", "--json")
    assert json.loads(listed.out) == {"secrets": ["shop-password"]}
    (file,) = place.data_dir.glob("secrets/*/shop-password")
    assert (stat.S_IMODE(file.stat().st_mode), file.read_text()) == (0o600, "hunter2")
    assert place.run("secret", "remove", "shop-password").code == 0
    gone = place.run("secret", "remove", "shop-password")
    assert (gone.code, gone.err.count("\n")) == (20, 1)


def test_a_secret_with_a_bad_name_or_no_value_is_refused(place: Place) -> None:
    assert place.run("secret", "set", "../up").code == 10
    empty = subprocess.run(
        [*LESSOR, "secret", "set", "empty"],
        input="",
        text=True,
        capture_output=True,
        check=False,
        timeout=20,
        env=place.environment(),
    )
    assert (empty.returncode, empty.stdout) == (10, "")
