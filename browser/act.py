"""Acting on a tab: a dry run that touches nothing, then one input, dispatched once (contract 8; architecture, One
action)."""

import asyncio
from collections.abc import Coroutine
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec

from lessor.browser.door import Failed
from lessor.browser.frames import Place, World
from lessor.browser.keeper.linux import boot_ms
from lessor.browser.keys import chord, writes
from lessor.browser.observe import remember, whole
from lessor.browser.outward import outward
from lessor.browser.tab import Tab
from lessor.browser.views import REFERENCE, REVISION, Reading, digest_of, document_of
from lessor.errors import Code, Problem, problem
from lessor.messages.action import AnyAction, Match, Observation, Press, Scroll, Type
from lessor.ports import Away, NotSent, Sent, Target

AIM_MS_MAX = 5000
LOOK_MS_MAX = 2000
SETTLE_MS_MAX = 2000

AIM = "aim"
UNTOUCHED = ("Cannot find context", "Could not find object", "uniqueContextId not found")

OBSTACLES = {
    "removed": (Code.ELEMENT_NOT_FOUND, "The element is not on the page any more: observe again."),
    "hidden": (Code.ELEMENT_NOT_FOUND, "The element cannot be seen: observe again."),
    "disabled": (Code.ELEMENT_NOT_FOUND, "The element is disabled: do what enables it first."),
    "covered": (Code.ELEMENT_NOT_FOUND, "Something covers the element: close or scroll it away first."),
    "no_such_option": (Code.ELEMENT_NOT_FOUND, "The list has no such option: name one by label or value."),
    "secret": (
        Code.ACTION_NOT_ALLOWED,
        "Password and one-time-code fields take a secret reference, no typed value.",
    ),
    "not_secret": (Code.ACTION_NOT_ALLOWED, "A secret goes into password and one-time-code fields only."),
    "not_editable": (Code.ACTION_NOT_ALLOWED, "The element takes no text: choose a text field."),
    "not_a_file_field": (Code.ACTION_NOT_ALLOWED, "The element takes no file: choose a file field."),
    "one_file_only": (Code.ACTION_NOT_ALLOWED, "The field takes one file: name one."),
    "not_a_list": (Code.ACTION_NOT_ALLOWED, "The element has no options: choose a list, or click."),
    "one_option_only": (Code.ACTION_NOT_ALLOWED, "The list takes one option: name one."),
    "not_checkable": (Code.ACTION_NOT_ALLOWED, "The element cannot be checked: choose a check box or a radio button."),
    "radio_stays_on": (Code.ACTION_NOT_ALLOWED, "A radio button is not turned off: check another one of its group."),
}
CHANGED = problem(Code.PAGE_CHANGED, "The page changed under the reference: observe again and decide again.")
NO_ELEMENT = problem(Code.ELEMENT_NOT_FOUND, "That revision shows no such element: observe and use its references.")
NO_KEY = problem(Code.INVALID_REQUEST, "There is no such key: use names like Enter, ArrowDown, a, Control+a.")


class _Aimed(msgspec.Struct):
    obstacle: str | None
    role: str
    name: str
    fingerprint: str
    digest: str
    url: str
    frames: int = 0
    x: float = 0.0
    y: float = 0.0


class _Begun(msgspec.Struct):
    obstacle: str | None = None
    next: str = ""
    x: float = 0.0
    y: float = 0.0


@dataclass(frozen=True, slots=True)
class Aim:
    """Where the input goes: a handle in the isolated world of one document, so never to another node."""

    place: str | World
    fingerprint: str
    frame: Place | None = None
    """The frame's document, for an element in one."""
    secret: str | None = field(default=None, repr=False)
    """The value behind a secret reference: it goes from the host's store into the field, and nowhere else."""
    files: tuple[str, ...] = ()
    """What an upload gives, as this host has it."""


