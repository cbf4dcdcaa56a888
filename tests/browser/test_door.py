"""Whatever may never return is reached through the one bounded door (contract, Use; invariant of issue "Browser
operations that always come back")."""

from __future__ import annotations

import ast
import inspect
from pathlib import Path

import pytest
from playwright import async_api

import lessor.browser

FILES = sorted(Path(inspect.getfile(lessor.browser)).parent.glob("*.py"))
SELF_BOUNDED = {"door.py", "cdp.py", "driver.py"}
"""The door itself, the session that puts nothing but commands into it, and the driver's own start and end."""
KINDS = (
    async_api.Browser,
    async_api.BrowserContext,
    async_api.BrowserType,
    async_api.CDPSession,
    async_api.Dialog,
    async_api.Download,
    async_api.FileChooser,
    async_api.Frame,
    async_api.Keyboard,
    async_api.Locator,
    async_api.Mouse,
    async_api.Page,
    async_api.Request,
    async_api.Response,
    async_api.Route,
)
UNBOUNDED = {name for kind in KINDS for name, _ in inspect.getmembers(kind, inspect.iscoroutinefunction)} | {"send"}
OURS = {"_keeper", "keeper", "session", "engine", "_pool", "warm", "old", "client", "health", "_tabs", "_files", "self"}
"""Receivers of our own whose methods are bounded themselves."""
DOORS = {"through", "start"}
INPUTS = {"_give_files"}
"""Inputs of an act: `dispatch` sends each of them through the door as a whole."""


def test_the_list_of_what_cannot_time_out_is_not_empty() -> None:
    assert {"evaluate", "goto", "close", "press", "new_page", "storage_state", "dismiss"} <= UNBOUNDED


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_no_call_of_playwright_is_awaited_outside_the_door(path: Path) -> None:
    if path.name in SELF_BOUNDED:
        return
    tree = ast.parse(path.read_text("utf-8"))
    bounded = _passed_whole(tree)
    for function in ast.walk(tree):
        if isinstance(function, ast.AsyncFunctionDef) and function.name not in bounded | INPUTS:
            for awaited in (node for node in ast.walk(function) if isinstance(node, ast.Await)):
                assert not _is_raw(awaited.value), f"{path.name}:{awaited.lineno}: {ast.unparse(awaited)}"


def _passed_whole(tree: ast.Module) -> set[str]:
    """Coroutines of the module that go through the door as a whole wherever they are called."""
    defined = {node.name for node in ast.walk(tree) if isinstance(node, ast.AsyncFunctionDef)}
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    inside = {id(given) for call in calls if _name(call.func) in DOORS for given in call.args}
    handed = {_name(given) for call in calls if _name(call.func) in DOORS for given in call.args} - {""}
    for assigned in (node for node in ast.walk(tree) if isinstance(node, ast.Assign)):
        if any(_name(target) in handed for target in assigned.targets):
            inside |= {id(node) for node in ast.walk(assigned.value)}
    called = {name: [call for call in calls if _name(call.func) == name] for name in defined}
    return {name for name, found in called.items() if found and all(id(call) in inside for call in found)}


def _is_raw(awaited: ast.expr) -> bool:
    if not isinstance(awaited, ast.Call) or not isinstance(awaited.func, ast.Attribute):
        return False
    return awaited.func.attr in UNBOUNDED and _name(awaited.func.value) not in OURS


def _name(node: ast.expr) -> str:
    match node:
        case ast.Attribute(attr=name) | ast.Name(id=name):
            return name
        case _:
            return ""
