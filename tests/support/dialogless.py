"""What a model session answers whose pages open no dialogs."""

from lessor.errors import Code, OpenDialog, Problem, problem
from lessor.ports import Away, NotSent, Paused, Sent


class Dialogless:
    """The dialog half of `ports.Session`."""

    async def resume(self, told: str) -> Sent | NotSent | Paused | Away:
        raise AssertionError(told)

    async def answer_dialog(
        self, dialog: str, accept: bool, text: str, deadline_ms: int
    ) -> OpenDialog | Problem | Away:
        return problem(Code.ACTION_NOT_ALLOWED, "That dialog is not open any more: observe.")
