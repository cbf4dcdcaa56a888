"""What the demo is to do and what is to go wrong: drawn from a seed, so that a run can be had again."""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from lessor.messages.ids import request_key

TENANT: Final = "local"
PROFILE: Final = "books"
LOGIN_RUN: Final = "login"
RUN: Final = "invoices"
USER: Final = "demo"
SECRET: Final = "books-password"  # noqa: S105 - a name, no value
"""What the host calls the password in its own store."""
SETTLE_S: Final = 2.0
"""What the demo's site declares: nothing that its page sent before is recorded later than this."""

INVOICES_MAX: Final = 20


class Fault(StrEnum):
    """What happens to one invoice on its first try."""

    NONE = "none"
    WORKER_BEFORE_CLICK = "worker killed before the click"
    WORKER_AT_ANSWER = "worker killed after the click, before the answer"
    BROWSER_RECORDED = "browser killed after the site recorded, before it answered"
    BROWSER_LATE = "browser killed, and the site records a second later"
    BROWSER_LOST = "browser killed, and the site never records"

    @property
    def kills_worker(self) -> bool:
        return self in (Fault.WORKER_BEFORE_CLICK, Fault.WORKER_AT_ANSWER)

    @property
    def kills_browser(self) -> bool:
        return self in (Fault.BROWSER_RECORDED, Fault.BROWSER_LATE, Fault.BROWSER_LOST)


@dataclass(frozen=True, slots=True)
class Invoice:
    """One invoice, one step: its request key is the run's name and the invoice's number."""

    number: str
    amount: str
    fault: Fault

    @property
    def step(self) -> str:
        return f"submit {self.number}"

    @property
    def request_key(self) -> str:
        return request_key(RUN, self.step)


def plan(invoices: int, seed: int | None) -> tuple[Invoice, ...]:
    """`invoices` from 1 to 20. Without a seed the first two meet the two faults of the demo's story."""
    drawn = random.Random(0 if seed is None else seed)
    told = (Fault.WORKER_AT_ANSWER, Fault.BROWSER_RECORDED) if seed is None else ()
    found: list[Invoice] = []
    for index in range(invoices):
        amount = f"{drawn.randrange(1_000, 500_000) / 100:.2f}"
        drawn_fault = drawn.choice(tuple(Fault))
        fault = told[index] if index < len(told) else drawn_fault
        found.append(Invoice(f"INV-{2001 + index}", amount, fault))
    return tuple(found)


def count(invoices: Sequence[Invoice], *faults: Fault) -> int:
    return sum(invoice.fault in faults for invoice in invoices)
