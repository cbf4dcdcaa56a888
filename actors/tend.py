"""What a live browser is asked beside its page operations, as the session's calls and their replies."""

from lessor.errors import Problem
from lessor.messages.reply import ArtifactTold, Reply, TabsTold
from lessor.messages.request import ProfileRequest, ShowArtifacts, ShowTabs
from lessor.ports import Away, Session


async def tend(session: Session, request: ProfileRequest, until_ms: int) -> Reply | Problem | Away:
    """Bounded by `until_ms`, like every call of a session."""
    match request:
        case ShowTabs(close=close):
            tabs = await session.tabs(close, until_ms)
            return TabsTold(tabs=tabs) if isinstance(tabs, tuple) else tabs
        case ShowArtifacts(cancel=cancel):
            artifacts = await session.artifacts(cancel, until_ms)
            return ArtifactTold(artifacts=artifacts) if isinstance(artifacts, tuple) else artifacts
        case _:
            raise AssertionError(request)
