"""The one place that decides what of an address or of somebody's words may be written down.

Everything that reaches the journal as text passes here: addresses that were visited, targets, checkpoints,
evidence. What is typed never gets this far: an intent names role and name of its target, and the payload is a
hash. Pure.
"""

import re
from typing import Final

ADDRESS_MAX: Final = 1024
GONE: Final = "[redacted]"

_ADDRESS: Final = re.compile(r"\bhttps?://[^\s\"'<>]+")
_NAMED: Final = re.compile(
    r"(?i)\b(pass(?:word|wd|phrase)?|pwd|pin|otp|secret|token|[a-z]*[-_]?token|(?:set-)?cookie|authorization|api[-_]?key"
    r"|session(?:[-_]?id)?|sid|csrf)\b(\s*[:=]\s*)(?:(?:bearer|basic)\s+)?[^\s,;&]+"
)
_BEARER: Final = re.compile(r"(?i)\b(bearer|basic)\s+[a-z0-9._~+/=-]{8,}")
_JWT: Final = re.compile(r"\beyJ[\w-]{6,}\.[\w-]+\.[\w-]*")


def address(url: str) -> str:
    """An address without credentials, query and fragment: those carry tokens."""
    bare = url.split("?", 1)[0].split("#", 1)[0]
    scheme, mark, rest = bare.partition("://")
    if mark:
        host, slash, path = rest.partition("/")
        bare = f"{scheme}://{host.rpartition('@')[2]}{slash}{path}"
    return bare[:ADDRESS_MAX]


def words(text: str) -> str:
    """Free text of a worker or a person: addresses lose what `address` cuts off, named secrets their values."""
    text = _ADDRESS.sub(lambda found: address(found[0]), text)
    text = _JWT.sub(GONE, text)
    text = _NAMED.sub(rf"\1\2{GONE}", text)
    return _BEARER.sub(rf"\1 {GONE}", text)
