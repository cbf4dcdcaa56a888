"""What a page can do to whoever drives it, and a browser that can be killed under it."""

from __future__ import annotations

import os
import signal
from typing import Any

from lessor.browser.keeper import state
from lessor.browser.keeper.linux import boot_ms
from lessor.browser.session import LiveSession
from lessor.ports import Away
from tests.support.engines import Rig, soon
from tests.support.web import Web

SLOW_MS = 3000
"""A deadline that leaves room for every rung that a test wants to see."""


def pages(web: Web) -> None:
    """`loop` runs for ever once; `timer` again and again; `promise` never settles; `calm` does nothing."""
    web.pages.update(
        {
            "/calm": "<button>Go</button><script>kept = 7</script>",
            "/loop": "<button>Go</button><script>kept = 42; setTimeout(() => { for (;;); }, 30)</script>",
            "/timer": "<button>Go</button><script>kept = 42; setInterval(() => { for (;;); }, 30)</script>",
            "/promise": "<button>Go</button><script>waiting = new Promise(() => {}); (async () => { await waiting })()"
            "</script>",
            "/dialog": "<button>Go</button><script>setInterval(() => confirm('sure?'), 30)</script>",
        }
    )


async def wedge(session: LiveSession, web: Web, page: str) -> None:
    """Go to a page that loops, and wait until a script has not been answered there for 100 ms."""
    await session.navigate("main", f"{web.origin}/{page}", boot_ms() + 5000)
    await silent(session)


async def silent(session: LiveSession) -> None:
    """Wait until a script has not been answered for 100 ms."""
    while not isinstance(answer := await session.main.call("Runtime.evaluate", soon(100), expression="1"), Away):
        pass
    assert answer is Away.SILENT, answer


async def crash(session: LiveSession) -> None:
    """End the main tab's renderer."""
    await session.main.call("Page.crash", boot_ms() + 300)


def kill(rig: Rig, session: LiveSession) -> None:
    """SIGKILL for the browser itself; its keeper notices."""
    record: Any = state.read(str(rig.root / "live" / "b" / session.instance))
    assert record is not None
    os.kill(record["browser"], signal.SIGKILL)
