"""The model server plays its script, goes on after a tool, and hears who wants to leave the machine."""

import json
from typing import Any

import aiohttp
import pytest

from tests.real_agents.mock_llm import ModelRequest, answer_to, open_model

TOOLS = [{"type": "function", "function": {"name": "shell", "parameters": {}}}]
SCRIPT = 'earlier: [[say=old]]\n[[say=first ]] [[tool=shell {"command": "true"}]] [[words=2]]'
USER = {"role": "user", "content": SCRIPT}
RESULT = {"role": "tool", "content": "done"}


@pytest.mark.parametrize(
    ("messages", "said", "tools"),
    [
        ([USER], "first ", ["shell"]),
        ([USER, RESULT], "w1 w2 ", []),
        (
            [USER, RESULT, {"role": "user", "content": [{"type": "text", "text": "[[say=new]]"}]}],
            "new",
            [],
        ),
        ([{"role": "user", "content": "just talk"}], "no script", []),
    ],
)
def test_the_script_is_played_up_to_the_next_tool(
    messages: list[dict[str, Any]], said: str, tools: list[str]
) -> None:
    parts = answer_to(ModelRequest(messages, is_streaming=True, tools=["shell"]))

    assert "".join(part.text for part in parts) == said
    assert [part.tool for part in parts if part.tool] == tools


async def test_an_answer_is_the_same_streamed_and_whole() -> None:
    async with open_model() as model, aiohttp.ClientSession() as session:
        body = {"messages": [USER], "tools": TOOLS}
        url = f"{model.api_base}/chat/completions"
        async with session.post(url, json=body) as answer:
            whole = (await answer.json())["choices"][0]
        async with session.post(url, json={**body, "stream": True}) as answer:
            lines = (await answer.text()).split("\n\n")
        assert lines[-2] == "data: [DONE]"
        frames = [json.loads(line.removeprefix("data: ")) for line in lines[:-2]]
        choices = [choice for frame in frames for choice in frame["choices"]]

        assert [one.is_streaming for one in model.requests] == [False, True]
        text = "".join(choice["delta"].get("content", "") for choice in choices)
        assert text == whole["message"]["content"] == "first "
        calls = [call for choice in choices for call in choice["delta"].get("tool_calls", [])]
        assert calls[0]["function"] == whole["message"]["tool_calls"][0]["function"]
        assert choices[-1]["finish_reason"] == whole["finish_reason"] == "tool_calls"


@pytest.mark.parametrize(
    ("url", "stranger"),
    [
        ("http://example.invalid/x", "GET http://example.invalid/x"),
        ("https://example.invalid/x", "CONNECT example.invalid:443"),
    ],
)
async def test_a_stranger_is_noticed_and_refused(url: str, stranger: str) -> None:
    async with open_model() as model, aiohttp.ClientSession(raise_for_status=True) as session:
        with pytest.raises(aiohttp.ClientResponseError):
            await session.get(url, proxy=model.address)

        assert model.strangers == [stranger]
