"""`lessor up` over a host of the test's own: one that takes its time to drain, or one that keeps dying."""

import asyncio
import os
import sys

import typer

from lessor.cli.answer import Answer, say
from lessor.cli.logs import log_to_stderr
from lessor.cli.up import Started, Up
from lessor.config import Config
from lessor.errors import LessorError

SLOW = """
import signal, sys
signal.signal(signal.SIGTERM, lambda *_: None)
print('{"host": "slow"}', flush=True)
while True:
    signal.pause()
"""
DIES = """print('{"host": "dies"}', flush=True)"""


def ready(started: Started) -> None:
    say(f"lessor is ready: {started.host}".encode())


log_to_stderr("info")
host = DIES if sys.argv[1:] == ["dies"] else SLOW
try:
    asyncio.run(Up(Config.of(os.environ), [sys.executable, "-c", host]).run(ready))
except LessorError as error:
    try:
        Answer(as_json=False).refuse(error.problem)
    except typer.Exit as end:
        sys.exit(end.exit_code)
