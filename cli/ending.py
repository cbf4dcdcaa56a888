"""How a foreground program is told to end: once to settle first, twice to end at once."""

import asyncio
import signal


def on_ending(stop: asyncio.Event, hurry: asyncio.Event) -> None:
    """SIGTERM, SIGINT and a lost terminal set `stop`, the second one `hurry`. What nohup ignores stays ignored."""

    def told() -> None:
        (hurry if stop.is_set() else stop).set()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN or number is not signal.SIGHUP:
            loop.add_signal_handler(number, told)
