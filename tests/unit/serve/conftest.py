"""A client of a running server."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import httpx
import pytest

if TYPE_CHECKING:
    from tests.conftest import Served


@pytest.fixture
def client(server: Served) -> Iterator[httpx.Client]:
    """Return a client of the server with default settings."""
    with httpx.Client(base_url=server.address, timeout=30) as client:
        yield client
