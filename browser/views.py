"""What observe.js answers, decoded; references and revisions, and what each revision showed."""

import re
from collections import OrderedDict
from hashlib import sha256

import msgspec

from lessor.messages.action import Element, Observation

REVISIONS_MAX = 16
REFERENCE = re.compile(r"e(\d{1,12})\.([0-9a-f]{16})")
REVISION = re.compile(r"([0-9a-f]{12})\.([0-9a-f]{16})")


class Seen(msgspec.Struct):
    """The view as the page's own world computed it; bounds were applied there."""

    url: str
    title: str
    text: str
    text_total: int
    elements: list[tuple[str, str, list[str], str | None, str]]
    total: int
    truncated: bool
    digest: str
    status: int | None = None


class _Node(msgspec.Struct):
    backend_node_id: int = msgspec.field(name="backendNodeId")
    loader_id: str = msgspec.field(name="loaderId", default="")


class _Deep(msgspec.Struct):
    value: list[dict[str, object]]


class _Remote(msgspec.Struct):
    deep: _Deep = msgspec.field(name="deepSerializedValue")


class _Answer(msgspec.Struct):
    result: _Remote


class Reading(msgspec.Struct):
    """Strings and nodes of one answer, in their order; the first node is the document."""

    strings: list[str]
    loader: str
    nodes: list[int]


def reading(result: dict[str, object]) -> Reading:
    """Take an answer of `serialization: deep` apart. Raises msgspec.ValidationError or ValueError when it is none."""
    values = msgspec.convert(result, _Answer).result.deep.value
    strings = [value["value"] for value in values if value["type"] == "string"]
    nodes = [value["value"] for value in values if value["type"] == "node"]
    document, *elements = msgspec.convert(nodes, list[_Node])
    return Reading(msgspec.convert(strings, list[str]), document.loader_id, [node.backend_node_id for node in elements])


def document_of(loader: str) -> str:
    """The document's half of a revision."""
    return sha256(loader.encode()).hexdigest()[:12]


class Memory:
    """What the last revisions of a tab showed: backend node id to fingerprint. Lost with its host, and then the
    fingerprint inside a reference decides."""

    def __init__(self) -> None:
        self._shown: OrderedDict[str, dict[int, str]] = OrderedDict()

    def fingerprint(self, revision: str, node: int, own: str) -> str | None:
        """The fingerprint that revision showed for the node; None when it did not show it."""
        shown = self._shown.get(revision)
        return own if shown is None else shown.get(node)

    def observation(self, found: Reading, seen: Seen, notices: tuple[str, ...]) -> Observation:
        """The public view, remembered under its revision."""
        revision = f"{document_of(found.loader)}.{seen.digest}"
        shown = {node: element[4] for node, element in zip(found.nodes, seen.elements, strict=True)}
        self._shown[revision] = shown
        self._shown.move_to_end(revision)
        while len(self._shown) > REVISIONS_MAX:
            self._shown.popitem(last=False)
        elements = tuple(
            Element(ref=f"e{node}.{fingerprint}", role=role, name=name, state=tuple(state), value=value)
            for node, (role, name, state, value, fingerprint) in zip(found.nodes, seen.elements, strict=True)
        )
        return Observation(
            url=seen.url,
            title=seen.title,
            revision=revision,
            text=seen.text,
            elements=elements,
            truncated=seen.truncated,
            total=seen.total,
            text_total=seen.text_total,
            notices=notices,
        )
