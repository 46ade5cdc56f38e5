"""The conformance table: all green for a right bot, and for each broken rule red in just its own rows."""

import asyncio
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from openab.cli.conformance.bench import Pace, Row, Verdict
from openab.cli.conformance.examination import Assignment, Unusable, examine
from openab.cli.conformance.faults import FAULTS
from openab.cli.conformance.gateway import Deaf
from openab.simulator.discord import Bot, LoopbackDiscord, commit_then, rate_limited
from tests.fakes.handoff_receiver import receiving

#: What each broken rule turns red, and nothing else.
RED: dict[str, set[str]] = {
    "changes the text": {"hands the text on byte for byte"},
    "bundles": {"makes each hand-off a turn of its own"},
    "not JSON": {
        "refuses JSON that is cut off",
        "refuses JSON that is followed by words",
        "refuses NaN in it, which is no JSON",
    },
    "key twice": {"refuses a key that stands twice"},
    "schema": {"refuses the schema's next version", "refuses a schema that only begins so"},
    "source": {
        "refuses a source that is another bot",
        "refuses a source that is a number",
        "refuses no source",
    },
    "trust": {"refuses one of a bot that it does not trust"},
    "target": {
        "refuses a target that is another bot",
        "refuses a target that is a number",
        "refuses no target",
    },
    "first line": {
        "refuses a first line of the form <@!ID>",
        "refuses a blank at the first line's end",
    },
    "event id": {
        "refuses an event id that is no UUID",
        "refuses an event id that is a number",
        "refuses no event id",
    },
    "expiry's type": {
        "refuses an expiry that is a text",
        "refuses an expiry with a fraction",
        "refuses no expiry",
    },
    "expired": {"refuses an expiry 10 s ago"},
    "expires late": {"refuses an expiry 3630 s ahead"},
    "hops": {
        "refuses a hop",
        'refuses hop count "0"',
        "refuses hop count 0.0",
        "refuses hop count false",
        "refuses no hop count",
        # It was accepted while it was wrong.
        "accepts a refused event once it is right",
    },
    "origin": {
        "refuses the parent channel as origin",
        "refuses an origin that is a number",
        "refuses no origin",
    },
    "origin thread": {"refuses another thread as origin"},
    "origin message": {"refuses an origin message that is no id"},
    "text": {
        "refuses no payload",
        "refuses an empty text",
        "refuses a blank text",
        "refuses a text that is a number",
    },
    "half characters": {"refuses half a character in the text"},
    "strict keys": {"accepts keys that it does not know"},
    "optional ids": {"accepts one without the optional ids"},
    "short lives only": {
        "accepts an expiry 3590 s ahead",
        "accepts each once, whatever the order",
    },
    "long lives only": {"accepts an expiry 20 s ahead"},
    "replay": {
        "accepts an event only once",
        "knows an event id in capital letters",
        "knows an event id in braces",
        "refuses another text under a known event id",
        "accepts each once, whatever the order",
    },
    "spelling": {"knows an event id in capital letters", "knows an event id in braces"},
    "refusals spend": {"accepts a refused event once it is right"},
    "rate": {"accepts ten of eleven in a minute"},
    "rate spends": {"accepts the eleventh after the minute"},
    "edits": {"makes no hand-off of an edit"},
    "finds quoted ones": {
        "makes no hand-off of a quotation",
        "makes no hand-off of a block of code",
        "makes no hand-off of one after other words",
    },
    "first line may go on": {"makes no hand-off of one with words after the mention"},
    "webhooks": {"takes a webhook's envelope for plain text"},
    "hears what is for others": {"ignores what is addressed to another bot"},
    "other JSON": {"takes other JSON after a mention for ordinary text"},
    "wrong receipts": {"📥 on each that it accepts", "⛔ on each that it refuses"},
    "answers twice": {
        "accepts a right hand-off, once, and answers it",
        "hands the text on byte for byte",
        "accepts keys that it does not know",
        "accepts one without the optional ids",
        "accepts an expiry 3590 s ahead",
        "accepts an expiry 20 s ahead",
        "accepts an event only once",
        "accepts each once, whatever the order",
        "accepts a refused event once it is right",
        "accepts the eleventh after the minute",
    },
}
#: It can be judged only from inside, by hand, or with hours to spare.
ALWAYS_UNTESTED = 5
_PATIENCE = 30.0


