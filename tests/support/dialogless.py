"""What a model session answers whose pages open no dialogs and no tabs."""

from lessor.errors import Code, OpenDialog, Problem, problem
from lessor.messages.action import TabView
from lessor.ports import Away, NotSent, Paused, Sent


class Dialogless:
    """That half of `ports.Session`."""

    async def tabs(self, close: str | None, deadline_ms: int) -> tuple[TabView, ...] | Problem | Away:
        return (TabView(name="main", url="about:blank"),)

    async def resume(self, told: str) -> Sent | NotSent | Paused | Away:
        raise AssertionError(told)

    async def answer_dialog(
        self, dialog: str, accept: bool, text: str, deadline_ms: int
    ) -> OpenDialog | Problem | Away:
        return problem(Code.ACTION_NOT_ALLOWED, "That dialog is not open any more: observe.")
