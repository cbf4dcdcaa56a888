"""The payload hash of an act: what makes two requests for one number the same."""

import hashlib

import msgspec

from lessor.messages.request import Act

_encoder = msgspec.json.Encoder(order="deterministic")


def payload_hash(act: Act) -> str:
    """sha256 over what the act does: tab, revision, action, match, step, constraint; not over ids and deadlines."""
    constraint = () if act.constraint is None else (act.constraint,)
    body = _encoder.encode((act.tab, act.revision, act.action, act.match, act.step, *constraint))
    return hashlib.sha256(body).hexdigest()


def text_hash(text: str) -> str:
    """sha256 of a page's text: evidence that says nothing of the text itself."""
    return hashlib.sha256(text.encode()).hexdigest()


def digest(stored: bytes) -> str:
    """sha256 of an entry as it is stored: what its successor names as `prev`."""
    return hashlib.sha256(stored).hexdigest()
