"""The stage that acceptance tests play on."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.acceptance.stage import Stage, open_stage


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[Stage]:
    """A loopback Discord with a channel and Ann; brokers are started by the test."""
    async with open_stage(tmp_path) as opened:
        yield opened
