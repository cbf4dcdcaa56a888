"""Stages for actors inside live processes: the real broker, the model browser."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from lessor.broker.embedded import Endpoint
from lessor.limits import Limits
from tests.support.broker import endpoint
from tests.support.stage import Stage, staged

__all__ = ["endpoint"]


@pytest.fixture
async def stage(endpoint: Endpoint, tmp_path: Path) -> AsyncIterator[Stage]:
    """With the model browser and the contract's own limits."""
    async with staged(endpoint, tmp_path, Limits(), model=True) as stage:
        yield stage
