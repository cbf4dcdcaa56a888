"""A connection of its own for each test."""

from collections.abc import AsyncIterator

import pytest

from lessor.broker.connection import Connection
from lessor.broker.embedded import Endpoint
from tests.support.broker import connect, endpoint

__all__ = ["endpoint"]


@pytest.fixture
async def connection(endpoint: Endpoint) -> AsyncIterator[Connection]:
    opened = await connect(endpoint)
    yield opened
    await opened.close()
