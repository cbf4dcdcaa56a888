"""Names and ids. What a name may look like is decided here, once.

Patterns end in `\\Z`: `$` would let a trailing newline through, into a NATS subject.
"""

import hashlib
from typing import Annotated

import msgspec

Name = Annotated[str, msgspec.Meta(pattern=r"^[a-z0-9][a-z0-9_-]{0,62}\Z")]
"""Tenant, principal, profile, run, host, worker, tab: one NATS subject token."""

Id = Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9_-]{1,64}\Z")]
"""Opaque ids made by one side: request, lease, holder, instance, nonce."""

StepId = Annotated[str, msgspec.Meta(min_length=1, max_length=200)]
RequestKey = Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f]{64}\Z")]
Origin = Annotated[str, msgspec.Meta(pattern=r"^https?://[a-z0-9.\-\[\]:]{1,255}\Z")]
Url = Annotated[str, msgspec.Meta(min_length=1, max_length=8192)]

Claim = Annotated[int, msgspec.Meta(ge=1, le=2**53)]
Sequence = Annotated[int, msgspec.Meta(ge=1, le=2**53)]
Attempt = Annotated[int, msgspec.Meta(ge=1, le=1_000_000)]
Seconds = Annotated[float, msgspec.Meta(gt=0, le=86_400)]
BoottimeMs = Annotated[int, msgspec.Meta(ge=0, le=2**53)]


class ProfileKey(msgspec.Struct, frozen=True, order=True):
    """Which profile: names are unique per tenant."""

    tenant: Name
    profile: Name

    def __str__(self) -> str:
        return f"{self.tenant}/{self.profile}"


class RunKey(msgspec.Struct, frozen=True, order=True):
    """Which run: names are unique per tenant."""

    tenant: Name
    run: Name

    def __str__(self) -> str:
        return f"{self.tenant}/{self.run}"


class Caller(msgspec.Struct, frozen=True):
    """Who asks, as the broker authenticated it by subject permissions."""

    tenant: Name
    principal: Name


def request_key(task_id: str, step_id: str) -> str:
    """The idempotency key of a step: stable over attempts, unique per tenant and profile (contract, Words)."""
    return hashlib.sha256(f"{task_id}:{step_id}".encode()).hexdigest()
