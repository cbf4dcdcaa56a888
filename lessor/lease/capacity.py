"""How many browsers one host runs, for whom, and who is next when it is full (contract 2; L11). Pure.

Waiting is polling: a profile that was refused keeps its place for `place_s` after its last poll. A free place goes
to the tenant that would hold the fewest browsers with it, among equals to who came first.
"""

from dataclasses import dataclass, field

from lessor.errors import Code, Problem, problem
from lessor.limits import Limits, ms
from lessor.messages.ids import ProfileKey

RETRY_S = 0.5


@dataclass(slots=True)
class _Place:
    asked_ms: int
    kept_until_ms: int


@dataclass(slots=True)
class Capacity:
    """Kept by the host's supervisor; each profile has one browser at most."""

    limits: Limits
    live: set[ProfileKey] = field(default_factory=set[ProfileKey])
    waiting: dict[ProfileKey, _Place] = field(default_factory=dict[ProfileKey, _Place])

    def ask(self, key: ProfileKey, now_ms: int) -> Problem | None:
        """None: start the browser, its place is taken. Else `capacity`, with the asker's position (from 1)."""
        if key in self.live:
            return None
        self._forget(now_ms)
        if self._held(key.tenant) >= self.limits.tenant_leases_max:
            self.waiting.pop(key, None)
            return problem(
                Code.CAPACITY,
                f"The tenant has its {self.limits.tenant_leases_max} browsers on this host: close one, or ask again.",
                retry_after_s=RETRY_S,
            )
        kept_until_ms = now_ms + ms(self.limits.place_s)
        place = self.waiting.setdefault(key, _Place(now_ms, kept_until_ms))
        place.kept_until_ms = kept_until_ms
        position = self._order().index(key) + 1
        if position <= self.limits.browsers_max - len(self.live):
            del self.waiting[key]
            self.live.add(key)
            return None
        return problem(
            Code.CAPACITY,
            f"The host has its {self.limits.browsers_max} browsers: ask again (you are number {position}), close one,"
            " or add a host.",
            retry_after_s=RETRY_S,
            position=position,
        )

    def found(self, key: ProfileKey) -> None:
        """A browser lives that was not asked for: one that a restarted host has found again."""
        self.live.add(key)
        self.waiting.pop(key, None)

    def free(self, key: ProfileKey) -> None:
        self.live.discard(key)

    def _held(self, tenant: str) -> int:
        return sum(key.tenant == tenant for key in self.live)

    def _forget(self, now_ms: int) -> None:
        self.waiting = {key: place for key, place in self.waiting.items() if place.kept_until_ms > now_ms}

    def _order(self) -> list[ProfileKey]:
        """Who would be served first, second …: the n-th of a tenant counts like one that holds n - 1 more."""
        would_hold: dict[ProfileKey, int] = {}
        holds: dict[str, int] = {}
        for key in sorted(self.waiting, key=lambda one: self.waiting[one].asked_ms):
            holds[key.tenant] = would_hold[key] = holds.get(key.tenant, self._held(key.tenant)) + 1
        return sorted(would_hold, key=lambda one: (would_hold[one], self.waiting[one].asked_ms))
