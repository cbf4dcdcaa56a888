"""`lessor doctor`: what a host needs, each checked, each with its remedy."""

import asyncio
from typing import TYPE_CHECKING

import typer

from lessor.cli.answer import Answer, table, tell
from lessor.cli.call import UNWIND_S_MAX, Where
from lessor.cli.logs import log_to_stderr
from lessor.cli.options import DataDir, Json, Nats, Timeout
from lessor.cli.progress import AFTER_S, Progress
from lessor.errors import Exit

if TYPE_CHECKING:
    from lessor.cli.finding import Check, Finding
    from lessor.config import Config


def doctor(data_dir: DataDir = None, nats: Nats = None, as_json: Json = False, timeout: Timeout = 30.0) -> None:
    """Check browser, sandbox, broker, directories, keys and clock; say how to mend what is wrong."""
    import msgspec

    from lessor.cli.checks import CHECKS

    log_to_stderr("error")
    config = msgspec.structs.replace(Where(data_dir, nats).config(), nats_url=nats)
    findings = asyncio.run(_all(CHECKS, config, timeout))
    answer = Answer(as_json)
    answer.give(
        {"checks": findings, "ok": not _failed(findings)},
        lambda out: table(
            out,
            ("CHECK", "RESULT", "FOUND", "REMEDY"),
            [(one.check, one.result, one.found, one.remedy) for one in findings],
        ),
    )
    if _failed(findings):
        tell("lessor: setup_failed: mend what fails, then run lessor doctor again")
        raise typer.Exit(Exit.SETUP)


def _failed(findings: "list[Finding]") -> bool:
    return any(one.result == "fail" for one in findings)


async def _all(checks: "dict[str, Check]", config: "Config", timeout_s: float) -> "list[Finding]":
    """One after the other, within one deadline; what found no time says so."""
    from lessor.cli.finding import fail

    loop = asyncio.get_running_loop()
    until = loop.time() + timeout_s
    progress = Progress("looking at the browser, the broker and the directories")
    timer = loop.call_later(AFTER_S, progress.show)
    findings: list[Finding] = []
    for name, check in checks.items():
        task = asyncio.ensure_future(check(config))
        await asyncio.wait({task}, timeout=max(0.01, until - loop.time()))
        if not task.done():
            task.cancel()
            await asyncio.wait({task}, timeout=UNWIND_S_MAX)
            findings.append(fail(name, f"not checked within {timeout_s:g} s", "Allow more with --timeout."))
        else:
            findings.append(task.result())
    timer.cancel()
    progress.end()
    return findings
