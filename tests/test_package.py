"""The top-level folders are one package: in the checkout, in the wheel, in the sdist."""

import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from itertools import chain
from pathlib import Path
from typing import Any

import pytest

TOP = Path(__file__).parent.parent
FOLDERS = ("actors", "broker", "browser", "cli", "messages")
PYPROJECT: dict[str, Any] = tomllib.loads((TOP / "pyproject.toml").read_text())
SETUPTOOLS: dict[str, Any] = PYPROJECT["tool"]["setuptools"]
BUILD_S_MAX = 60


def run(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run this Python without this checkout on its path; the caller judges the exit code."""
    return subprocess.run(
        [sys.executable, "-I", *arguments],
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=BUILD_S_MAX,
        check=False,
    )


def build(*arguments: str, cwd: Path) -> None:
    """Run one step of the build, which must succeed."""
    done = run(*arguments, cwd=cwd)
    assert done.returncode == 0, done.stdout + done.stderr


def packages_on_disk() -> dict[str, str]:
    """Map each package to its folder, as the layout (not the configuration) has it."""
    found = {"lessor": "lessor"}
    found |= {f"lessor.{path.name}": f"lessor/{path.name}" for path in (TOP / "lessor").iterdir() if is_own(path)}
    for folder in FOLDERS:
        for marker in sorted((TOP / folder).rglob("__init__.py")):
            path = marker.parent.relative_to(TOP).as_posix()
            found["lessor." + path.replace("/", ".")] = path
    return found


def is_own(path: Path) -> bool:
    """A package that lies in lessor/ itself, and is no link."""
    return not path.is_symlink() and (path / "__init__.py").exists()


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the sdist from a copy of the checkout, links included, then the wheel from that sdist."""
    checkout, out = tmp_path_factory.mktemp("build") / "checkout", tmp_path_factory.mktemp("dist")
    checkout.mkdir()
    for name in ("lessor", *FOLDERS):
        shutil.copytree(TOP / name, checkout / name, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "MANIFEST.in", "README.md", "LICENSE"):
        shutil.copy(TOP / name, checkout)
    script = "import sys; from setuptools import build_meta; build_meta.build_sdist(sys.argv[1])"
    build("-c", script, str(out), cwd=checkout)
    (sdist,) = out.iterdir()
    build("-m", "pip", "wheel", "--no-build-isolation", "--no-deps", str(sdist), cwd=out)
    return out


@pytest.fixture(scope="module")
def installed(dist: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Install the wheel alone into an empty folder."""
    target = tmp_path_factory.mktemp("site")
    build("-m", "pip", "install", "--no-deps", "--target", ".", *map(str, dist.glob("*.whl")), cwd=target)
    return target


def test_every_package_is_listed_and_mapped() -> None:
    """A new folder with an __init__.py is in `packages`, and it or a parent in `package-dir`."""
    on_disk = packages_on_disk()
    assert sorted(SETUPTOOLS["packages"]) == sorted(on_disk)
    mapping: dict[str, str] = SETUPTOOLS["package-dir"]
    for package, folder in on_disk.items():
        top = ".".join(package.split(".")[:2])
        top = top if top in mapping else "lessor"
        assert mapping[top] + package.removeprefix(top).replace(".", "/") == folder


def test_links_and_mapping_agree() -> None:
    """Each mapped folder has its link in lessor/, relative, and there is no other link."""
    links = {f"lessor.{path.name}": path.readlink() for path in (TOP / "lessor").iterdir() if path.is_symlink()}
    mapped = {name: Path("..", path) for name, path in SETUPTOOLS["package-dir"].items() if name != "lessor"}
    assert links == mapped


def test_every_tool_knows_every_folder() -> None:
    """Coverage measures, pyright reads and ruff refuses to import exactly the folders that are mapped."""
    tool = PYPROJECT["tool"]
    folders = sorted(SETUPTOOLS["package-dir"].values())
    assert sorted(tool["coverage"]["run"]["source"]) == folders
    banned = tool["ruff"]["lint"]["flake8-tidy-imports"]["banned-api"]
    assert sorted(banned) == sorted(FOLDERS)
    checked = {path for path in tool["pyright"]["include"] if path.startswith("lessor/")}
    assert checked == {f"lessor/{folder}" for folder in FOLDERS}


def test_constraints_pin_what_pyproject_asks_for() -> None:
    """constraints.txt holds names and versions only, and one for each requirement."""
    lines = [line for line in (TOP / "constraints.txt").read_text().splitlines() if not line.startswith("#")]
    pinned = {normal(line.split("==")[0]) for line in lines}
    assert [line for line in lines if not re.fullmatch(r"[\w.-]+==[\w.]+", line)] == []
    project = PYPROJECT["project"]
    extras: dict[str, list[str]] = project["optional-dependencies"]
    asked = {normal(name) for name in chain(project["dependencies"], *extras.values())}
    assert asked - pinned == set()


def normal(requirement: str) -> str:
    """Give the normalised name of a requirement."""
    return re.sub(r"[-_.]+", "-", re.split(r"[\[<>=!~; ]", requirement)[0]).lower()


def test_wheel_holds_one_package_with_every_file_once(dist: Path) -> None:
    """The wheel has one top-level package, the files of the folders, and nothing through a link twice."""
    with zipfile.ZipFile(next(dist.glob("*.whl"))) as wheel:
        names = [name for name in wheel.namelist() if ".dist-info/" not in name]
    shipped = {
        f"{package.replace('.', '/')}/{path.name}"
        for package, folder in packages_on_disk().items()
        for path in (TOP / folder).iterdir()
        if path.suffix in {".py", ".js"} or path.name == "py.typed"
    }
    assert sorted(names) == sorted(shipped)


def test_sdist_holds_every_file_once(dist: Path) -> None:
    """The sdist has the folders as they lie in the checkout, without the links."""
    with tarfile.open(next(dist.glob("*.tar.gz"))) as sdist:
        names = [member.name.split("/", 1)[1] for member in sdist.getmembers() if member.isfile()]
    assert len(names) == len(set(names))
    assert [name for name in names if name.startswith(tuple(f"lessor/{folder}/" for folder in FOLDERS))] == []
    assert {f"{folder}/__init__.py" for folder in packages_on_disk().values()} <= set(names)


@pytest.mark.parametrize("folder", FOLDERS)
def test_installed_wheel_gives_no_other_top_level_name(installed: Path, folder: str) -> None:
    """`import lessor.actors` works after an installation, `import actors` does not."""
    script = (
        "import importlib, sys; sys.path.insert(0, sys.argv[1]);print(importlib.import_module(sys.argv[2]).__file__)"
    )
    works = run("-c", script, str(installed), f"lessor.{folder}", cwd=installed)
    assert works.stdout.strip() == str(installed / "lessor" / folder / "__init__.py"), works.stderr
    fails = run("-c", script, str(installed), folder, cwd=installed)
    assert f"No module named '{folder}'" in fails.stderr
