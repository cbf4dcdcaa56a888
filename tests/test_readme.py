"""The README shows what there is."""

import re
from pathlib import Path

from lessor.cli.demo.main import KEPT

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()


def test_its_first_example_is_the_one_that_is_tested() -> None:
    blocks: list[str] = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    assert blocks[0] in (ROOT / "examples" / "hello.py").read_text()


def test_its_links_lead_somewhere() -> None:
    links: list[str] = re.findall(r"\]\(([^)#]+)\)", README)
    assert "docs/timeline.svg" in links
    assert [link for link in links if not (ROOT / link).exists()] == []


def test_its_variables_are_those_that_are_read() -> None:
    told = set(re.findall(r"`(LESSOR_[A-Z_]+)", README)) - {"LESSOR_LIMIT_", "LESSOR_LIMIT_WARM_MAX"}
    folders = ("lessor", "actors", "broker", "browser", "cli")
    code = "".join(path.read_text() for folder in folders for path in (ROOT / folder).rglob("*.py"))
    assert [name for name in sorted(told) if f'"{name}"' not in code] == []
    assert set(KEPT) <= told
