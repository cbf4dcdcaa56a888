"""Which keys and chords can be pressed, by the names that browsers give them."""

MODIFIERS = frozenset({"Control", "Shift", "Alt", "Meta"})
EDITING = ("Enter", "Tab", "Escape", "Backspace", "Delete", "Insert", "Space", "ContextMenu")
MOVING = ("Home", "End", "PageUp", "PageDown", "ArrowUp", "ArrowDown", "ArrowLeft", "ArrowRight")
NAMED = frozenset((*EDITING, *MOVING, *(f"F{number}" for number in range(1, 13))))


def chord(key: str) -> tuple[tuple[str, ...], str] | None:
    """Modifiers and key of `Control+a`, `Shift+Tab`, `+`; None when there is no such key."""
    *modifiers, last = key.split("+") if not key.endswith("+") else [*key[:-1].rstrip("+").split("+"), "+"]
    modifiers = [modifier for modifier in modifiers if modifier]
    if not set(modifiers) <= MODIFIERS or len(set(modifiers)) != len(modifiers):
        return None
    is_printable = len(last) == 1 and " " <= last <= "~"
    return (tuple(modifiers), last) if is_printable or last in NAMED else None


def writes(key: str) -> bool:
    """Does it put a character of the caller's, or the clipboard's, into a field?"""
    parts = chord(key)
    if parts is None:
        return False
    modifiers, last = parts
    if {"Control", "Meta"} & set(modifiers):
        return last.lower() == "v"
    return len(last) == 1 or last in ("Space", "Insert")
