"""What happens to a tab and no page shows; told with its next view."""

from collections import deque

NOTICES_MAX = 16
NOTICE_CHARS_MAX = 300


class Notices:
    """The last ones since the tab was looked at."""

    def __init__(self) -> None:
        self._waiting: deque[str] = deque(maxlen=NOTICES_MAX)

    def add(self, text: str) -> None:
        text = text.encode("utf-8", "replace").decode()
        if self._waiting and self._waiting[-1] == text:
            return  # a storm of one kind must not push everything else out
        self._waiting.append(text if len(text) <= NOTICE_CHARS_MAX else text[: NOTICE_CHARS_MAX - 1] + "…")

    def take(self) -> tuple[str, ...]:
        """All of them, once."""
        taken = tuple(self._waiting)
        self._waiting.clear()
        return taken
