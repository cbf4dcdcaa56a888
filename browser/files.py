"""Files that a page gives: downloads of a lease, counted against its quota, encrypted as they are handed on (contract,
Pages). In the clear they lie beside the browser only, and go with it."""

import asyncio
import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from lessor.browser import envelope
from lessor.browser.cdp import Cdp
from lessor.browser.door import Door, Failed
from lessor.browser.envelope import FileOf
from lessor.browser.keeper.linux import boot_ms
from lessor.browser.keyring import Keyring
from lessor.errors import Code, Problem, problem
from lessor.messages.action import Artifact
from lessor.messages.policy import PagePolicy
from lessor.ports import Away, FileFound

FOLDER = "downloads"
FILES_MAX = 64
NAME_CHARS_MAX = 200
CANCEL_MS_MAX = 5000


@dataclass(slots=True)
class Download:
    """One file; `frame` is where it came from."""

    artifact: Artifact
    frame: str
    folder: Path

    @property
    def path(self) -> Path:
        """Under its own name, as a page that gets it again will see it."""
        return self.folder / self.artifact.name


class Files:
    """Belongs to one connection. `told(frame, text)` puts a notice where it belongs."""

    def __init__(
        self, cdp: Cdp, door: Door, policy: PagePolicy, directory: Path, told: Callable[[str, str], None]
    ) -> None:
        self._cdp = cdp
        self._door = door
        self._policy = policy
        self._folder = directory / FOLDER
        self._told = told
        self._downloads: dict[str, Download] = {}
        self.on_file: Callable[[FileFound], None] = lambda _: None
        self.whose: Callable[[str], FileOf]
        self.keyring: Keyring
        self.began = 0
        self._closing: set[asyncio.Task[None]] = set()

    def __repr__(self) -> str:
        return f"<Files {len(self._downloads)}>"

    async def open(self, deadline_ms: int) -> Failed | Away | None:
        """Say where downloads go, or that there are none; None when that was taken."""
        if self._policy.downloads == "refuse":
            answer = await self._door.through(
                self._cdp.send("Browser.setDownloadBehavior", {"behavior": "deny", "eventsEnabled": True}), deadline_ms
            )
        else:
            await asyncio.to_thread(self._folder.mkdir, mode=0o700, exist_ok=True)
            where = {"behavior": "allowAndName", "downloadPath": str(self._folder), "eventsEnabled": True}
            answer = await self._door.through(self._cdp.send("Browser.setDownloadBehavior", where), deadline_ms)
        self._cdp.on("Browser.downloadWillBegin", self._on_begin)
        self._cdp.on("Browser.downloadProgress", self._on_progress)
        return answer if isinstance(answer, (Failed, Away)) else None

    def all(self) -> tuple[Artifact, ...]:
        """In the order in which they began."""
        return tuple(download.artifact for download in self._downloads.values())

    def paths(self, artifacts: tuple[str, ...]) -> tuple[str, ...] | Problem:
        """Where the whole files among this lease's artifacts lie; anything else is refused."""
        found: list[str] = []
        for name in artifacts:
            download = self._downloads.get(name)
            if download is None or download.artifact.state != "kept":
                return problem(
                    Code.ACTION_NOT_ALLOWED, "Only whole artifacts of this lease can be uploaded: list them."
                )
            found.append(str(download.path))
        return tuple(found)

    async def cancel(self, artifact: str, deadline_ms: int) -> Problem | Away | None:
        """Stop a download under way."""
        download = self._downloads.get(artifact)
        if download is None:
            return problem(Code.NOT_FOUND, "The lease has no such artifact: list them.")
        if download.artifact.state == "running":
            await self._stop(artifact, "cancelled", deadline_ms)
        return self._door.away

    async def settle(self) -> None:
        """Whole files are handed on, and whatever is under way ends incomplete."""
        for name, download in self._downloads.items():
            if download.artifact.state == "running":
                await self._stop(name, "cancelled")
        if self._closing:
            await asyncio.wait(self._closing, timeout=CANCEL_MS_MAX / 1000)

    async def _stop(self, guid: str, state: Any, deadline_ms: int | None = None) -> None:
        self._is(guid, state=state)
        until_ms = boot_ms() + CANCEL_MS_MAX if deadline_ms is None else deadline_ms
        await self._door.through(self._cdp.send("Browser.cancelDownload", {"guid": guid}), until_ms)

    def _on_begin(self, event: dict[str, Any]) -> None:
        guid, frame = str(event["guid"]), str(event["frameId"])
        name = _plain_name(str(event["suggestedFilename"]))
        if self._policy.downloads == "refuse":
            self._told(frame, f"a download was refused by policy: {name}")
            return
        self.began += 1
        self._downloads[guid] = Download(Artifact(id=guid, name=name), frame, self._folder / f"{guid}.d")
        if len(self._downloads) > FILES_MAX:
            self._door.start(self._stop(guid, "over_quota"))
        self._told(frame, f"a download began: {name}, artifact {guid}")

    def _on_progress(self, event: dict[str, Any]) -> None:
        guid = str(event["guid"])
        download = self._downloads.get(guid)
        if download is None or download.artifact.state != "running":
            return
        size = max(int(event["receivedBytes"]), 0)
        others = sum(other.artifact.size for other in self._downloads.values() if other is not download)
        if others + max(size, int(event["totalBytes"])) > self._policy.files_bytes_max:
            self._is(guid, size=0)
            self._door.start(self._stop(guid, "over_quota"))
            self._told(download.frame, f"a download was stopped, over the lease's quota: {download.artifact.name}")
            return
        self._is(guid, size=size)
        if event["state"] == "canceled":
            self._is(guid, state="cancelled")
        elif event["state"] == "completed":
            task = self._door.start(self._hand_on(guid, download))
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)

    async def _hand_on(self, guid: str, download: Download) -> None:
        try:
            found = await asyncio.to_thread(self._take, guid, download)
        except OSError:
            self._is(guid, state="cancelled")  # the browser is being removed
            return
        if isinstance(found, Problem):
            self._is(guid, state="cancelled")
            self._told(download.frame, f"a download could not be kept: {found.message}")
            return
        self._is(guid, size=found.artifact.size, sha256=found.artifact.sha256, state="kept")
        self._told(download.frame, f"a download is whole: {download.artifact.name}, artifact {guid}")
        self.on_file(found)

    def _take(self, guid: str, download: Download) -> FileFound | Problem:
        """Blocking. Checks what really lies there, whatever was said of it."""
        raw = self._folder / guid
        if raw.stat().st_size > self._policy.files_bytes_max:
            raw.unlink()
            return problem(Code.TOO_LARGE, "it is over the lease's quota.")
        body = raw.read_bytes()
        download.folder.mkdir(mode=0o700)
        raw.rename(download.path)
        kept = msgspec.structs.replace(
            download.artifact, size=len(body), sha256=hashlib.sha256(body).hexdigest(), state="kept"
        )
        closed = envelope.close(body, self.whose(guid), self.keyring)
        return closed if isinstance(closed, Problem) else FileFound(kept, *closed)

    def _is(self, guid: str, **changes: Any) -> None:
        download = self._downloads[guid]
        download.artifact = msgspec.structs.replace(download.artifact, **changes)


def _plain_name(suggested: str) -> str:
    """A file name and nothing else: no way up, nothing hidden, nothing a terminal would obey."""
    name = suggested.replace("\\", "/").rpartition("/")[2].encode("utf-8", "replace").decode()
    name = "".join(character if character.isprintable() else "_" for character in name).lstrip(". ")
    return name[: NAME_CHARS_MAX // 4 * 4].encode()[:NAME_CHARS_MAX].decode("utf-8", "ignore") or "download"
