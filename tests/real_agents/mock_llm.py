"""A model server on the loopback interface: OpenAI's chat completions, scripted by the last user text.

The last line of that text that has a directive is the script; what stands above it is history that
somebody quoted. Directives, played in their order:

    [[say=TEXT]]            text
    [[words=N]]             N numbered words: "w1 w2 … "
    [[delay=SECONDS]]       from here on the pause before each word
    [[tool=NAME {JSON}]]    a tool call; the answer ends, and goes on when its result comes

It is also the only proxy that the agents are told of, so that it hears who tries to leave the machine.
"""

import asyncio
import json
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

Json = dict[str, Any]
MODEL = "mock-model"
_DIRECTIVE = re.compile(r"\[\[(say|words|delay|tool)=(.*?)\]\]")


@dataclass(frozen=True, slots=True)
class Part:
    """A piece of an answer: a word after a pause, or a tool call."""

    text: str = ""
    pause: float = 0.0
    tool: str = ""
    arguments: str = ""


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """What an agent asked the model."""

    messages: Sequence[Json]
    is_streaming: bool
    tools: Sequence[str]

    @property
    def asked(self) -> str:
        """The last user text."""
        return next((text_of(m) for m in reversed(self.messages) if m["role"] == "user"), "")

    @property
    def results(self) -> list[str]:
        """The tool results that came since the last user text."""
        found: list[str] = []
        for message in self.messages:
            if message["role"] == "user":
                found = []
            elif message["role"] == "tool":
                found.append(text_of(message))
        return found

    def said(self, role: str) -> str:
        """All that this role said, joined."""
        return "\n".join(text_of(one) for one in self.messages if one["role"] == role)


@dataclass
class MockModel:
    """The server's journal; `requests` are those with tools, `others` are titles and the like."""

    address: str = ""
    requests: list[ModelRequest] = field(default_factory=list)
    others: list[ModelRequest] = field(default_factory=list)
    #: What was asked for beyond this server, as "METHOD target".
    strangers: list[str] = field(default_factory=list)

    @property
    def api_base(self) -> str:
        """What an agent is given as the base of the API."""
        return f"{self.address}/v1"

    async def respond(self, request: web.BaseRequest) -> web.StreamResponse:
        """One HTTP request of any kind."""
        if request.path == "/v1/models":
            return web.json_response({"object": "list", "data": [{"id": MODEL, "object": "model"}]})
        if request.path != "/v1/chat/completions" or request.method != "POST":
            return self._refuse(request)
        return await self._complete(request)

    def _refuse(self, request: web.BaseRequest) -> web.Response:
        target = request.raw_path
        # Agents look for other servers' own routes here, which is not leaving the machine.
        if not target.startswith(("/", self.address)):
            self.strangers.append(f"{request.method} {target}")
        return web.json_response({"error": {"message": "not here"}}, status=404)

    async def _complete(self, request: web.BaseRequest) -> web.StreamResponse:
        body = await request.json()
        tools = [tool["function"]["name"] for tool in body.get("tools") or ()]
        asked = ModelRequest(body["messages"], body.get("stream") is True, tools)
        (self.requests if tools else self.others).append(asked)
        parts = answer_to(asked) if tools else [Part("A title")]
        return await (_stream(request, parts) if asked.is_streaming else _whole(parts))


def text_of(message: Mapping[str, Any]) -> str:
    """The text of a message, whose content is a text or a list of blocks."""
    content = message.get("content") or ""
    if isinstance(content, str):
        return content
    return "\n".join(str(block.get("text") or "") for block in content)


def answer_to(asked: ModelRequest) -> list[Part]:
    """What the script says after the tool results that came so far."""
    lines = [line for line in asked.asked.splitlines() if _DIRECTIVE.search(line)]
    parts = _parts(lines[-1] if lines else "[[say=no script]]")
    ends = [at for at, part in enumerate(parts) if part.tool]
    begin = ends[len(asked.results) - 1] + 1 if asked.results else 0
    end = ends[len(asked.results)] + 1 if len(asked.results) < len(ends) else len(parts)
    return parts[begin:end]


def _parts(script: str) -> list[Part]:
    parts, pause = [], 0.0
    for word, value in _DIRECTIVE.findall(script):
        if word == "delay":
            pause = float(value)
        elif word == "words":
            parts += [Part(f"w{n} ", pause) for n in range(1, int(value) + 1)]
        elif word == "say":
            parts += [Part(text, pause) for text in re.findall(r"\S+\s*|\s+", value)]
        else:
            name, _, arguments = value.partition(" ")
            parts.append(Part(pause=pause, tool=name, arguments=arguments))
    return parts


async def _whole(parts: Sequence[Part]) -> web.Response:
    await asyncio.sleep(sum(part.pause for part in parts))
    message: Json = {"role": "assistant", "content": "".join(part.text for part in parts)}
    if calls := [_call(part) for part in parts if part.tool]:
        message["tool_calls"] = calls
    choice = {"index": 0, "message": message, "finish_reason": _reason(parts)}
    return web.json_response({**_frame("chat.completion", [choice]), "usage": _usage(parts)})


async def _stream(request: web.BaseRequest, parts: Sequence[Part]) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
    await response.prepare(request)
    # An agent that is killed hangs up in the middle, and tests kill agents.
    with suppress(ConnectionResetError):
        for part in parts:
            await asyncio.sleep(part.pause)
            await _send(response, [{"index": 0, "delta": _delta(part), "finish_reason": None}])
        await _send(response, [{"index": 0, "delta": {}, "finish_reason": _reason(parts)}])
        await _send(response, [], usage=_usage(parts))
        await response.write(b"data: [DONE]\n\n")
    return response


async def _send(response: web.StreamResponse, choices: list[Json], **more: object) -> None:
    frame = {**_frame("chat.completion.chunk", choices), **more}
    await response.write(f"data: {json.dumps(frame)}\n\n".encode())


def _frame(kind: str, choices: list[Json]) -> Json:
    return {"id": "mock", "object": kind, "created": 1, "model": MODEL, "choices": choices}


def _delta(part: Part) -> Json:
    if part.tool:
        return {"role": "assistant", "tool_calls": [{"index": 0, **_call(part)}]}
    return {"role": "assistant", "content": part.text}


def _call(part: Part) -> Json:
    about = {"name": part.tool, "arguments": part.arguments or "{}"}
    return {"id": f"call_{part.tool}", "type": "function", "function": about}


def _reason(parts: Sequence[Part]) -> str:
    return "tool_calls" if any(part.tool for part in parts) else "stop"


def _usage(parts: Sequence[Part]) -> Json:
    return {"prompt_tokens": 10, "completion_tokens": len(parts), "total_tokens": 10 + len(parts)}


@asynccontextmanager
async def open_model() -> AsyncIterator[MockModel]:
    """A running server; requests that still run at the end are cut off."""
    model = MockModel()
    runner = web.ServerRunner(web.Server(model.respond), shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        host, port = runner.addresses[0][:2]
        model.address = f"http://{host}:{port}"
        yield model
    finally:
        await runner.cleanup()
