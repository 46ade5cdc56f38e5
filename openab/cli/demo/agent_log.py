"""What an agent received and said, read from its own log."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from openab.text.continuation import OPENING


@dataclass
class Prompted:
    """One prompt as the agent got it, and what it said and did about it."""

    session_id: str
    text: str
    #: It was told that it had been interrupted in this request.
    is_continued: bool = False
    said: str = ""
    tools: list[str] = field(default_factory=list)


@dataclass
class AgentLog:
    """All lives of one bot's agent: prompts in order, sessions made and taken up again."""

    prompts: list[Prompted] = field(default_factory=list)
    opened: list[str] = field(default_factory=list)
    resumed: list[str] = field(default_factory=list)


def read(path: Path) -> AgentLog:
    """The log so far; an agent that was never started has an empty one."""
    log = AgentLog()
    for event, message in _lines(path):
        if event == "in":
            _received(log, message)
        elif event == "out":
            _sent(log, message)
    return log


def _lines(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    written = path.read_text(encoding="utf-8") if path.exists() else ""
    for line in written.splitlines():
        entry = json.loads(line)
        if isinstance(entry["message"], dict):
            yield entry["event"], entry["message"]


def _received(log: AgentLog, message: dict[str, Any]) -> None:
    method, params = message.get("method"), message.get("params") or {}
    if method == "session/prompt":
        texts = [block["text"] for block in params["prompt"] if block["type"] == "text"]
        is_continued = any(text.startswith(OPENING) for text in texts[:-1])
        log.prompts.append(
            Prompted(params["sessionId"], texts[-1] if texts else "", is_continued=is_continued)
        )
    elif method in {"session/resume", "session/load"}:
        log.resumed.append(params["sessionId"])


def _sent(log: AgentLog, message: dict[str, Any]) -> None:
    if "sessionId" in (message.get("result") or {}):
        log.opened.append(message["result"]["sessionId"])
    update = (message.get("params") or {}).get("update") or {}
    if not log.prompts:
        return
    if update.get("sessionUpdate") == "agent_message_chunk":
        log.prompts[-1].said += update["content"]["text"]
    elif update.get("sessionUpdate") == "tool_call":
        log.prompts[-1].tools.append(update["title"])
