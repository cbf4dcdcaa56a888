"""The demo site in a leased page: log in by a secret, find things by their name."""

from dataclasses import dataclass, field

import lessor
from lessor.browser.secretstore import Secrets
from lessor.cli.demo.site import Site
from lessor.client import Client, Lease, Run
from lessor.messages.action import Element, Observation
from lessor.messages.reply import Acted
from tests.support.broker import fresh
from tests.support.stage import Stage


@dataclass
class Pages:
    """A stage whose pages show the site. Each `lease` is of a profile of its own unless it is named."""

    stage: Stage
    site: Site
    client: Client
    profiles: list[str] = field(default_factory=list[str])

    async def profile(self, *, settle_s: float = 0.0) -> str:
        name = fresh("p")
        await self.client.create_profile(name, origins=[self.site.url], settle_s=settle_s)
        return name

    async def lease(self, profile: str | None = None, *, horizon_s: float = 600.0) -> Lease:
        """Of a run of its own."""
        run: Run = await self.stage.take(self.client, fresh("r"))
        return await run.acquire(profile or await self.profile(), horizon_s=horizon_s)

    def give_secret(self, word: str = "h") -> None:
        """The site's password, where the host finds it."""
        Secrets(self.stage.directory / word / "secrets").store(self.stage.tenant, "demo-password", "demo")

    async def log_in(self, lease: Lease, path: str = "/invoices/new") -> Observation:
        """The page at `path`, logged in; takes three acts."""
        await lease.navigate(f"{self.site.url}{path}")
        page = await lease.observe()
        page = _page(await lease.act(lessor.Type(ref=ref(page, "User"), text="demo")))
        page = _page(await lease.act(lessor.Type(ref=ref(page, "Password"), secret="demo-password")))
        page = _page(await lease.act(lessor.Click(ref=ref(page, "Log in"))))
        assert page.url == f"{self.site.url}{path}", page
        return page


def named(page: Observation, name: str) -> Element:
    found = [element for element in page.elements if element.name == name]
    assert len(found) == 1, (name, page.elements)
    return found[0]


def ref(page: Observation, name: str) -> str:
    return named(page, name).ref


def _page(acted: Acted) -> Observation:
    assert acted.page is not None
    return acted.page
