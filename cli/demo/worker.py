"""The demo's worker: a process that submits invoices and may be killed at any moment.

It prints a JSON line for each thing that it does. Before a click it waits for a line on its standard
input: that is how the demo finds the moments for its kills. It keeps nothing: what a successor has to know, it asks.
"""

import argparse
import asyncio
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import urlencode

import lessor
from lessor.cli.demo.parent import die_with_parent
from lessor.cli.demo.plan import LOGIN_RUN, PROFILE, RUN, SECRET, USER, Fault, Invoice
from lessor.cli.demo.site_client import SiteClient
from lessor.client import Client, Lease, Run, Step
from lessor.errors import LeaseInvalid, LessorError, OutcomeUnknown, Unavailable
from lessor.messages.action import Observation
from lessor.messages.reply import StepState

TRIES_MAX: Final = 5
"""Rounds of *look what is known, then do what follows* for one invoice."""


def say(event: str, **facts: object) -> None:
    """One line on standard output."""
    print(json.dumps({"event": event, **facts}), flush=True)


async def cue() -> None:
    """Wait for the demo to say go. Its end is ours."""
    if not await asyncio.to_thread(sys.stdin.readline):
        raise SystemExit("nobody says when to go on")


def find(page: Observation, role: str, name: str) -> str:
    """The reference of an element. A page without it is not the one we were sent for."""
    for element in page.elements:
        if (element.role, element.name.strip()) == (role, name):
            return element.ref
    raise AssertionError(f"no {role} {name!r} at {page.url}")


@dataclass
class Worker:
    """One run's worker. `naive`: it neither asks what is known nor marks its clicks, like a script without lessor."""

    client: Client
    run: Run
    site: SiteClient
    naive: bool
    lease: Lease | None = None

    async def hold(self) -> Lease:
        """The lease: the same one and the same page if this run has it, else a browser from the last seal."""
        if self.lease is None:
            lease = self.lease = await self.run.acquire(PROFILE)
            say("leased", lease=lease.id, reattached=lease.reattached, generation=lease.generation)
        return self.lease

    async def log_in(self) -> None:
        """Through the site's form. The password is named, not known here: the host types it from its own store."""
        lease = await self.hold()
        await lease.navigate(f"{self.site.url}/login")
        page = await lease.observe()
        page = await self.type(lease, lessor.Type(ref=find(page, "textbox", "User"), text=USER))
        page = await self.type(lease, lessor.Type(ref=find(page, "textbox", "Password"), secret=SECRET))
        acted = await lease.act(lessor.Click(ref=find(page, "button", "Log in")))
        page = acted.page or await lease.observe()
        say("logged_in", url=page.url, as_wanted=page.url.endswith("/invoices/new"))

    async def type(self, lease: Lease, action: lessor.Type) -> Observation:
        acted = await lease.act(action)
        return acted.page or await lease.observe()

    async def settle(self, invoice: Invoice) -> None:
        """Do what follows from what is known about the step, until it is a fact (contract, Steps)."""
        lease = await self.hold()
        step = self.run.step(lease, invoice.step)
        for _ in range(TRIES_MAX):
            state = None if self.naive else await step.state()
            match state:
                case StepState.SUCCEEDED:
                    return
                case StepState.DISPATCHED:
                    await self.confirm(invoice, step)
                case StepState.UNKNOWN:
                    await self.look_up(invoice, step)
                case _:
                    if await self.submit(invoice, state) and self.naive:
                        return
        raise AssertionError(f"{invoice.number} is not settled after {TRIES_MAX} rounds")

    async def submit(self, invoice: Invoice, state: StepState | None) -> bool:
        """Fill the form and click. False when nobody can know yet what came of it."""
        lease = await self.hold()
        step = self.run.step(lease, invoice.step)
        try:
            query = urlencode({"key": invoice.request_key, "number": invoice.number})
            await lease.navigate(f"{self.site.url}/invoices/new?{query}")
            page = await self.fill(lease, step, invoice)
            say("ready", number=invoice.number, amount=invoice.amount, again=state is not None, url=page.url)
            await cue()
            click = lessor.Click(ref=find(page, "button", "Submit invoice"))
            acted = await (lease.act(click) if self.naive else step.commit(click))
        except OutcomeUnknown:
            self.lease = None
            say("unknown", number=invoice.number)
            return False
        except (LeaseInvalid, Unavailable) as error:
            self.lease = None
            say("lost", number=invoice.number, code=error.problem.code)
            return False
        say("applied", number=invoice.number, sequence=acted.sequence)
        return True

    async def fill(self, lease: Lease, step: Step, invoice: Invoice) -> Observation:
        """Type the amount: an act of the step, though not its commit."""
        page = await lease.observe()
        amount = find(page, "textbox", "Amount")
        acted = await step.act(lessor.Type(ref=amount, text=invoice.amount))
        return acted.page or await lease.observe()

    async def confirm(self, invoice: Invoice, step: Step) -> None:
        """The click reached the page. The page itself is the first place to look what came of it; the site's
        look-up is the second."""
        if self.lease is not None:
            try:
                page = await self.lease.observe()
            except LessorError as error:
                say("lost", number=invoice.number, code=error.problem.code)
                self.lease = None
            else:
                if invoice.request_key in page.text:
                    evidence = f"the page confirms {invoice.number}"
                    by = f"{self.client.worker}, by the page"
                    await self.client.reconcile(PROFILE, step.request_key, "succeeded", evidence=evidence, by=by)
                    say("confirmed", number=invoice.number)
                    return
        await self.look_up(invoice, step)

    async def look_up(self, invoice: Invoice, step: Step) -> None:
        """Ask the site by request key until the answer counts."""

        async def look(key: str) -> str | None:
            invoices = await asyncio.to_thread(self.site.look_up, key)
            say("looked_up", number=invoice.number, found=len(invoices))
            return f"the site has {len(invoices)} invoice(s) under this key" if invoices else None

        state = await step.reconcile(look, by=f"{self.client.worker}, by look-up", timeout_s=30)
        say("reconciled", number=invoice.number, state=state)


async def work(asked: argparse.Namespace) -> None:
    async with (
        lessor.connect(data_dir=asked.data_dir, worker=asked.name) as client,
        client.run(asked.run, deadline_s=600) as run,
    ):
        say("took", run=asked.run, claim=run.claim)
        worker = Worker(client, run, SiteClient(asked.site), asked.naive)
        if asked.run == LOGIN_RUN:
            await worker.log_in()
        for invoice in asked.invoice or ():
            await worker.settle(invoice)
        say("finishing", run=asked.run)
    say("finished", run=asked.run)


def _invoice(text: str) -> Invoice:
    number, _, amount = text.partition("=")
    return Invoice(number, amount, Fault.NONE)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m lessor.cli.demo.worker", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("--data-dir", type=Path, required=True)
    parser.add_argument("--site", required=True, metavar="URL")
    parser.add_argument("--name", required=True)
    parser.add_argument("--run", choices=(LOGIN_RUN, RUN), required=True)
    parser.add_argument("--invoice", action="append", type=_invoice, metavar="NUMBER=AMOUNT")
    parser.add_argument("--naive", action="store_true", help=argparse.SUPPRESS)
    die_with_parent()
    try:
        asyncio.run(work(parser.parse_args(arguments)))
    except LessorError as error:
        say("failed", code=error.problem.code, message=error.problem.message)
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
