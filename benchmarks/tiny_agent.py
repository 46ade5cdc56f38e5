"""The lightest ACP agent that streams: standard library, one session, its receipts are datagrams.

`python -I -S tiny_agent.py SOCKET GATE`: of each `session/prompt` it tells SOCKET the moment at which
the line was read, as `TAG MONOTONIC_SECONDS`. What it does is written in the prompt:
`[[bench=TAG:CHUNKS:SECONDS]]` streams so many chunks, one in so many seconds, as soon as nobody locks
the file GATE.
"""

import fcntl
import json
import os
import re
import socket
import sys
import time

_ORDER = re.compile(r"\[\[bench=([\w-]+):(\d+):([\d.]+)\]\]")
_UPDATE = (
    '{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s-%d","update":'
    '{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"%s"}}}}\n'
)
_WORDS = ("the quick ", "brown fox ", "jumps over ", "the lazy ", "dog.\\n")


def serve(receipts: socket.socket) -> None:
    """Answer until stdin closes; a broken pipe ends the process, too."""
    for line in sys.stdin.buffer:
        read_at = time.monotonic()
        message = json.loads(line)
        if message.get("method") == "session/prompt":
            _play(line.decode(), read_at, receipts)
        if "id" in message and "method" in message:
            _write(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": _result(message)}))


def _result(message: dict[str, object]) -> dict[str, object]:
    if message["method"] == "initialize":
        return {"protocolVersion": 1, "agentCapabilities": {}, "authMethods": []}
    if message["method"] == "session/new":
        return {"sessionId": f"s-{os.getpid()}"}
    return {"stopReason": "end_turn"}


def _play(prompt: str, read_at: float, receipts: socket.socket) -> None:
    # The last one: earlier prompts may be quoted before it.
    tag, count, seconds = _ORDER.findall(prompt)[-1]
    receipts.send(f"{tag} {read_at!r}".encode())
    with open(sys.argv[2]) as gate:  # noqa: PTH123 - pathlib takes as long to import as all the rest
        fcntl.flock(gate, fcntl.LOCK_SH)
    chunks = [_UPDATE % (os.getpid(), words) for words in _WORDS]
    # Many agents begin together; each has a beat of its own.
    due = time.monotonic() + float(seconds) * (os.getpid() % 97) / 97
    for n in range(int(count)):
        due += float(seconds)
        time.sleep(max(0.0, due - time.monotonic()))
        os.write(1, chunks[n % len(chunks)].encode())


def _write(line: str) -> None:
    os.write(1, line.encode() + b"\n")


if __name__ == "__main__":
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as told:
        told.connect(sys.argv[1])
        try:
            serve(told)
        except (BrokenPipeError, ConnectionError):
            sys.exit(0)
