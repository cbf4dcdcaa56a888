"""Which addresses a page may reach."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    Address = IPv4Address | IPv6Address

# Ranges that carry an IPv4 address inside, or that no public host has; `is_global` does not know all of them.
NAT64 = IPv6Network("64:ff9b::/96")
REFUSED_V6 = tuple(
    IPv6Network(network) for network in ("::/96", "64:ff9b:1::/48", "2001::/32", "2002::/16", "fec0::/10")
)


def parse(text: str) -> Address | None:
    """The address a literal stands for, an IPv4 one for a mapped IPv6 one; None for a name."""
    try:
        address = ip_address(text.strip("[]").partition("%")[0])
    except ValueError:
        return None
    if isinstance(address, IPv6Address):
        if address.ipv4_mapped is not None:
            return address.ipv4_mapped
        if address in NAT64:
            return IPv4Address(int(address) & 0xFFFFFFFF)
    return address


def is_public(address: Address) -> bool:
    """Is that an address of the open internet? Neither private, loopback, link-local, shared (CGNAT),
    multicast, reserved nor unspecified."""
    if isinstance(address, IPv6Address) and any(address in network for network in REFUSED_V6):
        return False
    return address.is_global and not (address.is_multicast or address.is_reserved or address.is_unspecified)


def split_authority(authority: str, port: int | None = None) -> tuple[str, int] | None:
    """`host:port` or `[v6]:port` as (host, port), the host in lower case without brackets and trailing dot;
    None when it is neither, or has no port and none is given."""
    host, colon, tail = authority.rpartition(":")
    if not colon or tail.endswith("]"):
        host, tail = authority, "" if port is None else str(port)
    if not (tail.isascii() and tail.isdigit() and 0 < int(tail) < 1 << 16):
        return None
    host = host.strip("[]").rstrip(".").lower()
    return (host, int(tail)) if host and host.isascii() else None


class Policy:
    """Public addresses, and the private `host:port`s that a profile's origins name, as they name them.

    A named host may resolve to a private address; a link-local one (where clouds keep their secrets) must be
    named as an address. A host that is not named reaches public addresses only, whatever it resolves to.
    """

    def __init__(self, allow_private: Iterable[str] = ()) -> None:
        self._named = {named for entry in allow_private if (named := split_authority(entry)) is not None}

    def permits(self, host: str, port: int, address: Address) -> bool:
        """May a request for `host:port` be connected to `address`?"""
        if is_public(address):
            return True
        if (host, port) not in self._named:
            return False
        is_literal = parse(host) is not None
        return is_literal or not (address.is_link_local or address.is_multicast or address.is_unspecified)

    def permits_own(self, host: str, port: int) -> bool:
        """May that request end at an address of this machine?"""
        return (host, port) in self._named