@dataclass
class Room:
    """A channel with a tester, a bot under test and a bot that nobody trusts."""

    discord: LoopbackDiscord
    channel: str
    tester: Bot
    target: Bot
    stranger: Bot
    told: list[str]

    def assignment(self) -> Assignment:
        """An examination whose minutes take no time."""

        clock = self.discord.clock

        async def wait(seconds: float) -> None:
            clock.advance(seconds)

        return Assignment(
            api_base=self.discord.api_base,
            token=self.tester.token,
            channel=self.channel,
            target=self.target.id,
            stranger=self.stranger.token,
            pace=Pace(clock.monotonic, wait, lambda: clock.wall().timestamp()),
            patience=_PATIENCE,
            keep=False,
            tell=self.told.append,
        )

    async def rows(self, broken: str = "", **changes: object) -> list[Row]:
        """The table of a bot that gets this wrong."""
        assignment = replace(self.assignment(), **changes)  # type: ignore[arg-type]
        async with receiving(self.discord, self.target, {self.tester.id}, broken):
            return await examine(assignment)

    @property
    def open_threads(self) -> list[str]:
        """Those that stand, and are not archived."""
        threads = self.discord.threads(self.channel)
        standing = [one for one in threads if not one.deleted]
        return [one.id for one in standing if one.thread and not one.thread.archived]


def _room(discord: LoopbackDiscord) -> Room:
    discord.limits.enabled = False
    channel = discord.add_channel("general").id
    tester, target, stranger = map(discord.add_bot, ("tester", "target", "stranger"))
    discord.grant(tester.id, channel, "manage_webhooks", "manage_threads")
    return Room(discord, channel, tester, target, stranger, [])


def _with(rows: Sequence[Row], verdict: Verdict) -> set[str]:
    return {row.rule for row in rows if row.verdict is verdict}


async def test_a_right_bot_passes_every_rule_and_the_threads_are_deleted() -> None:
    async with LoopbackDiscord() as discord:
        room = _room(discord)
        rows = await room.rows()
        assert [row for row in rows if row.verdict is Verdict.FAIL] == []
        assert len(_with(rows, Verdict.NOT_TESTABLE)) == ALWAYS_UNTESTED
        # Every rule that can pass can be turned red: nothing is green by nature.
        assert _with(rows, Verdict.PASS) == set.union(*RED.values())
        threads = discord.threads(room.channel)
        assert threads
        assert all(thread.deleted for thread in threads)
        assert discord.messages(room.channel, system=True) == []


@pytest.mark.parametrize("broken", RED)
async def test_a_broken_rule_turns_its_own_rows_red(broken: str) -> None:
    async with LoopbackDiscord() as discord:
        room = _room(discord)
        rows = await room.rows(broken)
        assert _with(rows, Verdict.FAIL) == RED[broken]
        assert room.open_threads, "the threads of a failure are left for people to look at"


async def test_a_bot_that_takes_hand_offs_for_text_fails_each_refusal() -> None:
    async with LoopbackDiscord() as discord:
        failed = _with(await _room(discord).rows("takes them for text"), Verdict.FAIL)
        assert {f"refuses {fault.told}" for group in FAULTS for fault in group} <= failed


async def test_a_bot_that_answers_nothing_fails_at_once() -> None:
    async with LoopbackDiscord() as discord:
        rows = await _room(discord).rows("deaf", patience=0.2)
        assert [row.verdict for row in rows] == [Verdict.FAIL, Verdict.NOT_TESTABLE]
        assert "echo agent?" in rows[0].reason


async def test_receipts_are_optional_and_a_stranger_too() -> None:
    async with LoopbackDiscord() as discord:
        rows = await _room(discord).rows("no receipts", stranger=None)
        assert _with(rows, Verdict.FAIL) == set()
        assert len(_with(rows, Verdict.NOT_TESTABLE)) == ALWAYS_UNTESTED + 3


async def test_a_tester_without_rights_archives_its_threads() -> None:
    async with LoopbackDiscord() as discord:
        room = _room(discord)
        discord.deny(room.tester.id, room.channel, "manage_webhooks", "manage_threads")
        rows = await room.rows()
        assert _with(rows, Verdict.FAIL) == set()
        assert len(_with(rows, Verdict.NOT_TESTABLE)) == ALWAYS_UNTESTED + 1
        assert room.open_threads == []
        assert not any(thread.deleted for thread in discord.threads(room.channel))


