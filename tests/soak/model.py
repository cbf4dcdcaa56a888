"""The model browser on a site that outlives it: what was clicked is in the site's log, whoever is killed then."""

from collections.abc import Callable
from dataclasses import replace

from msgspec import structs

from lessor.errors import Problem
from lessor.messages.action import AnyAction, Click
from lessor.ports import Away, BrowserSpec, NotSent, Sent, Target
from tests.model.browser import Keeper, ModelBrowser, ModelSession
from tests.soak.site import Site


class SiteSession(ModelSession):
    """A click submits what stands in the form; the page then confirms it."""

    site: Site

    async def dispatch(self, tab: str, action: AnyAction, target: Target, deadline_ms: int) -> Sent | NotSent | Away:
        sent = await super().dispatch(tab, action, target, deadline_ms)
        if not isinstance(sent, Sent) or not isinstance(action, Click):
            return sent
        keeper = self._keeper
        self.site.submit(keeper.text)
        keeper.text = f"done {keeper.text}"
        assert sent.page is not None
        return replace(sent, page=structs.replace(sent.page, text=keeper.text))


class SiteBrowser(ModelBrowser):
    """`ports.Browser`; gone with its process, keepers included."""

    site: Site

    def _session(self, keeper: Keeper, epoch: int) -> SiteSession:
        session = SiteSession(self, keeper, epoch)
        session.site = self.site
        return session

    async def start(self, spec: BrowserSpec, on_gone: Callable[[], None]) -> "SiteSession | Problem":
        started = await super().start(spec, on_gone)
        return started if isinstance(started, Problem) else self._session(self.keepers[spec.instance], spec.epoch)

    async def find(self, spec: BrowserSpec, on_gone: Callable[[], None]) -> "SiteSession | None":
        found = await super().find(spec, on_gone)
        return None if found is None else self._session(self.keepers[spec.instance], spec.epoch)

    def lives(self, keeper: Keeper) -> bool:
        """A keeper ends its browser at its deadline, and its host hears of it like of any other end."""
        before = keeper.gone_ms
        alive = super().lives(keeper)
        if before is None and not alive:
            keeper.gone.set()
            keeper.on_gone()
        return alive

    def crash_one(self) -> None:
        """The browser that was clicked last dies; the model's hits are not needed here and would only grow."""
        if self.hits and (live := [one for one in self.live if one.instance == self.hits[-1].instance] or self.live):
            self.crash(live[-1])
        elif self.live:
            self.crash(self.live[-1])
        self.hits.clear()
