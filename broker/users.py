"""The users of a broker: what each may say and hear there, as nats-server's configuration has it.

A worker's user may publish below its own subjects and listen in its own inboxes, nothing else: so what
a subject says is true, and nobody hears another's answers. The host's user has no bounds.
"""

from typing import Final

import msgspec

from lessor.messages.ids import Caller

OPERATORS: Final = "$SRV.>"
"""Which hosts there are, and how busy: for whoever owns the data directory."""


class Permissions(msgspec.Struct, frozen=True, kw_only=True):
    publish: tuple[str, ...]
    subscribe: tuple[str, ...]


class User(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`nkey` is a public key: the configuration holds nothing that anybody could enter with."""

    nkey: str
    permissions: Permissions | None = None

    @property
    def caller(self) -> Caller | None:
        """Whose user this is; None: the host's, or somebody's whom an operator added by hand."""
        match self.permissions and self.permissions.publish[0].split("."):
            case ["lessor", "v1", tenant, principal, ">"]:
                return Caller(tenant, principal)
            case _:
                return None


class Authorization(msgspec.Struct, frozen=True, kw_only=True):
    """Without users: a directory of an earlier version, which had one token for everybody."""

    users: tuple[User, ...] = ()

    def of(self, caller: Caller) -> User | None:
        return next((user for user in self.users if user.caller == caller), None)

    def having(self, user: User) -> "Authorization":
        """With this user in place of the earlier one of the same caller, or of the host."""
        places = [
            (one.permissions is None, one.caller) == (user.permissions is None, user.caller) for one in self.users
        ]
        if not any(places):
            return Authorization(users=(*self.users, user))
        return Authorization(users=tuple(user if same else one for one, same in zip(self.users, places, strict=True)))

    def without(self, caller: Caller) -> "Authorization":
        return Authorization(users=tuple(user for user in self.users if user.caller != caller))


def inbox_prefix(caller: Caller) -> str:
    """Below it all of a caller's answers arrive."""
    return f"_INBOX.{caller.tenant}.{caller.principal}"


def user_of(caller: Caller, nkey: str, *, operates: bool = False) -> User:
    publish = (f"lessor.v1.{caller.tenant}.{caller.principal}.>", *([OPERATORS] if operates else []))
    return User(nkey=nkey, permissions=Permissions(publish=publish, subscribe=(f"{inbox_prefix(caller)}.>",)))


def host_user(nkey: str) -> User:
    return User(nkey=nkey)


def snippet(user: User) -> str:
    """For the configuration of a broker that somebody else runs."""
    return msgspec.json.format(msgspec.json.encode(user), indent=2).decode()