async def test_trouble_with_discord_changes_no_verdict() -> None:
    async with LoopbackDiscord() as discord:
        room = _room(discord)
        of_tester = {"bot_id": room.tester.id, "route": "create_message"}
        discord.faults.add(rate_limited(retry_after=0.05), **of_tester, times=3)  # type: ignore[arg-type]
        discord.faults.add(commit_then(502), **of_tester, skip=5)  # type: ignore[arg-type]

        def tell(told: str) -> None:
            if told.startswith(("replays", "eleven")):
                for session in discord.gateway.of_bot(room.tester.id):
                    assert session.line
                    session.line.cut()

        rows = await room.rows(tell=tell)
        assert [row for row in rows if row.verdict is Verdict.FAIL] == []
        assert discord.gateway.identifies[room.tester.id] == 3


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"token": "nonsense"}, "--token"),
        ({"channel": "1"}, "--channel"),
        ({"target": "1"}, "--target"),
    ],
)
async def test_what_cannot_be_examined_is_said_at_once(wrong: dict[str, str], told: str) -> None:
    async with LoopbackDiscord() as discord:
        with pytest.raises(Unusable, match=told):
            await _room(discord).rows(**wrong)


async def test_a_person_a_thread_and_the_tester_itself_are_no_targets() -> None:
    async with LoopbackDiscord() as discord:
        room = _room(discord)
        ann = discord.add_person("ann")
        with pytest.raises(Unusable, match="person"):
            await room.rows(target=ann.id)
        with pytest.raises(Unusable, match="another bot"):
            await room.rows(target=room.tester.id)
        thread = await ann.open_thread(await ann.say(room.channel, "hello"), "hello")
        with pytest.raises(Unusable, match="text channel"):
            await room.rows(channel=thread.id)


async def test_a_tester_without_the_content_intent_is_told_so() -> None:
    async with LoopbackDiscord() as discord:
        room = _room(discord)
        blind = discord.add_bot("blind", message_content=False)
        with pytest.raises(Deaf, match="message content"):
            await room.rows(token=blind.token)


async def _command(*arguments: str) -> tuple[int | None, str, str]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "openab", "conformance", *arguments),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await process.communicate()
    return process.returncode, out.decode(), err.decode()


async def test_the_command_ends_with_1_when_a_rule_fails() -> None:
    async with LoopbackDiscord() as discord:
        room = _room(discord)
        options = ["--token", room.tester.token, "--target", room.target.id, "--json"]
        options += ["--channel", room.channel, "--api-base", discord.api_base, "--patience", "1"]
        code, out, err = await _command(*options)
        assert code == 1, err
        first, second = map(json.loads, out.splitlines())
        assert (first["verdict"], second["verdict"]) == ("fail", "not testable")
        assert "1 fail" in err


@pytest.mark.parametrize("options", [(), ("--token", "t", "--channel", "general", "--target", "1")])
async def test_the_command_ends_with_2_when_options_are_unusable(options: tuple[str, ...]) -> None:
    code, out, err = await _command(*options)
    assert (code, out) == (2, "")
    assert "--channel" in err


async def test_the_printed_agent_answers_by_itself(tmp_path: Path) -> None:
    code, out, _ = await _command("--print-agent")
    assert code == 0
    program = tmp_path / "echo_agent.py"
    program.write_text(out, encoding="utf-8")
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-I", str(program)),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    blocks = [
        {"type": "text", "text": "<sender_context>\n{}\n</sender_context>"},
        {"type": "text", "text": "probe-0123456789ab \x00 "},
    ]
    calls: list[tuple[str, dict[str, object]]] = [
        ("initialize", {"protocolVersion": 1}),
        ("session/new", {"cwd": "/", "mcpServers": []}),
        ("session/unknown", {}),
        ("session/prompt", {"sessionId": "s", "prompt": blocks}),
    ]
    lines = [
        json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
        for number, (method, params) in enumerate(calls)
    ]
    told, _ = await process.communicate("\n".join(lines).encode() + b"\n")
    answers = [json.loads(line) for line in told.splitlines()]
    assert [one.get("id") for one in answers] == [0, 1, 2, None, 3]
    assert answers[2]["error"]["code"] == -32601
    said = answers[3]["params"]["update"]["content"]["text"]
    assert said.startswith("heard probe-0123456789ab ")
    assert answers[4]["result"] == {"stopReason": "end_turn"}
