"""What can be done on a page, and what a page shows."""

from typing import Annotated, Literal

import msgspec

from lessor.errors import Recovered
from lessor.messages.ids import Id, Name, RequestKey, StepId

Match = Literal["target", "page"]
"""What must be unchanged since the revision for an act to go ahead."""

Text = Annotated[str, msgspec.Meta(max_length=65_536)]
Reference = Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9._-]{1,64}\Z")]
Revision = Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9._-]{1,64}\Z")]


class Action(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="do"):
    """One input to the page. `ref` names an element of the observation whose revision the act carries."""


class Click(Action, frozen=True, kw_only=True, tag="click"):
    """Press and release the primary button in the middle of the element."""

    ref: Reference


class Type(Action, frozen=True, kw_only=True, tag="type"):
    """Replace the element's text. Password and one-time-code fields take only a `secret`: a name at the host."""

    ref: Reference
    text: Text = ""
    secret: Name | None = None

    def __post_init__(self) -> None:
        if self.secret is not None and self.text:
            raise ValueError("a type action has a text or a secret, not both")


class Select(Action, frozen=True, kw_only=True, tag="select"):
    """Choose options by value or by label."""

    ref: Reference
    options: Annotated[tuple[Text, ...], msgspec.Meta(max_length=64)]


class Check(Action, frozen=True, kw_only=True, tag="check"):
    """Make a checkbox or radio button `on` (or not)."""

    ref: Reference
    on: bool = True


class Press(Action, frozen=True, kw_only=True, tag="press"):
    """Press one key or chord (`Enter`, `Control+a`), on the element or, without one, on what has the focus."""

    key: Annotated[str, msgspec.Meta(min_length=1, max_length=40)]
    ref: Reference | None = None


class Scroll(Action, frozen=True, kw_only=True, tag="scroll"):
    """Bring the element into view, or scroll the page by `by_px`."""

    ref: Reference | None = None
    by_px: Annotated[int, msgspec.Meta(ge=-100_000, le=100_000)] = 0


class Upload(Action, frozen=True, kw_only=True, tag="upload"):
    """Give a file field whole artifacts of this lease, by id; no file of the host, and none of another lease."""

    ref: Reference
    artifacts: Annotated[tuple[Id, ...], msgspec.Meta(min_length=1, max_length=16)]


class Hover(Action, frozen=True, kw_only=True, tag="hover"):
    """Move the pointer to the middle of the element, and leave it there."""

    ref: Reference


AnyAction = Click | Hover | Type | Select | Check | Press | Scroll | Upload


class Commit(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Marks an act as belonging to a step. Only the `commit` carries the request key (contract, Steps)."""

    task: StepId
    step: StepId
    request_key: RequestKey | None = None
    """Set on the step's commit and on no other act of it."""


class Element(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An interactive element, as a person would name it. `state` holds words such as `disabled`, `checked`."""

    ref: Reference
    role: str
    name: str
    state: tuple[str, ...] = ()
    value: str | None = None
    """Where harmless; never of password or one-time-code fields."""
    box: tuple[int, int, int, int] | None = None
    """Left, top, width, height in CSS pixels of the tab's viewport."""


Notices = tuple[str, ...]
"""What happened to the tab since it was last looked at and no page shows: dialogs answered by policy, popups,
documents refused. At most 16 of at most 300 characters; what they quote of a page is untrusted, like its text."""


class Observation(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A bounded view of one tab: text <= 256 KiB, <= 256 elements, names <= 1 KiB (encoded bytes)."""

    url: str
    title: str
    revision: Revision
    text: str = ""
    elements: tuple[Element, ...] = ()
    truncated: bool = False
    total: int = 0
    """Interactive elements that can be seen on the page, listed or not; `truncated` is true when anything was left out.
    Both totals count what could be read within 1.5 s: of a larger page they say at least how much there is."""
    text_total: int = 0
    """Length of the readable text in UTF-8 bytes before it was cut."""
    unreachable: int = 0
    """Closed shadow roots, and frames that gave no answer: what they show is neither listed nor counted above."""
    notices: Notices = ()
    recovered: Recovered | None = None
    """Set when the tab did not answer at first."""


class Artifact(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A file of a lease. `name` is what the page called it: untrusted."""

    id: str
    name: str
    size: int = 0
    """What is there of it, in bytes."""
    sha256: str | None = None
    state: Literal["running", "kept", "cancelled", "over_quota"] = "running"


class TabView(msgspec.Struct, frozen=True, kw_only=True):
    """One tab of the lease."""

    name: str
    url: str


class PageView(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Where a tab is: what navigate answers, and what the lease list shows."""

    url: str
    title: str
    revision: Revision
    status: int | None = None
    """HTTP status of the document, when there was one."""
    notices: Notices = ()
    recovered: Recovered | None = None
    """Set when the tab did not answer at first."""