async def aim(tab: Tab, revision: str, action: AnyAction, match: Match, deadline_ms: int) -> Target | Problem | Away:
    """Present, visible, enabled, uncovered, unchanged since that revision? Answers at once and within 5 s."""
    deadline_ms = min(deadline_ms, boot_ms() + AIM_MS_MAX)
    shown = REVISION.fullmatch(revision)
    if shown is None:
        return CHANGED
    if isinstance(action, Press) and chord(action.key) is None:
        return NO_KEY
    if action.ref is None:
        return await _aim_at_page(tab, revision, action, match, deadline_ms)
    ref = REFERENCE.fullmatch(action.ref)
    expected = None if ref is None else tab.memory.fingerprint(revision, int(ref[1]), ref[2], ref[3] or "")
    if ref is None or expected is None:
        current = await _document(tab, deadline_ms)
        return CHANGED if isinstance(current, str) and current != shown[1] else NO_ELEMENT
    if ref[3] is not None:
        return await _aim_in_frame(tab, revision, action, match, deadline_ms)
    node = await _resolve(tab, int(ref[1]), deadline_ms)
    if node is None:
        current = await _document(tab, deadline_ms)
        if isinstance(current, str):
            return CHANGED if current != shown[1] else _obstacle("removed")
        return tab.unanswered(current)
    if isinstance(node, (Failed, Away)):
        return tab.unanswered(node)
    found = await tab.read_node("act.aim", node, _plain(action), deadline_ms)
    if isinstance(found, (Failed, Away)):
        return tab.unanswered(found)
    if document_of(found.loader) != shown[1]:
        return CHANGED
    digest = await _digest(tab, found, deadline_ms)
    return _judge(found, revision, expected, match, Aim(node, ""), digest)


async def _aim_in_frame(
    tab: Tab, revision: str, action: AnyAction, match: Match, deadline_ms: int
) -> Target | Problem | Away:
    """The same for an element of a frame: its document's own dry run, then the way to it from outside."""
    assert action.ref is not None
    ref = REFERENCE.fullmatch(action.ref)
    assert ref is not None
    current = await _document(tab, deadline_ms)
    if not isinstance(current, str):
        return tab.unanswered(current)
    place = tab.frames.by_key(ref[3])
    if current != revision.partition(".")[0] or place is None:
        return CHANGED
    node = await _resolve(tab, int(ref[1]), deadline_ms, place)
    if node is None:
        return CHANGED
    found = (
        node
        if isinstance(node, (Failed, Away))
        else await tab.read_node("act.aim", node, _plain(action), deadline_ms, place.cdp)
    )
    if isinstance(found, (Failed, Away)):
        return tab.unanswered(found)
    assert isinstance(node, str)
    expected = tab.memory.fingerprint(revision, int(ref[1]), ref[2], ref[3])
    aimed = msgspec.json.decode(found.strings[0], type=_Aimed)
    if aimed.obstacle is None and not isinstance(action, Scroll):
        point = await outward(tab, place, (aimed.x, aimed.y), deadline_ms)
        if not isinstance(point, tuple):
            return _obstacle(point) if isinstance(point, str) else tab.unanswered(point)
    digest = await _digest(tab, None, deadline_ms)
    return _judge(found, revision, expected, match, Aim(node, "", place), digest)


async def _digest(tab: Tab, aimed: Reading | None, deadline_ms: int) -> str:
    """The page's digest now. Only a page with frames needs more than what the dry run has read."""
    if aimed is not None:
        told = msgspec.json.decode(aimed.strings[0], type=_Aimed)
        if told.frames == 0:
            return told.digest
    found = await tab.read("observe", deadline_ms)
    if not isinstance(found, Reading):
        return ""
    parts, _ = await whole(tab, found, deadline_ms)
    return digest_of(parts)


async def _aim_at_page(
    tab: Tab, revision: str, action: AnyAction, match: Match, deadline_ms: int
) -> Target | Problem | Away:
    """A key for what has the focus, or scrolling of the page itself."""
    world = await tab.world(deadline_ms)
    found = world if isinstance(world, Away) else await tab.read("act.aim", deadline_ms, None, _plain(action))
    if isinstance(found, (Failed, Away)):
        return tab.unanswered(found)
    if document_of(found.loader) != revision.partition(".")[0]:
        return CHANGED
    assert isinstance(world, World)
    return _judge(found, revision, None, match, Aim(world, ""), await _digest(tab, found, deadline_ms))


