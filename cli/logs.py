"""Log lines: to stderr, one line each, never payloads, never the values of a frame's variables."""

import logging
import os
import sys
from typing import Final

import structlog

LEVELS: Final = {"debug": 10, "info": 20, "warning": 30, "error": 40}


def log_to_stderr(default: str) -> None:
    """`default` is the lowest level shown, unless LESSOR_LOG names another one."""
    level = LEVELS.get(os.environ.get("LESSOR_LOG", default).lower(), LEVELS[default])
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True, key="at"),
            structlog.processors.format_exc_info,
            structlog.processors.LogfmtRenderer(key_order=["at", "level", "event"]),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )
    # What libraries say: asyncio and nats warn of what they cannot tell anybody else.
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format='level=%(levelname)s event="%(message)s"')
