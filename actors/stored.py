"""Work on sealed objects for an owner: open and encrypt anew, try in a browser, remove (contract 25-28)."""

import asyncio
import contextlib
import hashlib

from lessor.actors.words import Ports
from lessor.errors import Code, Problem, problem
from lessor.findings import Away
from lessor.lease.verdict import ChoreOver, RemoveObjects, Reseal, Sealed, SweepObjects, TryState
from lessor.messages.ids import ProfileKey
from lessor.messages.record import ProfileChanged
from lessor.ports import Binding, BrokerAway, BrowserSpec, SealedState, Session

PROVIDER = "chromium"
CHECK_SHARE = 0.6
"""How much of its time the health check may take; the rest is the seal's."""
CLOSES_MS = 2000


def check_by_ms(now_ms: int, until_ms: int) -> int:
    return now_ms + round((until_ms - now_ms) * CHECK_SHARE)


class Stored:
    """The sealed objects of one profile, under one epoch."""

    def __init__(self, ports: Ports, key: ProfileKey, epoch: int) -> None:
        self._ports, self._key, self._epoch = ports, key, epoch

    def __repr__(self) -> str:
        return f"<Stored {self._key} epoch {self._epoch}>"

    async def put(self, generation: int, state: SealedState) -> Sealed | Problem:
        """Under a name that nobody else has; read back (contract 25)."""
        name = f"{self._key.tenant}/{self._key.profile}/{generation}-{self._epoch}-{self._ports.fresh()}"
        digest = hashlib.sha256(state.sealed).hexdigest()
        try:
            stored = await self._ports.vault.put(name, state.sealed)
        except BrokerAway:
            return problem(Code.BROKER_UNAVAILABLE, "the store did not take it.")
        if stored != digest:
            return problem(Code.SEAL_FAILED, "the store gave back something else.")
        return Sealed(name, digest, len(state.sealed), state.key_id)

    async def reseal(self, order: Reseal, profile: ProfileChanged) -> ChoreOver:
        """A rollback seals with the profile's origins of today; a rewrap changes nothing but the key."""
        old = order.sealed
        sealed = await self._get(old.object, old.sha256)
        if isinstance(sealed, Problem):
            return ChoreOver(order.slot, sealed)
        again = old.number == order.becomes
        was = self._binding(profile, old.origins, old.number)
        becomes = self._binding(profile, old.origins if again else profile.origins, order.becomes)
        state = await self._ports.browser.reseal(sealed, was, becomes)
        if isinstance(state, Problem):
            return ChoreOver(order.slot, problem(Code.NEEDS_USER, state.message))
        return ChoreOver(order.slot, await self.put(order.becomes, state))

    def _binding(self, profile: ProfileChanged, origins: tuple[str, ...], generation: int) -> Binding:
        return Binding(self._key, profile.principal, PROVIDER, origins, generation)

    async def _get(self, name: str, sha256: str) -> bytes | Problem:
        try:
            sealed = await self._ports.vault.get(name, sha256)
        except BrokerAway:
            return problem(Code.BROKER_UNAVAILABLE, "The sealed state cannot be read now: ask again.")
        if sealed is None:
            lost = "The sealed state is missing or damaged in the store: roll the profile back, or log it in."
            return problem(Code.NEEDS_USER, lost)
        return sealed

    async def try_state(self, order: TryState, profile: ProfileChanged, keeper_ms: int) -> ChoreOver:
        """In a browser that is ended before the answer, and by its keeper's deadline if this host dies."""
        sealed: bytes | None = None
        if order.object is not None:
            found = await self._get(order.object, order.sha256)
            if isinstance(found, Problem):
                return ChoreOver(order.slot, found)
            sealed = found
        spec = BrowserSpec(
            key=self._key,
            principal=profile.principal,
            provider=PROVIDER,
            epoch=self._epoch,
            instance=order.instance,
            until_ms=min(order.until_ms + CLOSES_MS, keeper_ms),
            origins=profile.origins,
            strict=profile.strict,
            sealed=sealed,
            generation=order.generation,
            sealed_origins=order.origins or None,
        )
        session = await self._ports.browser.start(spec, lambda: None)
        if isinstance(session, Problem):
            broken = session.code is Code.SETUP_FAILED and sealed is not None
            return ChoreOver(order.slot, problem(Code.NEEDS_USER, session.message) if broken else session)
        try:
            return ChoreOver(order.slot, await self._tried(session, order, profile))
        finally:
            await asyncio.shield(session.kill())

    async def _tried(self, session: Session, order: TryState, profile: ProfileChanged) -> Sealed | Problem:
        gone = problem(Code.BROWSER_GONE, "The browser did not answer: ask again.")
        if profile.health is not None:
            check_ms = check_by_ms(self._ports.clock.now_ms(), order.until_ms)
            wrong = await session.check(profile.health, check_ms)
            if wrong is not None:
                return gone if isinstance(wrong, Away) else wrong
        # The visit may have changed the state, for instance by a token that the site exchanged for a new one.
        state = await session.seal(order.becomes, order.until_ms)
        if isinstance(state, Problem | Away):
            return gone if isinstance(state, Away) else state
        return await self.put(order.becomes, state)

    async def remove(self, order: RemoveObjects) -> ChoreOver:
        try:
            for name in await self._ports.vault.names(self._key):
                await self._ports.vault.delete(name)
        except BrokerAway:
            away = "The store does not answer: what is left is removed when you ask again."
            return ChoreOver(order.slot, problem(Code.BROKER_UNAVAILABLE, away))
        return ChoreOver(order.slot, None)

    async def sweep(self, order: SweepObjects) -> None:
        """What cannot be removed now is removed by a later sweep."""
        with contextlib.suppress(BrokerAway):
            for name in await self._ports.vault.names(self._key):
                if name not in order.keep and (name in order.old or self._left_by_another(name)):
                    await self._ports.vault.delete(name)

    def _left_by_another(self, name: str) -> bool:
        """A name that tells no epoch is nobody's of ours: it stays."""
        parts = name.rsplit("/", 1)[-1].split("-", 2)
        return len(parts) == 3 and parts[1].isdigit() and int(parts[1]) < self._epoch
