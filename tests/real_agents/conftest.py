"""A stage, and on it a real agent with a model server that belongs to it."""

import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.acceptance.stage import Stage, open_stage
from tests.real_agents.agents import AGENTS, RealAgent
from tests.real_agents.mock_llm import MockModel, open_model


@pytest.fixture(params=[agent.name for agent in AGENTS])
def agent(request: pytest.FixtureRequest) -> RealAgent:
    """Every agent in turn; one that is missing is skipped, but CI must have the cheapest."""
    one = next(agent for agent in AGENTS if agent.name == request.param)
    if not one.is_installed():
        told = f"{one.name} {one.version} is not installed: python -m tests.real_agents.install {one.name}"
        if one.is_expected_in_ci and "CI" in os.environ:
            pytest.fail(told)
        pytest.skip(told)
    return one


@pytest.fixture
async def model() -> AsyncIterator[MockModel]:
    """What the agents think with."""
    async with open_model() as opened:
        yield opened
        assert not opened.strangers, f"the agent tried to leave this machine: {opened.strangers}"


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[Stage]:
    """A loopback Discord with a channel and Ann."""
    async with open_stage(tmp_path) as opened:
        yield opened
