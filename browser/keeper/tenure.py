"""Who may use the browser, and until when: the keeper's rules, without a clock and without I/O."""

from __future__ import annotations

from _operator import _compare_digest  # pyright: ignore[reportPrivateUsage]  # hmac would bring hashlib

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Literal

    Reason = Literal["stale_epoch", "bad_secret", "too_late", "bad_deadline"]


def same(one: str, other: str) -> bool:
    """Equality of secrets, in a time that does not tell where they differ."""
    return _compare_digest(one.encode(), other.encode())


class Tenure:
    """The present epoch and its deadline. Every time is an argument, in boot milliseconds; each method
    answers None when it did what was asked, else why not.

    A deadline only ever moves forward within one epoch: an extension below the present deadline is
    acknowledged with the present one. A higher epoch brings its own, which may be nearer, for the bound of
    its owner's session is the only one that counts from then on.
    """

    def __init__(self, epoch: int, until_ms: int, secret: str, max_ttl_ms: int) -> None:
        self.epoch = epoch
        self.deadline_ms = until_ms
        self._secret = secret
        self._max_ttl_ms = max_ttl_ms

    def __repr__(self) -> str:
        return f"<Tenure epoch={self.epoch} deadline_ms={self.deadline_ms}>"

    def admit(self, epoch: int, until_ms: int, secret: str, now_ms: int) -> Reason | None:
        """A host asks for the browser: the same epoch again after a restart, or a higher one."""
        if not same(secret, self._secret):
            return "bad_secret"
        reason = self._refuse_time(until_ms, now_ms)
        if reason is not None:
            return reason
        if epoch < self.epoch:
            return "stale_epoch"
        self.deadline_ms = until_ms if epoch > self.epoch else max(self.deadline_ms, until_ms)
        self.epoch = epoch
        return None

    def assign(self, epoch: int, until_ms: int, secret: str, now_ms: int) -> Reason | None:
        """A browser that is nobody's yet (epoch 0) gets its first owner; there is no predecessor to cut."""
        if not same(secret, self._secret):
            return "bad_secret"
        reason = self._refuse_time(until_ms, now_ms)
        if reason is not None:
            return reason
        if self.epoch != 0 or epoch <= 0:
            return "stale_epoch"
        self.epoch, self.deadline_ms = epoch, until_ms
        return None

    def extend(self, epoch: int, until_ms: int, now_ms: int) -> Reason | None:
        """The admitted host asks for more time. Past the deadline there is nothing left to extend."""
        reason = self._refuse_time(until_ms, now_ms)
        if reason is not None:
            return reason
        if epoch != self.epoch:
            return "stale_epoch"
        self.deadline_ms = max(self.deadline_ms, until_ms)
        return None

    def holds(self, epoch: int, now_ms: int) -> Reason | None:
        """Is that epoch the present one, in time?"""
        if now_ms >= self.deadline_ms:
            return "too_late"
        return None if epoch == self.epoch else "stale_epoch"

    def may_end(self, epoch: int) -> Reason | None:
        """The present owner may end the browser, and so may whoever has superseded it."""
        return "stale_epoch" if epoch < self.epoch else None

    def _refuse_time(self, until_ms: int, now_ms: int) -> Reason | None:
        if now_ms >= self.deadline_ms:
            return "too_late"
        if not now_ms < until_ms <= now_ms + self._max_ttl_ms:
            return "bad_deadline"
        return None
