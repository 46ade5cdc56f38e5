"""What of an agent's output the final holds: tables, narration, tool calls, or why there is nothing."""

import pytest

from openab.control.settings import ReplySettings, Settings
from openab.domain.turn import Claimed
from openab.storage import streams, turns
from openab.storage.engine import Database
from openab.storage.streams import Progress, Segment
from openab.text.neutralize import neutralize
from openab.text.split import join, split_parts
from openab.text.tables import TableStyle, convert
from openab.text.tools import ToolDisplay
from tests.builders import ACCOUNT, HOME, a_conversation, a_turn, some_settings
from tests.conformance.control_stage import Stage, on_stage

TABLE = "| name | n |\n|---|---|\n| a | 1 |"
STEPS = (
    "[[say=Let me look.]][[tool=read:x.py]][[say=Now I know.]][[tool=read:y.py]][[say=It is 7.]]"
)
WHOLE = "Let me look.\n\nNow I know.\n\nIt is 7."


def settings(mode: str = "stream", **replies: object) -> Settings:
    told = ReplySettings(final="fresh", ping_requester=False, **replies)  # type: ignore[arg-type]
    return some_settings(replies=lambda: told, mode=lambda _ref, _has_other_bot: mode)


async def final_of(database: Database, told: Settings, text: str) -> list[str]:
    """The messages of the final, as they were posted."""
    async with on_stage(database, told) as stage:
        message = stage.say(text)
        await stage.settled(message)
        return finals(stage)


def finals(stage: Stage) -> list[str]:
    posted = [call.body for call in stage.channel.calls_of("create_message")]
    return [body.content for body in posted if body and not body.silent]


class TestTables:
    @pytest.mark.parametrize("style", list(TableStyle))
    async def test_are_shown_as_the_setting_says(
        self, database: Database, style: TableStyle
    ) -> None:
        text = f"before\n\n{TABLE}\n\nafter".replace("\n", "\\n")
        told = settings(tables=style)
        (shown,) = await final_of(database, told, f"[[say={text}]]")
        assert shown == convert(f"before\n\n{TABLE}\n\nafter", style)
        assert ("| name |" in shown) is (style is not TableStyle.BULLETS)
        assert shown.startswith("before\n\n```\n") is (style is TableStyle.CODE)

    async def test_one_that_fills_many_messages_loses_nothing(self, database: Database) -> None:
        rows = "".join(f"| {n} <@1> | {'w' * 40} |\n" for n in range(160))
        answer = f"| who | what |\n|---|---|\n{rows}"
        text = answer.replace("\n", "\\n")
        shown = await final_of(database, settings(), f"[[say={text}]]")
        whole = neutralize(convert(answer, "code").rstrip())
        parts = split_parts(whole)
        assert shown == [part.content for part in parts]
        assert join(parts) == whole
        assert len(shown) > 3

    async def test_are_converted_in_what_an_interrupted_turn_left(self, database: Database) -> None:
        stage = Stage(database, settings())
        async with database.transaction() as tx:
            where = await a_conversation(tx)
            turn = await a_turn(tx, where, stage.channel.say(HOME, "hi").message_id)
            await streams.ensure(tx, turn, ACCOUNT, "working")
            queued = await turns.get(tx, turn)
            assert queued is not None
            await turns.record(tx, queued, Claimed(), started_at=await tx.now(), attempt=1)
            left = Progress(turn, [Segment(1, TABLE)], 1, [], "working")
            await streams.advance(tx, [left])
        async with on_stage(database, settings(), channel=stage.channel) as heir:
            await heir.until(lambda: _has_posted(heir))
        (shown,) = finals(heir)
        assert convert(TABLE, "code") in shown


async def _has_posted(stage: Stage) -> bool:
    return bool(finals(stage))


class TestNarration:
    @pytest.mark.parametrize(
        ("mode", "is_wanted", "said"),
        [
            ("stream", False, WHOLE),
            ("heartbeat", False, "It is 7."),
            ("final", False, "It is 7."),
            ("heartbeat", True, WHOLE),
            ("final", True, WHOLE),
        ],
    )
    async def test_goes_where_nobody_watched_it(
        self, database: Database, mode: str, is_wanted: bool, said: str
    ) -> None:
        told = settings(mode, narration=is_wanted, tool_display=ToolDisplay.NONE)
        assert await final_of(database, told, STEPS) == [said]

    async def test_a_turn_that_ends_with_a_tool_delivers_what_it_said(
        self, database: Database
    ) -> None:
        told = settings("final", tool_display=ToolDisplay.NONE)
        shown = await final_of(database, told, "[[say=Let me look.]][[tool=read:x.py]]")
        assert shown == ["Let me look."]


class TestTools:
    @pytest.mark.parametrize(
        ("display", "lines"),
        [
            (ToolDisplay.FULL, "✅ `ls` (\u00d72)\n✅ `make`\n\ndone"),
            (ToolDisplay.COMPACT, "✅ 3 tool(s)\n\ndone"),
            (ToolDisplay.NONE, "done"),
        ],
    )
    async def test_are_listed_as_the_setting_says(
        self, database: Database, display: ToolDisplay, lines: str
    ) -> None:
        steps = "[[tool=execute:ls]][[tool=execute:ls]][[tool=execute:make]][[say=done]]"
        assert await final_of(database, settings(tool_display=display), steps) == [lines]


class TestNothingSaid:
    async def test_a_turn_without_a_single_token_is_diagnosed(self, database: Database) -> None:
        (shown,) = await final_of(database, settings(), "[[tokens=0]]")
        assert "0 tokens" in shown
        assert "login or API key" in shown

    async def test_otherwise_it_is_only_said(self, database: Database) -> None:
        (shown,) = await final_of(database, settings(), "[[tokens=5]]")
        assert "without any text" in shown
