"""The last words an agent wrote to stderr, kept small whatever it writes."""

import asyncio
import re

TAIL_CHARACTERS = 2000
_KEPT_BYTES = 16 * 1024
_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_])")
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def clean_tail(raw: bytes) -> str:
    """At most 2,000 printable characters from the end: no escapes, no controls but line ends."""
    text = _ESCAPES.sub("", raw.decode("utf-8", "replace").replace("\r\n", "\n"))
    return _CONTROLS.sub("", text).strip()[-TAIL_CHARACTERS:].strip()


class StderrTail:
    """Reads stderr to its end, so that no amount of it can block the agent."""

    def __init__(self) -> None:
        self._kept = bytearray()

    async def drain(self, reader: asyncio.StreamReader) -> None:
        """Read until the pipe closes."""
        while chunk := await reader.read(64 * 1024):
            self._kept += chunk
            del self._kept[:-_KEPT_BYTES]

    def __str__(self) -> str:
        return clean_tail(bytes(self._kept))
