"""What a host tells the keeper it starts: one JSON object on its standard input, since it holds a secret."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TypedDict

    class Config(TypedDict):
        """`until_ms` is a boot time; `max_ttl_ms` bounds how far ahead any deadline may lie; the guard
        strikes `guard_ms` after a deadline that the keeper slept through."""

        directory: str
        user_data: str
        chromium: str
        arguments: list[str]
        environment: dict[str, str]
        epoch: int
        until_ms: int
        secret: str
        max_ttl_ms: int
        guard_ms: int
