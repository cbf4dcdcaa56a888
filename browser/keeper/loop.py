"""A thin loop over epoll: one callback per file descriptor."""

from __future__ import annotations

import select

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

READ = select.EPOLLIN
WRITE = select.EPOLLOUT
BROKEN = select.EPOLLHUP | select.EPOLLERR


class Loop:
    """Calls back with the events of a descriptor. One thread; callbacks may watch and forget freely."""

    def __init__(self) -> None:
        self._epoll = select.epoll()
        self._watched: dict[int, tuple[int, Callable[[int], None]]] = {}

    def watch(self, fd: int, events: int, callback: Callable[[int], None]) -> None:
        """Call `callback(events)` when `fd` is ready; replaces what was watched there."""
        known = self._watched.get(fd)
        if known is None:
            self._epoll.register(fd, events)
        elif known[0] != events:
            self._epoll.modify(fd, events)
        self._watched[fd] = (events, callback)

    def forget(self, fd: int) -> None:
        """Stop watching; must come before the descriptor is closed."""
        if self._watched.pop(fd, None) is not None:
            self._epoll.unregister(fd)

    def run(self) -> None:
        """Serve for ever; the process ends from a callback."""
        while True:
            for fd, events in self._epoll.poll():
                watched = self._watched.get(fd)
                if watched is not None:
                    watched[1](events)
