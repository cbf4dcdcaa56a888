"""lessor leases logged-in browser profiles to agent runs, and never does a side effect twice. Linux only.

Workers: `async with lessor.connect() as client`. Embedding: `async with lessor.Runtime(config)`.
"""

from typing import TYPE_CHECKING, Any

from lessor.errors import Code, Effect, LeaseInvalid, LessorError, OutcomeUnknown, Problem, Unavailable
from lessor.limits import Limits
from lessor.messages.action import Check, Click, Hover, Press, Scroll, Select, Type
from lessor.messages.health import HealthCheck
from lessor.messages.step import Expectation

if TYPE_CHECKING:
    from lessor.client import Client, Lease, Run, connect
    from lessor.config import Config
    from lessor.reconcilers import Asking, ConfirmationPage, Found, HttpLookup, Person
    from lessor.runtime import Runtime
    from lessor.stepping import Step, reconcile

__all__ = [
    "Asking",
    "Check",
    "Click",
    "Client",
    "Code",
    "Config",
    "ConfirmationPage",
    "Effect",
    "Expectation",
    "Found",
    "HealthCheck",
    "Hover",
    "HttpLookup",
    "Lease",
    "LeaseInvalid",
    "LessorError",
    "Limits",
    "OutcomeUnknown",
    "Person",
    "Press",
    "Problem",
    "Run",
    "Runtime",
    "Scroll",
    "Select",
    "Step",
    "Type",
    "Unavailable",
    "connect",
    "reconcile",
]

_LAZY = {
    "Client": "client",
    "Lease": "client",
    "Run": "client",
    "Step": "stepping",
    "connect": "client",
    "reconcile": "stepping",
    "Asking": "reconcilers",
    "ConfirmationPage": "reconcilers",
    "Found": "reconcilers",
    "HttpLookup": "reconcilers",
    "Person": "reconcilers",
    "Config": "config",
    "Runtime": "runtime",
}


def __getattr__(name: str) -> Any:
    """Load what needs pykka and nats only when it is asked for: the rules import this package too."""
    module = _LAZY.get(name)
    if module is None:
        raise AttributeError(f"module 'lessor' has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(f"lessor.{module}"), name)
