"""Places to run the command line in."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.programs import Foreground, Place
from tests.support.web import Web


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path / "data")


@pytest.fixture(scope="module")
def town() -> Iterator[Place]:
    """A place where `lessor up` runs for the whole module."""
    with tempfile.TemporaryDirectory(prefix="lessor-cli-") as directory:
        place = Place(Path(directory, "data"))
        with place.started("up") as up:
            assert up.line().startswith("lessor is ready")
            yield place


@pytest.fixture(scope="module")
def web() -> Iterator[Web]:
    with Web() as web:
        yield web


@pytest.fixture
def up(place: Place) -> Iterator[Foreground]:
    """`lessor up`, ready."""
    with place.started("up") as up:
        assert up.line().startswith("lessor is ready")
        yield up
