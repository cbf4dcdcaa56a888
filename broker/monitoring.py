"""What a nats-server says of itself over HTTP. Blocking, 1 s: not for the event loop."""

import http.client
from typing import Final, TypeVar

import msgspec

ANSWER_S_MAX: Final = 1.0
ANSWER_BYTES_MAX: Final = 1_000_000

T = TypeVar("T")


def ask(monitoring: str, page: str, kind: type[T]) -> T | None:
    """A page such as `/varz`; None: not readable. `monitoring` is `host:port`, with a base path where there is one."""
    address, slash, base = monitoring.partition("/")
    host, _, port = address.rpartition(":")
    peer = http.client.HTTPConnection(host, int(port), timeout=ANSWER_S_MAX)
    try:
        peer.request("GET", f"{slash}{base}{page}")
        answer = peer.getresponse()
        return msgspec.json.decode(answer.read(ANSWER_BYTES_MAX), type=kind) if answer.status == 200 else None
    except (OSError, http.client.HTTPException, msgspec.DecodeError):
        return None
    finally:
        peer.close()
