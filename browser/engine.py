"""The engine: starts browsers, finds them again after a restart, confirms their end (ports.Browser)."""

import asyncio
import contextlib
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from playwright.async_api import Page, StorageState

from lessor.browser import driver, envelope, state
from lessor.browser.arguments import chromium_arguments
from lessor.browser.cdp import Cdp, target_of
from lessor.browser.connection import Connection, connect
from lessor.browser.door import Failed
from lessor.browser.driver import Driver
from lessor.browser.envelope import FileOf, Whose
from lessor.browser.find import find_chromium
from lessor.browser.keeper import client
from lessor.browser.keeper.client import Admitted, Gone, Keeper, KeeperFailed, KeeperSpec
from lessor.browser.keeper.linux import boot_ms
from lessor.browser.keyring import Keyring
from lessor.browser.live import Live, main_of
from lessor.browser.origins import Origins
from lessor.browser.pool import WARM_EPOCH, Pool, Warm
from lessor.browser.secretstore import Secrets
from lessor.browser.session import LiveSession, whose
from lessor.errors import Code, Problem, problem
from lessor.ports import Away, Binding, BrowserSpec, FileSpec, SealedState

START_MS_MAX = 10_000
WARM_MARGIN_S = 15.0
NOT_STARTED = problem(Code.ENDPOINT_UNREACHABLE, "The browser did not start: acquire again.")


@dataclass(frozen=True, slots=True)
class Settings:
    """`live` is best in memory (`live.live_directory`); `keys` and `secrets` are private directories.

    `chromium` None: look for one.
    """

    live: Path
    keys: Path
    secrets: Path
    chromium: Path | None = None
    sandbox: bool = os.geteuid() != 0
    warm_max: int = 1
    warm_s: float = 60.0
    headed: bool = False
    """Show a window, for a person who logs in."""


