"""Roles and names are those of the browser's own accessibility tree (docs/names.md lists where they differ)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lessor.browser.session import LiveSession
from lessor.messages.action import Element
from tests.support.engines import go, soon
from tests.support.named import snippets
from tests.support.web import Web

pytestmark = pytest.mark.asyncio(loop_scope="session")

AGREE_MIN = 0.98
PAGE_SNIPPETS = 60
ROLES = {
    "ColorWell": "color",
    "Date": "date",
    "DateTime": "datetime",
    "InputTime": "time",
    "DisclosureTriangle": "button",
    "DisclosureTriangleGrouped": "button",
}
"""Chromium's own words for what has no ARIA role, in ours."""


def _agrees(element: Element, role: str, name: str) -> bool:
    return (element.role, element.name) == (role, " ".join(name.split()))


async def _compared(session: LiveSession, web: Web) -> list[tuple[Element, str, str]]:
    found: list[tuple[Element, str, str]] = []
    all_ = snippets()
    for at in range(0, len(all_), PAGE_SNIPPETS):
        web.pages["/named"] = "<!doctype html>" + "".join(
            f"<div>{each}</div>" for each in all_[at : at + PAGE_SNIPPETS]
        )
        page = await go(session, f"{web.origin}/named")
        assert not page.truncated
        tree: Any = await session.main.call("Accessibility.getFullAXTree", soon())
        nodes = {node.get("backendDOMNodeId"): node for node in tree["nodes"] if not node.get("ignored")}
        for element in page.elements:
            node = nodes.get(int(element.ref[1:].split(".")[0]))
            if node is not None:
                role = str(node["role"]["value"])
                found.append((element, ROLES.get(role, role), str(node.get("name", {}).get("value", ""))))
    return found


async def test_roles_and_names_are_the_accessibility_trees(session: LiveSession, web: Web) -> None:
    compared = await _compared(session, web)
    assert len(compared) >= 150
    different = [(element.role, element.name, role, name) for element, role, name in compared
                 if not _agrees(element, role, name)]  # fmt: skip
    agreement = 1 - len(different) / len(compared)
    print(f"{len(compared)} elements, agreement {agreement:.3f}", *different, sep="\n")  # noqa: T201
    assert agreement >= AGREE_MIN, different
    listed = Path(__file__).parents[2].joinpath("docs", "names.md").read_text("utf-8")
    for role, name, theirs, _ in different:
        assert f"| {role} {name} | {theirs}" in listed