def _judge(found: Reading, revision: str, expected: str | None, match: Match, at: Aim, digest: str) -> Target | Problem:
    aimed = msgspec.json.decode(found.strings[0], type=_Aimed)
    if aimed.obstacle is not None:
        return _obstacle(aimed.obstacle)
    is_changed = digest != revision.partition(".")[2]
    if expected not in (None, aimed.fingerprint) or (match == "page" and is_changed):
        return CHANGED
    described = f"{aimed.role} {aimed.name!r}" if aimed.name else aimed.role
    return Target(described, aimed.fingerprint, is_changed, replace(at, fingerprint=aimed.fingerprint), aimed.url)


async def dispatch(tab: Tab, action: AnyAction, target: Target, deadline_ms: int) -> Sent | NotSent | Away:
    """The one input, once; then settle and look.

    A last look in the page comes first, in the same task as whatever is no input event; what it refuses was not
    sent. From the first event on, only an acknowledgement of a browser that lives on makes it `Sent`."""
    given = target.token
    assert isinstance(given, Aim)
    sent_ms = boot_ms()
    away = tab.door.away
    if away is not None:
        return NotSent("The connection to the browser had ended before.")
    if deadline_ms <= sent_ms:
        return NotSent("The deadline had passed before.")
    begun = await _begin(tab, action, given, deadline_ms)
    if isinstance(begun, (NotSent, Away)):
        return begun
    inputs = _inputs(tab, action, begun, given)
    if inputs:
        answers = await asyncio.gather(*(tab.through(each, deadline_ms) for each in inputs))
        for answer in answers:
            if isinstance(answer, (Away, Failed)):
                return tab.door.silence()
    page = await _finish(tab, action, given, deadline_ms)
    if isinstance(page, NotSent):
        return page
    # Input that was acknowledged by a browser or tab which then died may have had no effect at all (contract 13).
    if page is None and (tab.is_crashed or tab.door.away is not None):
        return tab.door.silence()
    return Sent(sent_ms, page)


async def _begin(tab: Tab, action: AnyAction, aim: Aim, deadline_ms: int) -> _Begun | NotSent | Away:
    if isinstance(aim.place, World):
        handle: dict[str, object] = {"value": None}
        place = {"uniqueContextId": aim.place.unique}
    else:
        handle = {"objectId": aim.place}
        place = {"objectId": aim.place}
    answer = await tab.call(
        "Runtime.callFunctionOn",
        deadline_ms,
        None if aim.frame is None else aim.frame.cdp,
        functionDeclaration="(...given) => lessor.act.begin(...given)",
        arguments=[handle, {"value": _plain(action)}, {"value": aim.fingerprint}],
        returnByValue=True,
        **place,
    )
    if isinstance(answer, Away):
        return answer
    if isinstance(answer, Failed):
        is_untouched = any(words in answer.message for words in UNTOUCHED)
        return NotSent("The document was gone before the input.") if is_untouched else Away.SILENT
    try:
        begun = msgspec.json.decode(answer["result"]["value"], type=_Begun)
    except (KeyError, TypeError, msgspec.DecodeError):
        return Away.SILENT
    if begun.obstacle is not None:
        return NotSent(_why_not(begun.obstacle))
    if aim.frame is None or begun.next not in ("press", "move"):
        return begun
    point = await outward(tab, aim.frame, (begun.x, begun.y), deadline_ms)
    if isinstance(point, tuple):
        return _Begun(next=begun.next, x=point[0], y=point[1])
    return NotSent(_why_not(point) if isinstance(point, str) else "The frame could not be reached from its page.")