class Engine:
    """One per host. Opens its directories and its Playwright driver with the first browser. Belongs to the loop."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._live = Live(settings.live)
        self._keyring = Keyring(settings.keys)
        self._secrets = Secrets(settings.secrets)
        self._pool = Pool(self._launch_warm, settings.warm_max, settings.warm_s)
        self._opening = asyncio.Lock()
        self._secret: str | None = None
        self._driver: Driver | None = None
        self._sessions: set[LiveSession] = set()
        self._preparing: asyncio.Task[None] | None = None

    def __repr__(self) -> str:
        return f"<Engine {len(self._sessions)} live, {self._pool!r}>"

    async def start(self, spec: BrowserSpec, on_gone: Callable[[], None]) -> LiveSession | Problem:
        """A browser with the sealed state in it, guarded, on an empty page. A failure leaves nothing behind."""
        deadline_ms = min(boot_ms() + START_MS_MAX, spec.until_ms)
        restored: StorageState | None = None
        if spec.sealed is not None:
            unsealed = await state.unseal(spec.sealed, whose(spec, spec.generation, spec.sealed_origins), self._keyring)
            if isinstance(unsealed, Problem):
                return unsealed
            restored = unsealed
        made = await self._keeper(spec)
        if isinstance(made, Problem):
            return made
        keeper = made.keeper if isinstance(made, Warm) else made
        try:
            session = await self._furnish(spec, made, restored, on_gone, deadline_ms)
        except BaseException:
            await asyncio.shield(self._drop(keeper, spec.epoch))
            raise
        if isinstance(session, LiveSession):
            return session
        await self._drop(keeper, spec.epoch)
        return session if isinstance(session, Problem) else NOT_STARTED

    async def find(self, spec: BrowserSpec, on_gone: Callable[[], None]) -> LiveSession | None:
        """The page of a keeper that outlived its host. A browser that cannot be taken over whole is ended."""
        await self._open()
        deadline_ms = min(boot_ms() + START_MS_MAX, spec.until_ms)
        keeper = await client.find(self._live.directory(spec.instance))
        if keeper is None:
            return None
        connection = await self._connect(spec, keeper, deadline_ms)
        if isinstance(connection, Connection):
            target = main_of(keeper.directory) or spec.target
            page = await _page_of(connection, target, deadline_ms)
            session = self._session(spec, keeper, connection, on_gone)
            session.is_adopted = True
            if (
                page is not None
                and await session.open(page, deadline_ms) is None
                and await self._open_egress(spec, keeper, connection)
            ):
                self._sessions.add(session)
                return session
            await session.leave()
        await self._drop(keeper, spec.epoch)
        return None

    async def open_file(self, spec: FileSpec, sealed: bytes) -> bytes | Problem:
        """Decrypt a file that a session gave; away from the loop."""
        whose = FileOf(
            tenant=spec.key.tenant,
            profile=spec.key.profile,
            principal=spec.principal,
            instance=spec.instance,
            artifact=spec.artifact,
        )
        return await asyncio.to_thread(envelope.open_, sealed, whose, self._keyring)

    async def reseal(self, sealed: bytes, was: Binding, becomes: Binding) -> SealedState | Problem:
        """Open and encrypt anew, away from the event loop."""
        opened = await asyncio.to_thread(envelope.open_, sealed, _whose(was), self._keyring)
        return opened if isinstance(opened, Problem) else await state.seal(opened, _whose(becomes), self._keyring)

    async def confirm_gone(self, instance: str) -> int | None:
        """Boot ms since when that browser is known not to run; 0: since before this boot. None: it may, or this host
        knows nothing of it."""
        await self._open()
        return await asyncio.to_thread(self._live.gone_ms, instance)

    async def warmed(self) -> None:
        """Wait until the browser that is being warmed, if any, is ready."""
        await self._pool.filled()

    async def close(self) -> None:
        """Let go of live browsers, end warm ones and the driver."""
        if self._preparing is not None:
            await asyncio.wait({self._preparing})
        await self._pool.end()
        await asyncio.gather(*(session.leave() for session in self._sessions))
        self._sessions.clear()
        if self._driver is not None:
            await self._driver.stop()
            self._driver = None

    async def _open(self) -> Driver | None:
        """Directories, swept, and the driver; once, the driver again when it died. None: it does not start."""
        async with self._opening:
            if self._secret is None:
                self._secret = await asyncio.to_thread(self._live.open)
            if self._driver is None or self._driver.gone.done():
                self._driver = await driver.start(self._live.scratch)
                if self._driver is not None:
                    self._driver.gone.add_done_callback(lambda _: self._driver_died())
            return self._driver

    def _driver_died(self) -> None:
        for session in tuple(self._sessions):
            session.ended()
        self._pool.cool()

    def prepare(self) -> None:
        """Begin to open what will be needed at once: a host that left browsers behind finds them sooner."""
        if self._live.has_browsers():
            self._preparing = asyncio.create_task(self._prepared())

    async def _prepared(self) -> None:
        with contextlib.suppress(Exception):  # whoever needs it opens it again, and hears what is wrong
            await self._open()

    async def _keeper(self, spec: BrowserSpec) -> Warm | Keeper | Problem:
        if await self._open() is None:
            return problem(Code.SETUP_FAILED, "The Playwright driver does not start: reinstall lessor[host].")
        warm = await self._pool.take()
        if warm is not None:
            await asyncio.to_thread(self._live.name, warm.keeper.directory, spec.instance)
            return warm
        try:
            return await self._launch(self._live.directory(spec.instance), spec.epoch, spec.until_ms)
        except KeeperFailed as failure:
            return problem(Code.ENDPOINT_UNREACHABLE, f"The browser did not start ({failure.reason}): acquire again.")
        except FileNotFoundError:
            return problem(Code.SETUP_FAILED, "There is no Chromium here: install chromium or chromium-headless-shell.")

    async def _launch(self, directory: Path, epoch: int, until_ms: int) -> Keeper:
        headed = self._settings.headed
        chromium = self._settings.chromium or await asyncio.to_thread(find_chromium, headed=headed)
        if chromium is None:
            raise FileNotFoundError("chromium")
        assert self._secret is not None
        spec = KeeperSpec(
            directory=directory,
            chromium=chromium,
            epoch=epoch,
            until_ms=until_ms,
            secret=self._secret,
            arguments=chromium_arguments(headless=not headed),
            sandbox=self._settings.sandbox,
        )
        return await client.launch(spec)

    async def _launch_warm(self) -> Warm | None:
        """Started, connected and guarded in advance; None when that did not work."""
        until_ms = boot_ms() + round((self._settings.warm_s + WARM_MARGIN_S) * 1000)
        keeper = await self._launch(self._live.warm(), WARM_EPOCH, until_ms)
        connection = await self._admit(
            keeper, WARM_EPOCH, until_ms, Origins(()), boot_ms() + START_MS_MAX, strict=False
        )
        if isinstance(connection, Connection):
            return Warm(keeper, connection)
        await self._drop(keeper, WARM_EPOCH)
        return None

    async def _connect(self, spec: BrowserSpec, keeper: Keeper, deadline_ms: int) -> Connection | Failed | Away:
        return await self._admit(
            keeper, spec.epoch, spec.until_ms, Origins(spec.origins), deadline_ms, strict=spec.strict
        )

    async def _admit(
        self, keeper: Keeper, epoch: int, until_ms: int, origins: Origins, deadline_ms: int, *, strict: bool
    ) -> Connection | Failed | Away:
        """Admission, then the connection. A page that is stuck in its predecessor's input is not taken over."""
        assert self._secret is not None
        if self._driver is None:
            return Away.GONE
        admitted = await keeper.admit(epoch, self._secret, until_ms)
        if not isinstance(admitted, Admitted):
            return Failed(admitted.reason)
        if not admitted.is_drained:
            return Failed("not drained")
        return await connect(self._driver.playwright, admitted.ws_url, origins, deadline_ms, strict=strict)

    async def _assign(self, spec: BrowserSpec, warm: Warm, deadline_ms: int) -> Connection | Failed | Away:
        """A warm browser goes to its first owner, connection and all."""
        assert self._secret is not None
        assigned = await warm.keeper.assign(spec.epoch, self._secret, spec.until_ms)
        if not isinstance(assigned, int):
            return Failed(assigned.reason)
        origins = Origins(spec.origins)
        refused = await warm.connection.guard.govern(origins, deadline_ms, strict=spec.strict)
        return warm.connection if refused is None else refused

    async def _furnish(
        self,
        spec: BrowserSpec,
        made: Warm | Keeper,
        restored: StorageState | None,
        on_gone: Callable[[], None],
        deadline_ms: int,
    ) -> LiveSession | Problem | Failed | Away:
        if isinstance(made, Warm):
            keeper, connection = made.keeper, await self._assign(spec, made, deadline_ms)
        else:
            keeper, connection = made, await self._connect(spec, made, deadline_ms)
        if not isinstance(connection, Connection):
            return connection
        if restored is not None:
            refused = await state.restore(connection.context, restored, connection.guard, connection.door, deadline_ms)
            if refused is not None:
                return refused
        session = self._session(spec, keeper, connection, on_gone)
        refused = await session.open(connection.context.pages[0], deadline_ms)
        if refused is not None or not await self._open_egress(spec, keeper, connection):
            await session.leave()
            return refused or NOT_STARTED
        self._sessions.add(session)
        return session

    async def _open_egress(self, spec: BrowserSpec, keeper: Keeper, connection: Connection) -> bool:
        return await keeper.egress(spec.epoch, True, connection.guard.origins.authorities()) is True

    def _session(
        self, spec: BrowserSpec, keeper: Keeper, connection: Connection, on_gone: Callable[[], None]
    ) -> LiveSession:
        return LiveSession(
            spec, keeper, connection, self._keyring, self._secrets, on_gone, self._killed, self._relaunch
        )

    async def _relaunch(self, spec: BrowserSpec, old: Keeper, deadline_ms: int) -> tuple[Keeper, Connection] | None:
        """Another browser in the place of one that is wedged or gone, from the same sealed state (B09). None: it did
        not come up; nothing is left behind."""
        deadline_ms = min(boot_ms() + START_MS_MAX, deadline_ms, spec.until_ms)
        ended = await old.kill(spec.epoch)
        await old.close()
        if not isinstance(ended, Gone) or await self._open() is None:
            return None
        restored = (
            None
            if spec.sealed is None
            else await state.unseal(spec.sealed, whose(spec, spec.generation), self._keyring)
        )
        if isinstance(restored, Problem):
            return None
        directory = await asyncio.to_thread(self._live.clear, spec.instance)
        try:
            keeper = await self._launch(directory, spec.epoch, spec.until_ms)
        except (KeeperFailed, OSError):
            await asyncio.to_thread(self._live.bury, spec.instance, ended.gone_at_ms)
            return None
        connection = await self._connect(spec, keeper, deadline_ms)
        if isinstance(connection, Connection):
            refused = (
                None
                if restored is None
                else await state.restore(connection.context, restored, connection.guard, connection.door, deadline_ms)
            )
            if refused is None and await self._open_egress(spec, keeper, connection):
                return keeper, connection
        await self._drop(keeper, spec.epoch)
        return None

    def _killed(self, session: LiveSession, gone_ms: int) -> None:
        self._sessions.discard(session)
        self._live.bury(session.instance, gone_ms)
        self._pool.closed()

    async def _drop(self, keeper: Keeper, epoch: int) -> None:
        """End a browser that nobody got."""
        answer = await keeper.kill(epoch)
        await keeper.close()
        if isinstance(answer, Gone):
            with contextlib.suppress(OSError):
                await asyncio.to_thread(self._live.bury, keeper.directory.name, answer.gone_at_ms)


async def _page_of(connection: Connection, target: str | None, deadline_ms: int) -> Page | None:
    """The page with that target id; order and openers are not to be relied on after a takeover."""
    door = connection.door
    for page in connection.context.pages:
        opened = await door.through(connection.context.new_cdp_session(page), deadline_ms)
        if isinstance(opened, (Failed, Away)):
            continue
        cdp = Cdp(opened)
        found = await door.through(target_of(cdp), deadline_ms)
        door.start(door.through(cdp.detach(), deadline_ms))
        if isinstance(found, str) and target in (None, found):
            return page
    return None


def _whose(bound: Binding) -> Whose:
    return Whose(
        tenant=bound.key.tenant,
        profile=bound.key.profile,
        principal=bound.principal,
        provider=bound.provider,
        origins=tuple(sorted(bound.origins)),
        generation=bound.generation,
    )
