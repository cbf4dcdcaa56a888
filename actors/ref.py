"""References to actors, for programs that need not know what actors are made of."""

from typing import Any, TypeAlias, TypeGuard

import pykka

Ref: TypeAlias = pykka.ActorRef[Any]


def tell(ref: Ref | None, message: object) -> bool:
    """Put a message into the actor's mailbox; False when there is no such actor any more."""
    if ref is None:
        return False
    try:
        ref.tell(message)
    except pykka.ActorDeadError:
        return False
    return True


def is_ref(value: object) -> TypeGuard[Ref]:
    return isinstance(value, pykka.ActorRef)
