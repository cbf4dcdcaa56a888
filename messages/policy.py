"""What a profile's pages may do: set with the profile, in force from the grant on (contract, Pages)."""

from typing import Annotated, Final, Literal

import msgspec


class PagePolicy(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Nothing here is silent: what was decided by policy is told in the next view's `notices`."""

    dialogs: Literal["dismiss", "accept", "ask"] = "dismiss"
    """alert, confirm and prompt. `ask`: the call answers `dialog_open`, and the verb `dialog` decides."""
    leaving: Literal["stay", "leave", "ask"] = "stay"
    """What a page that wants to keep its visitor (beforeunload) gets."""
    popups: Literal["keep", "close"] = "keep"
    """A popup that is kept is a tab of the lease, `popup-N`."""
    popups_max: Annotated[int, msgspec.Meta(ge=0, le=49)] = 10
    """More of them at once are closed."""
    downloads: Literal["keep", "refuse"] = "keep"
    """A download that is kept is an artifact of the lease."""
    files_bytes_max: Annotated[int, msgspec.Meta(ge=0, le=60 << 20)] = 32 << 20
    """All artifacts of one lease together."""


DEFAULT: Final = PagePolicy()


class GivenPolicy(PagePolicy, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The same as a request gives it."""

    def settled(self) -> PagePolicy:
        """As it is kept."""
        return msgspec.convert(msgspec.to_builtins(self), PagePolicy)
