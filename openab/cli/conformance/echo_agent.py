"""The echo agent for `openab conformance`: it says which probes it was given, and their texts' digests.

One file, standard library only. Save it beside the bot under test and configure that bot with it:

    [discord]
    allowed_channels = ["CHANNEL"]          # what is given as --channel
    trusted_bot_ids = ["TESTER"]            # the user id of the bot whose token is given as --token
    allow_bot_messages = "mentions"         # so that ordinary messages can be told from hand-offs
    max_bot_turns = 100

    [agent]
    command = "python3"
    args = ["/path/to/echo_agent.py"]
"""

import hashlib
import json
import re
import sys
import uuid
from collections.abc import Iterator
from typing import Any

_PROBE = re.compile(r"probe-[0-9a-f]{12}")
_RECORD_BEGIN, _RECORD_END = "<sender_context>", "</sender_context>"


def answer(blocks: list[dict[str, Any]]) -> str:
    """A line for each probe in the prompt: its name, and the digest of the text that it came in."""
    texts = [block["text"] for block in blocks if block.get("type") == "text"]
    said = [text for text in map(_without_record, texts) if text]
    lines = [f"heard {probe} {digest(text)}" for text in said for probe in _probes(text)]
    return "\n".join(lines) or f"heard nothing {digest(''.join(said))}"


def digest(text: str) -> str:
    """Of every byte, also of half characters."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _without_record(text: str) -> str:
    """The text without the sender record, which may stand in a block of its own or before the text."""
    if not text.startswith(_RECORD_BEGIN):
        return text
    return text.partition(_RECORD_END)[2].lstrip("\n")


def _probes(text: str) -> Iterator[str]:
    yield from dict.fromkeys(_PROBE.findall(text))


def _send(**message: Any) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def _reply(method: str, params: dict[str, Any]) -> dict[str, Any] | None:
    """The result of a request; None: it is not served."""
    if method == "initialize":
        return {"protocolVersion": 1, "agentCapabilities": {}, "authMethods": []}
    if method == "session/new":
        return {"sessionId": str(uuid.uuid4())}
    if method != "session/prompt":
        return None
    content = {"type": "text", "text": answer(params["prompt"])}
    update = {"sessionUpdate": "agent_message_chunk", "content": content}
    _send(method="session/update", params={"sessionId": params["sessionId"], "update": update})
    return {"stopReason": "end_turn"}


def main() -> None:
    """Serve the client on stdin and stdout until it goes away."""
    for line in sys.stdin:
        message = json.loads(line)
        if "id" not in message or "method" not in message:
            continue
        result = _reply(message["method"], message.get("params") or {})
        if result is None:
            error = {"code": -32601, "message": f"Method not found: {message['method']}"}
            _send(id=message["id"], error=error)
        else:
            _send(id=message["id"], result=result)


if __name__ == "__main__":
    main()
