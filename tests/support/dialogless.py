"""What a model session answers whose pages open no dialogs and no tabs."""

from collections.abc import Callable

from lessor.errors import Code, OpenDialog, Problem, problem
from lessor.messages.action import Artifact, TabView
from lessor.ports import Away, FileFound, FileSpec, NotSent, Paused, Sent


class Fileless:
    """The same of `ports.Browser`."""

    async def open_file(self, spec: FileSpec, sealed: bytes) -> bytes | Problem:
        raise AssertionError(spec)


class Dialogless:
    """That half of `ports.Session`."""

    async def tabs(self, close: str | None, deadline_ms: int) -> tuple[TabView, ...] | Problem | Away:
        return (TabView(name="main", url="about:blank"),)

    def hear_files(self, on_file: Callable[[FileFound], None]) -> None:
        pass

    async def artifacts(self, cancel: str | None, deadline_ms: int) -> tuple[Artifact, ...] | Problem | Away:
        return ()

    async def resume(self, told: str) -> Sent | NotSent | Paused | Away:
        raise AssertionError(told)

    async def answer_dialog(
        self, dialog: str, accept: bool, text: str, deadline_ms: int
    ) -> OpenDialog | Problem | Away:
        return problem(Code.ACTION_NOT_ALLOWED, "That dialog is not open any more: observe.")
