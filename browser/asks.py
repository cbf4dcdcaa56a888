"""Dialogs of a tab: answered by the profile's policy, or held open until somebody answers (contract, Pages)."""

import asyncio
import itertools
from dataclasses import dataclass

from playwright.async_api import Dialog

from lessor.errors import OpenDialog
from lessor.messages.policy import PagePolicy

MESSAGE_CHARS_MAX = 1000
LEAVING = "beforeunload"


@dataclass(frozen=True, slots=True)
class Held:
    """A dialog that nobody has answered yet."""

    dialog: Dialog
    view: OpenDialog


class Asks:
    """Belongs to a tab and the event loop. `changed` is done when a dialog opens or closes, and then a new one."""

    def __init__(self, policy: PagePolicy, prefix: str) -> None:
        self._policy = policy
        self._prefix = prefix
        self._numbers = itertools.count(1)
        self.open: Held | None = None
        self.changed = self._future()

    def __repr__(self) -> str:
        return f"<Asks {self.open.view.id if self.open else 'none'}>"

    def decide(self, kind: str) -> bool | None:
        """What the policy says: accept, dismiss, or (None) ask."""
        if kind == LEAVING:
            return {"leave": True, "stay": False}.get(self._policy.leaving)
        return {"accept": True, "dismiss": False}.get(self._policy.dialogs)

    def hold(self, dialog: Dialog, tab: str) -> None:
        """Keep it open; a tab has one dialog at a time."""
        message = dialog.message.encode("utf-8", "replace").decode()[:MESSAGE_CHARS_MAX]
        view = OpenDialog(
            id=f"d{next(self._numbers)}-{self._prefix}",
            tab=tab,
            kind=dialog.type,
            message=message,
            default=(dialog.default_value or "")[:MESSAGE_CHARS_MAX] if dialog.type == "prompt" else None,
        )
        self.open = Held(dialog, view)
        self._tell()

    def take(self, dialog_id: str) -> Held | None:
        """The open dialog of that name, for the one who answers it; nobody else gets it any more."""
        held = self.open
        if held is None or held.view.id != dialog_id:
            return None
        self.closed()
        return held

    def closed(self) -> None:
        """The dialog went, answered or with its page."""
        if self.open is not None:
            self.open = None
            self._tell()

    def _tell(self) -> None:
        before, self.changed = self.changed, self._future()
        before.set_result(None)

    @staticmethod
    def _future() -> asyncio.Future[None]:
        return asyncio.get_running_loop().create_future()
