"""What we say first, and what we read from an agent's first answer."""

import asyncio
from typing import Any

import pytest
from acp import schema
from hypothesis import given
from hypothesis import strategies as st

from openab.agents.acp.opening import INITIALIZE, Abilities, Replay
from openab.agents.acp.permissions import CANCELLED, selected

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=15,
)
ANSWERS = st.fixed_dictionaries(
    {}, optional=dict.fromkeys(("agentCapabilities", "agentInfo", "authMethods"), JSON)
)


def test_what_we_send_is_what_the_protocol_wants() -> None:
    hello = schema.InitializeRequest.model_validate(INITIALIZE)
    assert hello.client_capabilities is not None
    assert hello.client_capabilities != schema.ClientCapabilities()
    assert not hello.client_capabilities.terminal
    for answer in (CANCELLED, selected("x")):
        schema.RequestPermissionResponse.model_validate(answer)


@given(ANSWERS)
def test_no_answer_is_too_odd(answer: dict[str, Any]) -> None:
    able = Abilities.of(answer)
    assert isinstance(able.name, str)
    assert all(isinstance(method, str) for method in able.auth_methods)


@pytest.mark.parametrize(
    ("offered", "can"), [({}, True), ({"x": 1}, True), (None, False), (False, False)]
)
def test_a_capability_is_offered_by_its_presence(offered: object, can: bool) -> None:
    sessions = {"resume": offered, "close": offered}
    able = Abilities.of({"agentCapabilities": {"sessionCapabilities": sessions}})
    assert (able.can_resume, able.can_close, able.can_load) == (can, can, False)


async def test_a_replay_has_drained_when_it_is_silent() -> None:
    replay = Replay()
    async with asyncio.timeout(5), asyncio.TaskGroup() as group:
        drained = group.create_task(replay.drained(start=3, quiet=0.1))
        for _ in range(5):
            await asyncio.sleep(0.03)  # shorter than the quiet that ends the replay
            assert not drained.done()
            replay.add(None)
    assert replay.count == 5


async def test_no_replay_is_waited_for_only_so_long() -> None:
    replay = Replay()
    async with asyncio.timeout(2):
        await replay.drained(start=0.05, quiet=5)
    assert replay.count == 0


def test_news_about_the_session_is_no_history() -> None:
    replay = Replay()
    replay.add({"sessionUpdate": "available_commands_update", "availableCommands": []})
    assert replay.count == 0
    replay.add({"sessionUpdate": "user_message_chunk", "content": {"type": "text", "text": "x"}})
    assert replay.count == 1
