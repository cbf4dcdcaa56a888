"""The live root is private, or refused."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from lessor.browser.keeper.place import SHARED_MEMORY, PlaceRefused, candidates, live_root


@pytest.fixture
def runtime(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    return tmp_path / f"lessor-{os.geteuid()}"


def test_the_runtime_folder_comes_first_and_is_private(runtime: Path) -> None:
    assert live_root() == runtime
    assert runtime.stat().st_mode & 0o777 == 0o700
    (runtime / "kept").touch()
    assert live_root() == runtime
    assert (runtime / "kept").exists()


def test_shared_memory_comes_next_then_the_temporary_files(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    for unusable in (str(tmp_path / "none"), "relative", ""):
        monkeypatch.setenv("XDG_RUNTIME_DIR", unusable)
        *in_memory, on_disk = candidates("x")
        assert on_disk == tmp_path / "x"
        assert in_memory in ([], [SHARED_MEMORY / "x"])


def test_a_folder_open_to_others_is_refused(runtime: Path) -> None:
    runtime.mkdir()
    runtime.chmod(0o750)
    with pytest.raises(PlaceRefused, match="open to others"):
        live_root()


@pytest.mark.parametrize("is_ours", [True, False])
def test_a_link_or_a_file_in_its_place_is_refused(runtime: Path, tmp_path: Path, is_ours: bool) -> None:
    target = tmp_path / "elsewhere"
    target.mkdir(mode=0o700)
    runtime.symlink_to(target) if is_ours else runtime.touch()
    with pytest.raises(PlaceRefused, match="no folder"):
        live_root()
    assert list(target.iterdir()) == []


def test_a_place_where_everybody_can_replace_it_is_refused(runtime: Path) -> None:
    runtime.parent.chmod(0o777)
    with pytest.raises(PlaceRefused, match="lets every user"):
        live_root()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
def test_a_foreign_folder_is_refused(runtime: Path) -> None:
    runtime.mkdir(mode=0o700)
    os.chown(runtime, 65534, 65534)
    with pytest.raises(PlaceRefused, match="belongs to user 65534"):
        live_root()
