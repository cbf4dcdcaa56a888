"""One line per page operation, with fixed fields, and the same as a span."""

from __future__ import annotations

from typing import Any

import pytest
from structlog.testing import capture_logs

from lessor.actors import trace
from lessor.errors import Code
from lessor.messages.action import Click
from lessor.messages.reply import Acted, Observed
from tests.support.stage import URL, Stage
from tests.support.wire import code

FIELDS = {
    "operation", "lease", "epoch", "claim", "run", "tab", "route", "rung", "queue_ms", "elapsed_ms", "deadline_ms",
    "outcome", "error",
}  # fmt: skip


async def _operations(stage: Stage) -> None:
    await stage.hosted()
    wire = stage.wire("r1")
    await wire.granted()
    await wire.touch(wire.navigating(URL))
    seen = await wire.touch(wire.observing())
    assert isinstance(seen, Observed)
    click = Click(ref=seen.page.elements[0].ref)
    assert isinstance(await wire.touch(wire.acting(click, revision=seen.page.revision)), Acted)
    gap = await wire.touch(wire.acting(click, sequence=9, revision=seen.page.revision))
    assert code(gap) is Code.SEQUENCE_MISMATCH


async def test_each_page_operation_leaves_one_line_of_fixed_fields(stage: Stage) -> None:
    with capture_logs() as logs:
        await _operations(stage)
    lines: list[dict[str, Any]] = [dict(line) for line in logs if line["event"] == "operation"]
    assert [line["operation"] for line in lines] == ["navigate", "observe", "click", "click"]
    assert [line["outcome"] for line in lines] == ["none", "none", "applied", "none"]
    assert [line["error"] is None for line in lines] == [True, True, True, False]
    for line in lines:
        assert set(line) - {"event", "log_level"} == FIELDS
        assert (line["run"], line["tab"], line["claim"]) == ("r1", "main", 1)
        assert 0 <= line["queue_ms"] <= line["elapsed_ms"] <= line["deadline_ms"]
    assert URL not in repr(lines)


async def test_the_same_is_told_as_spans_where_opentelemetry_is_installed(stage: Stage) -> None:
    sdk = pytest.importorskip("opentelemetry.sdk.trace")
    export = pytest.importorskip("opentelemetry.sdk.trace.export")
    memory = pytest.importorskip("opentelemetry.sdk.trace.export.in_memory_span_exporter").InMemorySpanExporter()
    provider = sdk.TracerProvider()
    provider.add_span_processor(export.SimpleSpanProcessor(memory))
    pytest.importorskip("opentelemetry.trace").set_tracer_provider(provider)
    trace._api.cache_clear()
    await _operations(stage)
    spans = memory.get_finished_spans()
    assert [span.name for span in spans] == [
        "lessor.navigate",
        "lessor.observe",
        "lessor.click",
        "lessor.click",
    ]
    for span in spans:
        assert span.attributes["lessor.run"] == "r1"
        assert 0 <= span.end_time - span.start_time < 10_000_000_000
    assert spans[-1].attributes["error.type"] == spans[-1].attributes["lessor.error"]
