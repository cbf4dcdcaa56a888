"""The contract's numbers. Configurable for tests and tight places; the maxima are hard."""

from typing import Final

import msgspec

HORIZON_S_MAX: Final = 900.0
LIFE_S_MAX: Final = 3600.0


class Limits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Bounds in seconds unless the name says otherwise (contract, Numbers)."""

    horizon_s_max: float = HORIZON_S_MAX
    life_s_max: float = LIFE_S_MAX
    tick_s: float = 60.0
    renew_below_s: float = 300.0
    closing_s: float = 15.0
    seal_s: float = 60.0
    seal_retry_s: float = 1.0

    session_ttl_s: float = 40.0
    beat_s: float = 5.0
    margin_s: float = 5.0
    outage_s: float = 20.0
    reconnect_s: float = 4.0

    start_s: float = 5.0
    navigate_s: float = 20.0
    act_s: float = 30.0
    observe_s: float = 10.0
    close_s: float = 10.0
    look_s: float = 2.0
    """The last bounded observation of a page that is being retired."""
    overrun_s: float = 10.0
    """How long past its own bound an operation is awaited before its page is killed."""

    ceremony_s: float = 300.0
    """How long a person has to log in."""

    wait_s_max: float = 5.0
    place_s: float = 10.0
    hold_s: float = 10.0
    """How long a started browser waits for the poll that it was started for."""
    reading_s_max: float = 1.0
    idle_s: float = 30.0
    """A profile without lease, queue or question is released after this."""

    queue_max: int = 64
    lane_max: int = 64
    remembered_max: int = 64
    inflight_max: int = 1024
    browsers_max: int = 32
    tenant_leases_max: int = 32
    """Browsers of one tenant on one host."""
    tenant_queue_max: int = 256
    """Places in the queues of one tenant's profiles on one host."""
    tenant_acts_per_s: float = 500.0
    """Acts of one tenant that one host takes in, on average over a second."""
    warm_max: int = 1
    warm_s: float = 60.0
    restarts_max: int = 5
    restarts_s: float = 60.0
    quarantine_s: float = 600.0

    @property
    def keeper_s(self) -> float:
        """The keeper's deadline: send time of the last acknowledged session beat + this."""
        return self.session_ttl_s - self.margin_s

    def contradictions(self) -> tuple[str, ...]:
        """What a start-up check refuses, a sentence each; empty when the settings fit together."""
        found: list[str] = []
        if self.horizon_s_max > HORIZON_S_MAX or self.life_s_max > LIFE_S_MAX:
            found.append(f"horizon_s_max is at most {HORIZON_S_MAX:g} and life_s_max at most {LIFE_S_MAX:g}.")
        needed = self.margin_s + self.beat_s + self.outage_s + self.reconnect_s
        if self.session_ttl_s < needed:
            found.append(
                f"session_ttl_s ({self.session_ttl_s:g}) is below margin + beat + outage + reconnect"
                f" ({needed:g}): a short broker outage would cost every page. Raise it or lower those."
            )
        if self.session_ttl_s < 1 or self.session_ttl_s != int(self.session_ttl_s):
            found.append("session_ttl_s is a whole number of seconds, at least 1.")
        if self.quarantine_s < self.session_ttl_s:
            found.append(
                f"quarantine_s ({self.quarantine_s:g}) is below session_ttl_s ({self.session_ttl_s:g}): a page of the"
                " quarantined profile could still be up when the next host takes it."
            )
        if self.closing_s >= self.horizon_s_max or self.renew_below_s >= self.horizon_s_max:
            found.append("closing_s and renew_below_s lie below horizon_s_max.")
        if self.horizon_s_max > self.life_s_max:
            found.append("horizon_s_max is at most life_s_max.")
        return tuple(found)


def ms(seconds: float) -> int:
    """Seconds to whole milliseconds."""
    return round(seconds * 1000)
