"""How often, and after what pause, something that died is started again."""

from dataclasses import dataclass, field
from typing import Final

RESTARTS_MAX: Final = 5
WITHIN_S: Final = 60.0
FIRST_PAUSE_S: Final = 0.1


@dataclass(slots=True)
class Restarts:
    """At most 5 in 60 s, with pauses of 0.1, 0.2, 0.4 ... s between them."""

    begun_s: list[float] = field(default_factory=list[float])

    def pause_s(self, now_s: float) -> float | None:
        """How long to wait before the next one; None when there have been too many."""
        self.begun_s = [begun for begun in self.begun_s if now_s - begun < WITHIN_S]
        if len(self.begun_s) >= RESTARTS_MAX:
            return None
        self.begun_s.append(now_s)
        return FIRST_PAUSE_S * 2.0 ** (len(self.begun_s) - 1)
