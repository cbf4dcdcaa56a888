"""One line, and one span where OpenTelemetry is installed, per page operation: what was asked, what came of it, when.

Written where the answer leaves, so that nothing that was answered is without one. Fields are fixed and hold no
payloads, no addresses and no text of a page."""

from functools import cache
from importlib import import_module
from time import time_ns
from typing import Any

import structlog

from lessor.journal import Ledger
from lessor.lease.verdict import Desk
from lessor.messages.reply import Acted, Navigated, Observed, Refused, Reply
from lessor.messages.request import Act, Navigate, Observe
from lessor.ports import Call

log = structlog.get_logger("lessor.operation")

NANOS_PER_MS = 1_000_000


def traced(call: Call, reply: Reply, begun_ms: int | None, now_ms: int, ledger: Ledger, desk: Desk) -> None:
    """`begun_ms`: when its turn on the page came; None: it was answered without one. `elapsed_ms` counts from its
    arrival, `deadline_ms` is what it was given then."""
    request = call.request
    if not isinstance(request, Act | Navigate | Observe):
        return
    held = ledger.leases.get(request.lease)
    error = reply.error if isinstance(reply, Refused) else None
    page = reply.page if isinstance(reply, Acted | Navigated | Observed) else None
    recovered = error.recovered if error is not None else page.recovered if page is not None else None
    values: dict[str, Any] = {
        "operation": str(request.action.__struct_config__.tag) if isinstance(request, Act) else _verb(request),
        "lease": request.lease,
        "epoch": desk.epoch,
        "claim": request.claim,
        "run": held.scope.run if held is not None else None,
        "tab": request.tab,
        "route": desk.route,
        "rung": recovered.rung if recovered is not None else None,
        "queue_ms": (begun_ms or now_ms) - call.arrived_ms,
        "elapsed_ms": now_ms - call.arrived_ms,
        "deadline_ms": request.deadline_ms - call.arrived_ms,
        "outcome": str(reply.effect) if isinstance(request, Act) else "none" if error is None else "refused",
        "error": str(error.code) if error is not None else None,
    }
    # A program that embeds lessor and never said where its log goes has not asked for one on its stdout.
    if structlog.is_configured():
        log.info("operation", **values)
    _span(values, desk, now_ms - call.arrived_ms)


def _verb(request: Navigate | Observe) -> str:
    return "navigate" if isinstance(request, Navigate) else "observe"


def _span(values: dict[str, Any], desk: Desk, elapsed_ms: int) -> None:
    tracer = _tracer()
    if tracer is None:
        return
    ended = time_ns()
    attributes = {f"lessor.{name}": value for name, value in values.items() if value is not None}
    span = tracer.start_span(
        f"lessor.{values['operation']}",
        start_time=ended - elapsed_ms * NANOS_PER_MS,
        attributes={**attributes, "lessor.host": desk.host},
    )
    if values["error"] is not None:
        span.set_attribute("error.type", values["error"])
    span.end(end_time=ended)


def _tracer() -> Any:
    """Of the program's own provider, if it set one; None where OpenTelemetry is not installed."""
    api = _api()
    return None if api is None else api.get_tracer("lessor")


@cache
def _api() -> Any:
    try:
        return import_module("opentelemetry.trace")
    except ImportError:
        return None