def _inputs(tab: Tab, action: AnyAction, begun: _Begun, aim: Aim) -> list[Coroutine[Any, Any, Any]]:
    """The events that follow, written one behind the other without waiting in between."""
    send = tab.cdp.send
    match begun.next, action:
        case "press", _:
            at = {"x": begun.x, "y": begun.y}
            button = {**at, "button": "left", "clickCount": 1}
            return [
                send("Input.dispatchMouseEvent", {"type": "mouseMoved", **at}),
                send("Input.dispatchMouseEvent", {"type": "mousePressed", "buttons": 1, **button}),
                send("Input.dispatchMouseEvent", {"type": "mouseReleased", "buttons": 0, **button}),
            ]
        case "move", _:
            return [send("Input.dispatchMouseEvent", {"type": "mouseMoved", "x": begun.x, "y": begun.y})]
        case "text", Type(text=text):
            return [send("Input.insertText", {"text": text if aim.secret is None else aim.secret})]
        case "delete", _:
            return [tab.page.keyboard.press("Delete")]
        case "files", _:
            return [_give_files(tab, aim)]
        case "keys", Press(key=key):
            return [tab.page.keyboard.press(key)]
        case _:
            return []


async def _give_files(tab: Tab, aim: Aim) -> None:
    """To the file field itself, also where a label stands for it."""
    field = await tab.cdp.send(
        "Runtime.callFunctionOn",
        {
            "functionDeclaration": "(element) => lessor.standsFor(element) ?? element",
            "objectId": aim.place,
            "objectGroup": AIM,
            "arguments": [{"objectId": aim.place}],
        },
    )
    given = {"files": list(aim.files), "objectId": field["result"]["objectId"]}
    await tab.cdp.send("DOM.setFileInputFiles", given)


async def _finish(tab: Tab, action: AnyAction, aim: Aim, deadline_ms: int) -> Observation | NotSent | None:
    """Settle: two animation frames without a change of the tree or 100 ms, and the end of a navigation that began;
    2 s at most. Then look; a page that is still on its way somewhere else by then cannot be read."""
    until_ms = min(deadline_ms, boot_ms() + SETTLE_MS_MAX)
    if isinstance(aim.place, World):
        found = await tab.read("act.finish", until_ms, None, None)
    elif aim.frame is not None:
        found = await tab.read_node("act.settle", aim.place, _plain(action), until_ms, aim.frame.cdp)
    else:
        found = await tab.read_node("act.finish", aim.place, _plain(action), until_ms)
    if isinstance(found, Reading):
        match found.strings[0]:
            case "missed":
                return NotSent("Another element moved under the pointer: the press was stopped before the page had it.")
            case "missed_late":
                tab.notices.add("another element moved under the pointer; the press was stopped")
            case "not_taken":
                tab.notices.add("the element did not take the state that was asked for")
            case _:
                pass
    if tab.is_loading or aim.frame is not None or not isinstance(found, Reading):
        await tab.until(lambda: not tab.is_loading, until_ms)
        if tab.is_leaving:
            return None
        found = await tab.read("observe", min(deadline_ms, boot_ms() + LOOK_MS_MAX))
    return await remember(tab, found, deadline_ms) if isinstance(found, Reading) else None


async def _resolve(
    tab: Tab, backend_node: int, deadline_ms: int, place: Place | None = None
) -> str | Failed | Away | None:
    """A handle of the node in the isolated world; None when there is no such node."""
    world = await tab.world(deadline_ms) if place is None else place.world
    if isinstance(world, Away):
        return world
    cdp = None if place is None else place.cdp
    tab.release(AIM, cdp)
    answer = await tab.call(
        "DOM.resolveNode",
        deadline_ms,
        cdp,
        backendNodeId=backend_node,
        executionContextId=world.number,
        objectGroup=AIM,
    )
    if isinstance(answer, Failed):
        return None
    return answer if isinstance(answer, Away) else str(answer["object"]["objectId"])


async def _document(tab: Tab, deadline_ms: int) -> str | Failed | Away:
    found = await tab.read("act.which", deadline_ms)
    return document_of(found.loader) if isinstance(found, Reading) else found


def _plain(action: AnyAction) -> dict[str, object]:
    """The action as the page's world takes it; `typed`: it writes the caller's characters."""
    plain: dict[str, object] = msgspec.to_builtins(action)
    if isinstance(action, Press):
        plain["typed"] = writes(action.key)
    return plain


def _obstacle(word: str) -> Problem:
    code, message = OBSTACLES[word]
    return problem(code, message)


def _why_not(word: str) -> str:
    return "The element changed since the dry run." if word == "changed" else OBSTACLES[word][1]
