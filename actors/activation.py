"""Becoming the owner of a profile: win `own`, replay, find the page. Nothing is served before all of it."""

from collections.abc import Callable
from dataclasses import dataclass

from lessor.actors.words import Ports
from lessor.errors import Code, Problem, problem
from lessor.journal import LeaseState, Ledger, fold
from lessor.lease.answers import no_profile
from lessor.lease.recover import Found
from lessor.messages.ids import ProfileKey
from lessor.messages.record import Own
from lessor.ports import BrokerAway, BrowserSpec, Chain, Landed, Session, UnknownRecord

TRIES_MAX = 3


@dataclass(frozen=True, slots=True)
class Activated:
    """The profile is ours under `epoch`; `found` says what became of its last lease's page.

    `revoked`: its `own` says so, and whatever the journal leaves open is to be ended for that reason.
    """

    epoch: int
    ledger: Ledger
    principal: str | None
    session: Session | None
    found: Found
    revoked: bool = False


@dataclass(frozen=True, slots=True)
class NotMine:
    """It is not ours to own: `host` is its live owner, or there is a problem to answer with."""

    problem: Problem
    host: str | None = None
    principal: str | None = None
    """Whose profile it is, where that is known: nobody else hears of the problem."""
    strange: bool = False
    """It was not tried, since only a stranger asked."""


class Activation:
    """One activation, run on the event loop; the actor's state is not touched from here."""

    def __init__(
        self,
        ports: Ports,
        key: ProfileKey,
        until_ms: int,
        creator: str | None,
        asker: str | None,
        on_gone: Callable[[str], None],
        revoker: str | None = None,
    ) -> None:
        self._ports, self._key, self._until_ms = ports, key, until_ms
        self._creator, self._asker, self._on_gone, self._revoker = creator, asker, on_gone, revoker

    async def run(self) -> Activated | NotMine:
        """Bounded by the journal's own bounds; a lost race for `own` is tried again, a few times."""
        for _ in range(TRIES_MAX):
            try:
                result = await self._try()
            except BrokerAway:
                return NotMine(problem(Code.BROKER_UNAVAILABLE, "The broker does not answer: ask again."))
            except UnknownRecord:
                newer = "The profile's journal is of a newer lessor: upgrade this host, or ask one that is."
                return NotMine(problem(Code.UNSUPPORTED, newer))
            if result is not None:
                return result
        return NotMine(problem(Code.MOVED, "Several hosts want this profile: ask again.", retry_after_s=0.5))

    async def _try(self) -> Activated | NotMine | None:
        head = await self._ports.journal.head(self._key)
        refused = await self._refused(head)
        if refused is not None:
            return refused
        principal = head.own.principal if head.own is not None else self._creator
        revoked = self._revoker is not None or (head.own is not None and head.own.state == "revoked")
        own = Own(
            host=self._ports.host,
            incarnation=self._ports.incarnation,
            nonce=self._ports.fresh(),
            boot=self._ports.clock.boot,
            at_ms=self._ports.clock.now_ms(),
            state="revoked" if revoked else "active",
            principal=principal,
        )
        won = await self._ports.journal.append(self._key, own, head.last)
        if not isinstance(won, Landed):
            return None
        chain = await self._ports.journal.replay(self._key, won.sequence)
        if chain.own_sequence != won.sequence:
            return None
        ledger = Ledger()
        for sequence, entry in chain.entries:
            fold(ledger, sequence, entry)
        ledger.epoch, ledger.last, ledger.tail = won.sequence, chain.last, chain.tail
        session, found = await self._find(ledger)
        if revoked and session is not None:
            found = Found(None, await session.kill())
            session = None
        return Activated(won.sequence, ledger, principal, session, found, revoked)

    async def _refused(self, head: Chain) -> NotMine | None:
        own = head.own
        if own is None:
            if self._creator is not None:
                return None
            return NotMine(no_profile(self._key.profile))
        if self._is_strange(own):
            return NotMine(no_profile(self._key.profile), principal=own.principal, strange=True)
        if own.state == "deleted" and self._creator is not None:
            return NotMine(problem(Code.FORBIDDEN, "This name is taken: choose another one."))
        if own.state == "deleted" or (self._revoker is not None and own.principal != self._revoker):
            return NotMine(no_profile(self._key.profile))
        if self._revoker is not None:
            return None
        if own.state == "quarantined" and (own.until_unix_ms or 0) > self._ports.clock.unix_ms():
            left_s = ((own.until_unix_ms or 0) - self._ports.clock.unix_ms()) / 1000
            return NotMine(
                problem(
                    Code.PROFILE_QUARANTINED,
                    "The profile's owner kept crashing and rests now: see the host's log, then ask again.",
                    retry_after_s=left_s,
                ),
                principal=own.principal,
            )
        if own.state == "active" and own.host != self._ports.host:
            other = await self._ports.hosts.alive(own.host)
            if other is not None:
                moved = problem(Code.MOVED, f"Host {own.host!r} owns the profile: ask again.")
                return NotMine(moved, own.host, own.principal)
        return None

    def _is_strange(self, own: Own) -> bool:
        """A stranger's question moves nothing, not even a profile that nobody owns; a page left here is found again."""
        if self._asker is None or own.principal in (None, self._asker):
            return False
        return own.state != "active" or own.host != self._ports.host

    async def _find(self, ledger: Ledger) -> tuple[Session | None, Found]:
        held = ledger.lease
        if held is None or held.phase == "closed":
            return None, Found(None, None)
        if held.boot != self._ports.clock.boot:
            # An earlier boot of this machine took its browsers along. Of another machine's nothing can be
            # confirmed from here: its session has lapsed, so its keeper's deadline is over, and that frees the
            # profile, but no look-up's `not_sent` may rest on it (contract 13).
            return None, Found(None, self._ports.clock.now_ms() if held.host == self._ports.host else None)
        session = await self._readopt(ledger, held)
        until_ms = await session.extend(self._until_ms) if session is not None else None
        if session is not None and until_ms is not None:
            return session, Found(until_ms, None)
        gone_ms = await session.kill() if session is not None else None
        if gone_ms is None:
            gone_ms = await self._ports.browser.confirm_gone(held.instance)
        # Another host's session has lapsed, and with it its keepers' deadlines; ours may still run.
        mine = held.host == self._ports.host
        return None, Found(None, gone_ms, may_run_until_ms=self._until_ms if mine else None)

    async def _readopt(self, ledger: Ledger, held: LeaseState) -> Session | None:
        profile = ledger.profile
        assert profile is not None
        spec = BrowserSpec(
            key=self._key,
            principal=profile.principal,
            provider=held.scope.provider,
            epoch=ledger.epoch,
            instance=held.instance,
            until_ms=self._until_ms,
            origins=profile.origins,
            strict=profile.strict,
            sealed=None,
            generation=held.base,
            target=held.target,
            policy=profile.policy,
        )
        return await self._ports.browser.find(spec, lambda: self._on_gone(held.instance))
