"""`lessor doctor`: data directory, keys, memory for live browsers, clocks. All of it blocking, a few ms."""

import os
import shutil
import tempfile
import time
from pathlib import Path
from typing import Final

from lessor.actors.clock import BootClock
from lessor.cli.finding import Finding, fail, ok, warn
from lessor.config import Config
from lessor.errors import Problem

SPACE_LOW_BYTES: Final = 1 << 30
SPACE_LEAST_BYTES: Final = 64 << 20
MEMORY_LEAST_BYTES: Final = 128 << 20
EARLIEST_UNIX_S: Final = 1_735_689_600
"""2025 began: a machine that says it is earlier has no clock that is worth anything."""


def directory(config: Config) -> Finding:
    check, path = "data directory", config.data_dir
    if not path.exists():
        above = next(parent for parent in path.parents if parent.exists())
        try:
            tempfile.TemporaryDirectory(dir=above).cleanup()
        except OSError as error:
            return fail(
                check,
                f"{path} cannot be made in {above} ({error.strerror})",
                "Choose another directory (LESSOR_DATA_DIR).",
            )
        return ok(check, f"{path}, made at the first start")
    if not path.is_dir():
        return fail(check, f"{path} is not a directory", "Choose another: LESSOR_DATA_DIR.")
    about = path.stat()
    if about.st_uid != os.geteuid():
        return fail(check, f"{path} belongs to user {about.st_uid}", "Choose a directory of your own.")
    try:
        with tempfile.TemporaryFile(dir=path) as probe:
            probe.write(b"x" * 4096)
    except OSError as error:
        return fail(check, f"{path}: {error.strerror}", "Make it writable, free some space, or choose another.")
    free = shutil.disk_usage(path).free
    if free < SPACE_LEAST_BYTES:
        return fail(check, f"{path}: {_mib(free)} free", f"Free some space: at least {_mib(SPACE_LEAST_BYTES)}.")
    if about.st_mode & 0o077:
        return warn(check, f"{path} is open to others (mode {about.st_mode & 0o777:o})", f"chmod 700 {path}")
    if free < SPACE_LOW_BYTES:
        return warn(check, f"{path}: {_mib(free)} free", "Free some space soon: the journal only grows.")
    return ok(check, f"{path}, private, {_mib(free)} free")


def keys(config: Config) -> Finding:
    from lessor.browser.keyring import Keyring

    check, path = "keys", config.data_dir / "keys"
    try:
        if not path.exists() or not any(path.iterdir()):
            return ok(check, f"{path}: none yet, the first host makes one")
        if path.stat().st_mode & 0o077:
            return fail(check, f"{path} is open to others", f"chmod 700 {path}, and rotate the keys.")
        told = Keyring(path).current()
    except OSError as error:
        return fail(check, f"{path}: {error.strerror}", "Make it readable for the host's user.")
    if isinstance(told, Problem):
        return fail(check, f"{path} is damaged", told.message)
    return ok(check, f"{path}, current version {told[0]}: keep a copy of it")


def memory(config: Config) -> Finding:
    """Where live browsers lie: on tmpfs, or they touch the disk."""
    from lessor.browser.live import live_directory

    check = "live directory"
    path = config.live_dir or live_directory(config.host, config.data_dir)
    there = next(place for place in (path, *path.parents) if place.exists())
    free = shutil.disk_usage(there).free
    if _filesystem(there) not in ("tmpfs", "ramfs"):
        return warn(check, f"{path} is not in memory", "Mount a tmpfs at /dev/shm or set XDG_RUNTIME_DIR.")
    if free < MEMORY_LEAST_BYTES:
        return warn(check, f"{path}: {_mib(free)} free", f"Give that tmpfs {_mib(MEMORY_LEAST_BYTES)} or more.")
    return ok(check, f"{path}, in memory, {_mib(free)} free")


def _filesystem(path: Path) -> str:
    """The type of the file system that the path lies on, by the longest mount point above it."""
    found = ("", "")
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        before, _, after = line.partition(" - ")
        point, kind = before.split()[4], after.split()[0]
        if path.resolve().is_relative_to(point) and len(point) >= len(found[0]):
            found = (point, kind)
    return found[1]


def clock(_: Config) -> Finding:
    check = "clock"
    began_ns = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
    time.sleep(0.01)
    if time.clock_gettime_ns(time.CLOCK_BOOTTIME) <= began_ns:
        return fail(check, "CLOCK_BOOTTIME stands still", "Use a Linux kernel that has it.")
    try:
        boot = BootClock().boot
    except OSError:
        return fail(check, "the kernel tells no boot id", "Mount /proc.")
    if time.time() < EARLIEST_UNIX_S:
        return fail(check, time.strftime("it is %Y-%m-%d here", time.gmtime()), "Set the clock: run an NTP client.")
    return ok(check, time.strftime(f"%Y-%m-%dT%H:%M:%SZ, boot {boot[:8]}", time.gmtime()))


def _mib(count: int) -> str:
    return f"{count >> 20} MiB"
