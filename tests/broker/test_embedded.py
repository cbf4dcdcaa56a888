"""The embedded broker: private, found again, never twice, never without its program."""

import os
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from lessor.broker.credentials import Credentials, read
from lessor.broker.data_directory import Config, DataDirectory
from lessor.broker.embedded import Embedded, Endpoint, endpoint_of, find_server, syncs_always
from lessor.errors import Code, Problem
from tests.support.broker import configured_server

PROGRAM = """
import pathlib, sys, time
from lessor.broker.embedded import Embedded
broker = Embedded(pathlib.Path(sys.argv[1]))
assert not hasattr(broker.start(), "code")
print(broker.pid, flush=True)
time.sleep(60)
"""


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "data"


@pytest.fixture
def broker(directory: Path) -> Iterator[Embedded]:
    embedded = Embedded(directory)
    yield embedded
    embedded.stop()


def started(embedded: Embedded) -> Endpoint:
    told = embedded.start()
    assert isinstance(told, Endpoint), told
    return told


def refused(embedded: Embedded) -> str:
    told = embedded.start()
    assert isinstance(told, Problem), told
    assert told.code is Code.SETUP_FAILED
    return told.message


def test_every_write_is_synced_and_nothing_is_open_to_others(broker: Embedded, directory: Path) -> None:
    endpoint = started(broker)

    assert syncs_always(endpoint.monitoring) is True
    assert syncs_always(endpoint.monitoring.partition("/")[0]) is None
    assert (directory.stat().st_mode & 0o777, (directory / "broker.json").stat().st_mode & 0o777) == (
        0o700,
        0o600,
    )
    seeds = [directory / "host.nk", directory / "users" / "local.me.nk"]
    assert [file.stat().st_mode & 0o777 for file in seeds] == [0o600, 0o600]
    for file in seeds:
        kept = read(file)
        assert isinstance(kept, Credentials)
        assert kept.seed not in (directory / "broker.json").read_text()
        assert kept.seed not in repr(kept)


def test_port_and_users_are_kept(broker: Embedded, directory: Path) -> None:
    first, users = started(broker), DataDirectory(directory).read()
    broker.stop()
    again = Embedded(directory)
    second = started(again)
    again.stop()

    assert users == DataDirectory(directory).read()
    assert first == second == endpoint_of(directory)


def test_stopping_twice_is_stopping_once(broker: Embedded) -> None:
    started(broker)
    broker.stop()
    broker.stop()
    assert broker.exited.is_set()


def test_f13_a_second_one_refuses_and_names_the_first(broker: Embedded, directory: Path) -> None:
    started(broker)
    assert f"process {os.getpid()}" in refused(Embedded(directory))


def test_a_directory_of_something_else_is_left_alone(directory: Path) -> None:
    directory.mkdir()
    (directory / "thesis.txt").write_text("mine")

    assert "something else" in refused(Embedded(directory))
    assert [entry.name for entry in directory.iterdir()] == ["thesis.txt"]


def test_a_file_in_its_place_is_refused(directory: Path) -> None:
    directory.write_text("")
    assert "not a directory" in refused(Embedded(directory))


def test_a_directory_that_cannot_be_written_is_refused() -> None:
    assert "cannot be written" in refused(Embedded(Path("/sys/lessor")))


def test_a_spoilt_configuration_is_refused(broker: Embedded, directory: Path) -> None:
    started(broker)
    broker.stop()
    (directory / "broker.json").write_text("{")
    assert "broker.json is not what lessor wrote" in refused(Embedded(directory))


def test_a_taken_port_is_named(broker: Embedded, directory: Path) -> None:
    started(broker)
    broker.stop()
    config = DataDirectory(directory).read()
    assert isinstance(config, Config)
    host, port = config.addresses()[0]
    with socket.create_server((host, port)):
        assert f":{port}" in refused(Embedded(directory))


def test_a_directory_without_a_broker_says_so(directory: Path) -> None:
    told = endpoint_of(directory)
    assert isinstance(told, Problem)
    assert "lessor up" in told.message


def test_it_outlives_the_thread_that_started_it(broker: Embedded) -> None:
    thread = threading.Thread(target=started, args=(broker,))
    thread.start()
    thread.join()
    assert not broker.exited.wait(0.1)


def test_f01_no_broker_outlives_its_program(directory: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(directory)],
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": "."},
    ) as program:
        assert program.stdout
        server = os.pidfd_open(int(program.stdout.readline()))
        program.send_signal(signal.SIGKILL)
        assert select.select([server], [], [], 2.0)[0], "nats-server is still there"
        os.close(server)
    successor = Embedded(directory)
    started(successor)
    successor.stop()


def test_a_server_that_does_not_sync_is_seen(tmp_path: Path) -> None:
    with configured_server(tmp_path, {"jetstream": {"store_dir": str(tmp_path / "store")}}) as server:
        assert syncs_always(server.monitoring) is False


def test_the_server_is_the_packages_own() -> None:
    found = find_server()
    assert found is not None
    assert os.access(found, os.X_OK)
