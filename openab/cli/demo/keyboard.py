"""People's typing in the demo's terminal: whole lines, and the one that is being typed."""

import asyncio
import codecs
import os
import sys
import termios
import tty
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import contextmanager

_ERASE, _KILL, _END = "\x7f\b", "\x15", "\x04"
_CHUNK = 1024
#: With room for mentions, a message of Discord's takes that.
_LONGEST = 1500


class LineEditor:
    """Characters in, lines out; pure. `is_ended`: somebody wants to leave."""

    def __init__(self) -> None:
        self.text = ""
        self.is_ended = False

    def feed(self, characters: str) -> list[str]:
        """The lines that are complete now. An empty line, or Ctrl-D on one, ends the typing."""
        lines = []
        for character in characters:
            if character in "\r\n":
                self.is_ended = self.is_ended or not self.text.strip()
                lines += [self.text.strip()] if self.text.strip() else []
                self.text = ""
            else:
                self._type(character)
            if self.is_ended:
                break
        return lines

    def _type(self, character: str) -> None:
        if character in _ERASE:
            self.text = self.text[:-1]
        elif character == _KILL:
            self.text = ""
        elif character == _END:
            self.is_ended = not self.text
        elif character.isprintable() and len(self.text) < _LONGEST:
            self.text += character


async def typed_lines(*, raw: bool, typed: Callable[[str], None]) -> AsyncGenerator[str, None]:
    """The lines until the typing ends; `typed` gets what stands there after each key.

    `raw`: keys come one by one and are not echoed. The terminal is put back in any case.
    """
    lines: asyncio.Queue[str | None] = asyncio.Queue()
    editor, decoder = LineEditor(), codecs.getincrementaldecoder("utf-8")("replace")
    descriptor, loop = sys.stdin.fileno(), asyncio.get_running_loop()

    def read() -> None:
        received = os.read(descriptor, _CHUNK)
        for line in editor.feed(decoder.decode(received)):
            lines.put_nowait(line)
        typed(editor.text)
        if editor.is_ended or not received:
            lines.put_nowait(None)

    with _keys(descriptor, raw=raw):
        loop.add_reader(descriptor, read)
        try:
            while (line := await lines.get()) is not None:
                yield line
        finally:
            loop.remove_reader(descriptor)


@contextmanager
def _keys(descriptor: int, *, raw: bool) -> Iterator[None]:
    before = termios.tcgetattr(descriptor)
    try:
        if raw:
            tty.setcbreak(descriptor, termios.TCSADRAIN)
        yield
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)
