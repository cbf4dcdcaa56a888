"""Finding the binary behind a distribution's start script."""

from __future__ import annotations

from pathlib import Path

import pytest

from lessor.browser.find import find_chromium, resolve


def elf(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"\x7fELF rest")
    path.chmod(0o755)
    return path


def script(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


@pytest.mark.parametrize("text", ['{lib}/chromium/chromium "$@"', "LIBDIR={lib}/$APPNAME\nexec $LIBDIR/$APPNAME"])
def test_a_start_script_leads_to_the_binary_it_names(tmp_path: Path, text: str) -> None:
    binary = elf(tmp_path / "usr" / "lib" / "chromium" / "chromium")
    named = script(tmp_path / "bin" / "chromium", "#!/bin/sh\n" + text.format(lib=tmp_path / "usr" / "lib"))
    assert resolve(named) == binary


def test_a_link_to_a_script_beside_the_binary_leads_to_it(tmp_path: Path) -> None:
    binary = elf(tmp_path / "opt" / "google" / "chrome")
    wrapper = script(tmp_path / "opt" / "google" / "google-chrome", '#!/bin/bash\nexec "$HERE/chrome" "$@"')
    (tmp_path / "google-chrome").symlink_to(wrapper)
    assert resolve(tmp_path / "google-chrome") == binary


def test_playwrights_download_is_the_last_resort(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    monkeypatch.setenv("PLAYWRIGHT_BROWSERS_PATH", str(tmp_path))
    assert find_chromium() is None
    binary = elf(tmp_path / "chromium_headless_shell-1208" / "chrome-linux" / "headless_shell")
    assert find_chromium() == binary
