"""Shows the play: redrawn in place on a terminal, else a line per thing that people see happen."""

import asyncio
import time
from contextlib import suppress
from types import TracebackType
from typing import Protocol, Self

from rich.console import Console, ConsoleOptions, RenderResult
from rich.live import Live
from rich.segment import Segment
from rich.text import Text

from openab.cli.demo.picture import Painter
from openab.cli.demo.sightings import PRESENTATION, Change, Sighting, Watch
from openab.simulator.discord import Channel
from openab.text.measure import shorten

#: The clock at the bottom goes on although nothing happens.
_TICK_SECONDS = 0.5
#: Changes that come closer together are drawn at once.
_REST_SECONDS = 0.05
_LONGEST_LINE = 100


class Show(Protocol):
    """What the play and the proofs need of either way to show."""

    def announce(self, act: str) -> None:
        """What happens from now on."""

    def typed(self, line: str) -> None:
        """What somebody is typing."""

    async def run(self) -> None:
        """Show until cancelled."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...


def redraws(console: Console) -> bool:
    """Whether this terminal can be drawn anew in place."""
    return console.is_terminal and not console.is_dumb_terminal


def show_on(console: Console, painter: Painter, channel: Channel, watch: Watch) -> Show:
    """In place if the terminal can do that, else line by line."""
    if redraws(console):
        return LiveShow(console, painter, channel, watch)
    return LineShow(console, painter, watch)


class LiveShow:
    """The thread as it stands, the newest at the bottom, and the act below it; redrawn in place."""

    def __init__(self, console: Console, painter: Painter, channel: Channel, watch: Watch) -> None:
        self._painter, self._channel = painter, channel
        self._act, self._line = "", ""
        self._began = time.monotonic()
        self._changed = asyncio.Event()
        self._live = Live(self, console=console, auto_refresh=False, transient=True)
        watch.tell(lambda _: self._changed.set())

    def announce(self, act: str) -> None:
        """What happens from now on."""
        self._act = act
        self._changed.set()

    def typed(self, line: str) -> None:
        """Drawn at the very bottom."""
        self._line = line
        self._changed.set()

    async def run(self) -> None:
        """Redraw on every change, and now and then for the clock."""
        while True:
            self._changed.clear()
            self._live.refresh()
            with suppress(TimeoutError):
                async with asyncio.timeout(_TICK_SECONDS):
                    await self._changed.wait()
            await asyncio.sleep(_REST_SECONDS)

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._live.stop()

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """As many of the last lines as there is room for."""
        flat = options.update(height=None)
        foot = console.render_lines(self._foot(), flat, pad=False)
        lines = console.render_lines(self._painter.everything(self._channel), flat, pad=False)
        room = max(1, console.height - len(foot) - 2)
        for line in [*lines[-room:], [], *foot][-max(1, console.height - 1) :]:
            yield from line
            yield Segment.line()

    def _foot(self) -> Text:
        elapsed = f"{time.monotonic() - self._began:4.0f} s  "
        foot = Text.assemble((elapsed, "dim"), (self._act, "bold"))
        return foot.append(f"\n{self._line}") if self._line else foot


class LineShow:
    """One line per visible thing, with its second; for pipes, logs and simple terminals."""

    def __init__(self, console: Console, painter: Painter, watch: Watch) -> None:
        self._console, self._painter = console, painter
        self._began = time.monotonic()
        self._lines: asyncio.Queue[str] = asyncio.Queue()
        watch.tell(lambda seen: self._lines.put_nowait(self._line(seen)))

    def announce(self, act: str) -> None:
        """A line of its own."""
        self._lines.put_nowait(f"{self._elapsed()}  ── {act}")

    def typed(self, line: str) -> None:
        """The terminal shows it itself."""

    async def run(self) -> None:
        """Print as things happen. Here, so that a closed pipe ends this and not the loopback."""
        while True:
            self._print(await self._lines.get())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        while kind is None and not self._lines.empty():
            self._print(self._lines.get_nowait())

    def _print(self, line: str) -> None:
        self._console.print(Text(line), soft_wrap=True)

    def _elapsed(self) -> str:
        return f"{time.monotonic() - self._began:6.1f} s"

    def _line(self, seen: Sighting) -> str:
        who, said = self._painter.name(seen.author_id), self._painter.plain(seen.content)
        told = summary(said)
        if seen.change is Change.DELETED:
            told = "its message"
        elif seen.change is Change.OPENED:
            told = f"the thread “{said}”"
        return f"{self._elapsed()}  {who:<5} {seen.change:<10} {told}"


def summary(text: str) -> str:
    """A message on one line: how it begins, and how much more there is."""
    first, *others = text.split("\n")
    begin = shorten(first.removeprefix(PRESENTATION), _LONGEST_LINE)
    rest = sum(bool(line.strip()) for line in others)
    return f"{begin}  (+{rest} lines)" if rest else begin
