"""Writing a quarantine where the next host reads it, so that it does not repeat the loop."""

from lessor.actors.words import Ports
from lessor.limits import ms
from lessor.messages.ids import ProfileKey
from lessor.messages.record import Own
from lessor.ports import BrokerAway


async def quarantine(ports: Ports, key: ProfileKey) -> None:
    """Write `own` as quarantined, if the profile is still this host's. The lease's keeper ends by its deadline."""
    try:
        head = await ports.journal.head(key)
    except BrokerAway:
        return
    if head.own is None or head.own.host != ports.host:
        return
    own = Own(
        host=ports.host,
        incarnation=ports.incarnation,
        nonce=ports.fresh(),
        boot=ports.clock.boot,
        at_ms=ports.clock.now_ms(),
        state="quarantined",
        principal=head.own.principal,
        until_unix_ms=ports.clock.unix_ms() + ms(ports.limits.quarantine_s),
    )
    await ports.journal.append(key, own, head.last)
