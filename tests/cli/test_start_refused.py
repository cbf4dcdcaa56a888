"""Starts that cannot succeed: one clear line, the class's exit code, nothing half-started, nothing lost."""

import contextlib
import json
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from lessor.broker.embedded import Endpoint
from tests.cli.programs import Done, Place
from tests.support.broker import endpoint

__all__ = ["endpoint"]


def refused(done: Done, place: Place) -> str:
    """The one line that a refused start says."""
    assert done.code == 21, done.err
    assert done.out == ""
    assert place.processes() == []
    (line,) = [one for one in done.err.splitlines() if one.startswith("lessor: ")]
    return line


def test_a_foreign_directory_is_left_alone(place: Place) -> None:
    (place.data_dir / "broker").mkdir(parents=True)
    (place.data_dir / "broker" / "novel.txt").write_text("chapter one")
    assert "choose a new or empty directory" in refused(place.run("up"), place)
    assert [path.name for path in (place.data_dir / "broker").iterdir()] == ["novel.txt"]


def test_a_path_that_is_no_directory(place: Place) -> None:
    place.data_dir.write_text("a file")
    assert "choose another path" in refused(place.run("up"), place)
    assert place.data_dir.read_text() == "a file"


def test_a_port_that_is_taken(place: Place) -> None:
    """The broker keeps its port, so that workers find it again: the line names it, and nothing is changed."""
    with place.started("up") as up:
        up.line()
    config = place.data_dir / "broker" / "broker.json"
    listen = json.loads(config.read_text())["listen"]
    host, port = listen.split(":")
    with socket.create_server((host, int(port))):
        assert f"{listen}, this broker's port" in refused(place.run("up"), place)
    assert json.loads(config.read_text())["listen"] == listen
    with place.started("up") as up:
        assert up.line().endswith(listen)


@pytest.fixture
def full(tmp_path: Path) -> Iterator[Path]:
    """A file system of 64 KiB without any room."""
    mount = tmp_path / "full"
    mount.mkdir()
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(mount)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"This test mounts a tmpfs and needs root for it: {done.stderr}"
    try:
        with (mount / "filler").open("wb", buffering=0) as file, contextlib.suppress(OSError):
            while True:
                file.write(b"x" * 4096)
        yield mount
    finally:
        subprocess.run(["umount", str(mount)], check=True)


def test_a_full_disk(full: Path, place: Place) -> None:
    """Refused while it is full; with room again the same directory serves."""
    crowded = Place(full / "data")
    crowded.log = place.log
    assert "no space left" in refused(crowded.run("up"), crowded)


@pytest.fixture
def read_only(tmp_path: Path) -> Iterator[Path]:
    mount = tmp_path / "ro"
    mount.mkdir()
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "ro", "tmpfs", str(mount)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"This test mounts a tmpfs and needs root for it: {done.stderr}"
    yield mount
    subprocess.run(["umount", str(mount)], check=True)


def test_a_read_only_directory(read_only: Path, place: Place) -> None:
    crowded = Place(read_only / "data")
    crowded.log = place.log
    assert "it cannot be written" in refused(crowded.run("up"), crowded)


def test_a_host_without_a_broker(place: Place) -> None:
    assert "run `lessor up`" in refused(place.run("host"), place)


def test_up_on_a_named_broker_that_is_away(place: Place) -> None:
    """What the host says is `up`'s answer, record and all; secrets of the address are not."""
    done = place.run("up", "--json", "--nats", "nats://user:secret@127.0.0.1:1")
    assert done.code == 16
    assert done.json["error"]["code"] == "broker_unavailable"
    assert "secret" not in done.out + done.err
    assert place.processes() == []


def test_a_host_serves_on_a_broker_that_others_run(place: Place, endpoint: Endpoint) -> None:
    """`up --nats` starts only a host there; it ends without the broker."""
    entered = {"LESSOR_CREDENTIALS": str(endpoint.credentials)}
    with place.started("up", "--nats", endpoint.url, LESSOR_HOST="cli-guest", **entered) as up:
        assert up.line() == f"lessor is ready: LESSOR_DATA_DIR={place.data_dir} | {endpoint.url}"
        told = place.run("status", "--json", LESSOR_URL=endpoint.url, **entered)
        assert "cli-guest" in told.json["hosts"], told.err
    assert place.processes() == []
