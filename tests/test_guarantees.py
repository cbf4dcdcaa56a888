"""The guarantees page promises only what tests hold."""

import re
from pathlib import Path

import pytest

from lessor import points

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "guarantees.md").read_text()
LINKS: list[tuple[str, str]] = re.findall(r"\[([^\]]+)\]\(\.\./([^)]+)\)", PAGE)


@pytest.mark.parametrize(("names", "path"), LINKS)
def test_every_row_leads_to_its_test(names: str, path: str) -> None:
    text = (ROOT / path).read_text()
    for name in re.findall(r"test_s\d\d", names):
        assert re.search(rf"def ({name}_|test_s01_to_s04_)", text), (name, path)


def test_every_row_of_the_tables_has_a_test() -> None:
    rows = [line for line in PAGE.splitlines() if line.startswith("| ") and not line.startswith("| what happens")]
    assert [row for row in rows if "](../tests/" not in row and row != "| | test |"] == []


def test_every_point_of_a_host_is_in_a_row() -> None:
    told = set(re.findall(r"`([a-z]+\.[a-z*]+)`", PAGE))
    assert [point for point in points.HOST if point not in told and f"{point.split('.')[0]}.*" not in told] == []
