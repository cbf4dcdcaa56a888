"""What observe.js answers, decoded; references and revisions, and what each revision showed."""

import re
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256

import msgspec

from lessor.messages.action import Element, Observation

REVISIONS_MAX = 16
REFERENCE = re.compile(r"e(\d{1,12})\.([0-9a-f]{16})(?:\.([0-9a-f]{12}))?")
"""Node, fingerprint, and, for an element of a frame, which frame."""
TEXT_BYTES_MAX = 256 << 10
ELEMENTS_MAX = 256
REVISION = re.compile(r"([0-9a-f]{12})\.([0-9a-f]{16})")


class Seen(msgspec.Struct):
    """The view as the page's own world computed it; bounds were applied there."""

    url: str
    title: str
    text: str
    text_total: int
    elements: list[tuple[str, str, list[str], str | None, str, tuple[int, int, int, int] | None]]
    total: int
    truncated: bool
    digest: str
    status: int | None = None
    frames: tuple[tuple[float, float], ...] = ()
    """Where the contents of the frames begin that can be seen; their nodes follow the elements'."""


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


def frame_key(frame: str) -> str:
    """A frame's name in references."""
    return sha256(frame.encode()).hexdigest()[:12]


@dataclass(frozen=True, slots=True)
class Part:
    """One document of a page: the main one, or that of a frame, whose content begins at `left`, `top` of the page."""

    seen: Seen
    found: Reading
    key: str = ""
    """Of the frame; empty for the main document."""
    left: float = 0.0
    top: float = 0.0

    @property
    def nodes(self) -> list[int]:
        """Of the elements."""
        return self.found.nodes[: len(self.seen.elements)]

    @property
    def frame_nodes(self) -> list[int]:
        return self.found.nodes[len(self.seen.elements) :]


def digest_of(parts: Sequence[Part]) -> str:
    """The second half of a revision: of the whole page, frames included."""
    main, *others = parts
    if not others:
        return main.seen.digest
    told = (f"{part.key} {part.found.loader} {part.seen.digest}" for part in others)
    return sha256("\n".join((main.seen.digest, *told)).encode()).hexdigest()[:16]


class Memory:
    """What the last revisions of a tab showed: node and frame to fingerprint. Lost with its host, and then the
    fingerprint inside a reference decides."""

    def __init__(self) -> None:
        self._shown: OrderedDict[str, dict[tuple[int, str], str]] = OrderedDict()

    def fingerprint(self, revision: str, node: int, own: str, frame: str) -> str | None:
        """The fingerprint that revision showed for the node; None when it did not show it."""
        shown = self._shown.get(revision)
        return own if shown is None else shown.get((node, frame))

    def observation(self, parts: Sequence[Part], notices: tuple[str, ...], unreachable: int = 0) -> Observation:
        """The public view, remembered under its revision."""
        main = parts[0]
        revision = f"{document_of(main.found.loader)}.{digest_of(parts)}"
        listed = [each for part in parts for each in _elements(part)][:ELEMENTS_MAX]
        total = sum(part.seen.total for part in parts)
        text, is_cut = _text(parts)
        self._shown[revision] = {shown: fingerprint for shown, fingerprint, _ in listed}
        self._shown.move_to_end(revision)
        while len(self._shown) > REVISIONS_MAX:
            self._shown.popitem(last=False)
        return Observation(
            url=main.seen.url,
            title=main.seen.title,
            revision=revision,
            text=text,
            elements=tuple(element for _, _, element in listed),
            truncated=is_cut or total > len(listed) or any(part.seen.truncated for part in parts),
            total=total,
            text_total=sum(part.seen.text_total for part in parts),
            notices=notices,
            unreachable=unreachable,
        )


def _elements(part: Part) -> Iterator[tuple[tuple[int, str], str, Element]]:
    suffix = f".{part.key}" if part.key else ""
    for node, (role, name, state, value, fingerprint, box) in zip(part.nodes, part.seen.elements, strict=True):
        element = Element(
            ref=f"e{node}.{fingerprint}{suffix}",
            role=role,
            name=name,
            state=tuple(state),
            value=value,
            box=None if box is None else (round(box[0] + part.left), round(box[1] + part.top), box[2], box[3]),
        )
        yield (node, part.key), fingerprint, element


def _text(parts: Sequence[Part]) -> tuple[str, bool]:
    """The documents' texts one after the other, as far as they fit; whether one did not."""
    main, *others = parts
    text, is_cut = main.seen.text, False
    for part in others:
        joined = f"{text}\n{part.seen.text}" if text and part.seen.text else text or part.seen.text
        if len(msgspec.json.encode(joined)) - 2 > TEXT_BYTES_MAX:
            is_cut = True
        else:
            text = joined
    return text, is_cut
