"""The host's side of a keeper, in one place to import it from."""

from __future__ import annotations

from lessor.browser.keeper.launch import KeeperFailed, KeeperSpec, launch
from lessor.browser.keeper.link import Admitted, Gone, Keeper, Refused, find

__all__ = ["Admitted", "Gone", "Keeper", "KeeperFailed", "KeeperSpec", "Refused", "find", "launch"]
