"""How the demo shows a thread and listens to a keyboard."""

import asyncio
import io
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from rich.text import Text

from openab.cli.demo.keyboard import LineEditor
from openab.cli.demo.picture import Painter, folded
from openab.cli.demo.show import LineShow, LiveShow, redraws, show_on, summary
from openab.cli.demo.sightings import Watch
from openab.ports.tasks import end, spawn
from openab.simulator.discord import LoopbackDiscord


def _console(**options: Any) -> Console:
    return Console(file=io.StringIO(), highlight=False, markup=False, emoji=False, **options)


def _terminal(width: int = 60, height: int = 20) -> Console:
    environ = {"TERM": "xterm"}
    return _console(force_terminal=True, width=width, height=height, _environ=environ)


def _drawn(console: Console) -> str:
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


async def test_a_thread_is_drawn_as_people_see_it() -> None:
    discord, console = LoopbackDiscord(), _console(width=60)
    ann, sol = discord.add_person("Ann"), discord.add_bot("Sol")
    channel = discord.add_channel("general")
    asked = await ann.say(channel.id, f"{sol.mention} why?")
    thread = await sol.open_thread(asked, "why?")
    live = await sol.say(thread.id, "-# ⏳ starting")
    await sol.edit(live, "-# ⏳ 3s\n✅ `grep`\n\n```py\nx = 1\n```")
    await sol.react(asked, "🔥")
    console.print(Painter(discord.world).everything(channel))
    lines = [line.strip() for line in _drawn(console).splitlines() if line.strip()]
    assert lines == [
        *("# general", "Ann", "@Sol why?", "[🔥 1]", "╰─ 🧵 why?"),
        *("Sol BOT  (edited)", "⏳ 3s", "✅ grep", "│ x = 1"),
    ]


async def test_an_inert_mention_stays_the_letters_that_people_see() -> None:
    discord = LoopbackDiscord()
    sol = discord.add_bot("Sol")
    painter = Painter(discord.world)
    assert painter.plain(f"<\u200b@{sol.id}> {sol.mention}") == f"<@{sol.id}> @Sol"


@given(st.integers(0, 60), st.booleans())
def test_a_long_message_loses_its_middle_only(count: int, newest_last: bool) -> None:
    lines = [Text(str(number)) for number in range(count)]
    shown = [line.plain for line in folded(lines, newest_last=newest_last)]
    kept = [line for line in shown if not line.startswith("⋯")]
    assert len(shown) <= 13
    assert kept == [line for line in map(str, range(count)) if line in kept]
    assert len(kept) == count or f"⋯ {count - len(kept)} more lines" in shown


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("-# ⏳ starting", "⏳ starting"),
        ("one\n\ntwo\nthree", "one  (+2 lines)"),
        ("x" * 200, "x" * 99 + "…"),
        ("", ""),
    ],
)
def test_a_message_is_told_on_one_line(text: str, line: str) -> None:
    assert summary(text) == line


async def test_without_a_terminal_each_visible_thing_is_a_line_with_its_second() -> None:
    discord, console = LoopbackDiscord(), _console(width=20)
    ann, channel = discord.add_person("Ann"), discord.add_channel("general")
    watch = Watch(discord, ann.id)
    with show_on(console, Painter(discord.world), channel, watch) as show:
        assert isinstance(show, LineShow)
        show.announce("an act")
        message = await ann.say(channel.id, "a text that is longer than the terminal is wide")
        await ann.edit(message, "changed")
        await ann.react(message, "👍")
        await ann.unreact(message, "👍")
        await ann.open_thread(message, "a thread")
        await ann.delete(message)
    told = [line.split(" s  ", 1)[1] for line in _drawn(console).splitlines()]
    assert told == [
        "── an act",
        "Ann   writes     a text that is longer than the terminal is wide",
        "Ann   edits      changed",
        "Ann   reacts     👍",
        "Ann   takes back 👍",
        "Ann   opens      the thread “a thread”",
        "Ann   deletes    its message",
    ]


@pytest.mark.parametrize(("width", "height"), [(60, 20), (12, 6), (1, 1)])
async def test_a_terminal_shows_the_newest_lines_and_never_overflows(
    width: int, height: int
) -> None:
    discord, console = LoopbackDiscord(), _terminal(width, height)
    ann, channel = discord.add_person("Ann"), discord.add_channel("general")
    show = show_on(console, Painter(discord.world), channel, Watch(discord, ann.id))
    assert isinstance(show, LiveShow)
    show.announce("act")
    for number in range(40):
        await ann.say(channel.id, f"message {number}")
    lines = console.render_lines(show, pad=False)
    assert len(lines) <= max(1, height - 1)
    if width == 60:
        told = "\n".join("".join(segment.text for segment in line) for line in lines)
        assert "message 39" in told
        assert "message 0" not in told


async def test_a_change_is_drawn_at_once() -> None:
    discord, console = LoopbackDiscord(), _terminal()
    ann, channel = discord.add_person("Ann"), discord.add_channel("general")
    with show_on(console, Painter(discord.world), channel, Watch(discord, ann.id)) as show:
        running = spawn("show", show.run())
        await ann.say(channel.id, "a message")
        show.typed("Ann: hel")
        async with asyncio.timeout(5):
            while not all(told in _drawn(console) for told in ("a message", "Ann: hel")):  # noqa: ASYNC110 - see below
                # What was drawn is a text: there is no signal to wait for.
                await asyncio.sleep(0.01)
        await end(running)


@pytest.mark.parametrize(
    ("term", "is_terminal", "anew"),
    [("xterm", True, True), ("dumb", True, False), ("xterm", False, False)],
)
def test_only_a_terminal_that_can_is_redrawn(term: str, is_terminal: bool, anew: bool) -> None:
    console = _console(force_terminal=is_terminal, _environ={"TERM": term})
    assert redraws(console) is anew


def test_keys_become_lines() -> None:
    editor = LineEditor()
    assert editor.feed("hel") == []
    assert editor.text == "hel"
    assert editor.feed("p\x7flo\r") == ["hello"]
    assert editor.feed("wrong\x15right\nnext") == ["right"]
    assert editor.text == "next"
    assert not editor.is_ended


@pytest.mark.parametrize("keys", ["\r", "\n", "  \n", "\x04", "\x15\x04"])
def test_an_empty_line_or_its_end_ends_the_typing(keys: str) -> None:
    editor = LineEditor()
    assert editor.feed(keys) == []
    assert editor.is_ended


def test_the_end_key_in_the_middle_of_a_line_is_ignored() -> None:
    editor = LineEditor()
    editor.feed("half a line\x04")
    assert (editor.is_ended, editor.text) == (False, "half a line")


@given(st.text(max_size=3000))
def test_whatever_is_typed_a_line_can_be_posted(keys: str) -> None:
    editor = LineEditor()
    for line in editor.feed(keys):
        assert line.strip()
        assert "\n" not in line
        assert line.isprintable()
        assert len(line) <= 1500
