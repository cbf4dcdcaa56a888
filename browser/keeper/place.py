"""Where live browsers keep their profiles and sockets: in memory where there is such a place, for this user only."""

from __future__ import annotations

import os
import stat
from pathlib import Path

SHARED_MEMORY = Path("/dev/shm")  # noqa: S108 - what is made there is checked below
ROOM_BYTES_MIN = 256 << 20
OPEN_TO_OTHERS = 0o077


class PlaceRefused(Exception):
    """The folder exists, and somebody else made it, or may look into it."""


def live_root() -> Path:
    """This user's private folder `lessor-<uid>`, made if need be: in XDG_RUNTIME_DIR or shared memory where one of
    them has room, else among the system's temporary files. Raises `PlaceRefused` for a folder that is not ours
    alone: whoever owns one could follow our files, or lead them elsewhere."""
    for folder in candidates(f"lessor-{os.geteuid()}"):
        try:
            folder.mkdir(mode=0o700)
        except FileExistsError:
            pass
        except OSError:
            continue
        return _own(folder)
    raise PlaceRefused("no folder can be made among the temporary files: set XDG_RUNTIME_DIR")


def candidates(name: str) -> list[Path]:
    """Where to try, in order. What exists stays the place, however full: a restarted host looks there for its
    browsers."""
    runtime = os.environ.get("XDG_RUNTIME_DIR", "")
    bases = [Path(runtime)] if os.path.isabs(runtime) else []
    in_memory = [base / name for base in (*bases, SHARED_MEMORY) if _has_room(base) or os.path.lexists(base / name)]
    on_disk = Path(os.environ.get("TMPDIR") or "/tmp")  # noqa: S108 - what is made there is checked below
    return [*in_memory, on_disk.absolute() / name]


def _has_room(base: Path) -> bool:
    try:
        room = os.statvfs(base)
    except OSError:
        return False
    return room.f_bavail * room.f_frsize >= ROOM_BYTES_MIN


def _own(folder: Path) -> Path:
    """The folder itself, not what a link in its place leads to."""
    above, found = folder.parent.stat(), folder.lstat()
    if above.st_mode & stat.S_IWOTH and not above.st_mode & stat.S_ISVTX:
        raise PlaceRefused(f"{folder.parent} lets every user replace what is in it: chmod +t, or set XDG_RUNTIME_DIR")
    if not stat.S_ISDIR(found.st_mode):
        raise PlaceRefused(f"{folder} is no folder: remove it")
    if found.st_uid != os.geteuid():
        raise PlaceRefused(f"{folder} belongs to user {found.st_uid}: have it removed, or set XDG_RUNTIME_DIR")
    if found.st_mode & OPEN_TO_OTHERS:
        raise PlaceRefused(f"{folder} is open to others ({stat.filemode(found.st_mode)}): remove it, or chmod 700")
    return folder
