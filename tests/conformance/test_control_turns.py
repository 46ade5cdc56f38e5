"""A turn from a mention to its answer, and every way in which it can end otherwise."""

import asyncio
from dataclasses import fields
from datetime import datetime, timedelta

import pytest

from openab.control import owner
from openab.control.elsewhere import owe_in
from openab.control.settings import ReplySettings, Settings
from openab.control.turn_runner import TurnRunner
from openab.domain.agent_events import AgentFailure, FailureKind
from openab.domain.outbound import presentation_body
from openab.domain.turn import Outcome, TurnState
from openab.ports.agent import AgentUnavailable
from openab.ports.feed import Phase, Shown
from openab.storage import conversations
from openab.storage.engine import Database
from tests.builders import an_author, some_settings
from tests.conformance.control_stage import Stage, on_stage
from tests.fakes.channel import RecordingChannel

FRESH = some_settings(replies=lambda: ReplySettings(final="fresh"))
EDITS = some_settings(replies=lambda: ReplySettings(final="edit"))


def reactions(stage: Stage, message: object) -> set[str]:
    return stage.channel.message(message.message_id).reactions  # type: ignore[attr-defined]


class TestTheMainJob:
    async def test_a_mention_becomes_a_thread_with_the_answer(self, database: Database) -> None:
        async with on_stage(database, FRESH) as stage:
            stage.agents.may_end.clear()
            message = stage.say("say hello")
            await stage.let_it_be_seen()
            turn = await stage.settled(message)
            await stage.quiet()
            log = await stage.log_of(turn.id)

        thread = message.message_id
        assert (turn.state, turn.outcome) == (TurnState.DONE, Outcome.COMPLETED)
        assert turn.raw == "You said: say hello"
        assert stage.channel.titles[thread] == "say hello"
        assert stage.channel.shown(thread) == ["<@31>\nYou said: say hello"]
        assert reactions(stage, message) == {"🆗"}
        assert log == [
            "turn_started", "session_opened", "turn_completed", "answer_owed", "turn_settled",
        ]  # fmt: skip
        (feed,) = stage.feeds.opened
        assert feed.is_closed
        assert len(feed.placeholders) == 1
        (final,) = [
            c for c in stage.channel.calls_of("create_message") if c.body and c.body.mention
        ]
        assert final.body is not None
        assert (final.body.mention, final.body.silent) == ("31", False)

    async def test_a_short_turn_among_people_may_edit_its_placeholder(
        self, database: Database
    ) -> None:
        async with on_stage(database, EDITS) as stage:
            stage.agents.may_end.clear()
            message = stage.say("[[say=hello]]")
            await stage.let_it_be_seen()
            turn = await stage.settled(message)
            rows = await stage.rows(turn.id)
        (shown,) = stage.channel.posted(message.message_id)
        assert shown.body.content == "hello"
        assert shown.message_id == stage.feeds.opened[0].placeholders[0]
        assert [row.kind.value for row in rows] == ["create", "edit"]

    async def test_a_doubtful_edit_makes_the_end_fresh(self, database: Database) -> None:
        async with on_stage(database, EDITS) as stage:
            stage.feeds.leaves = Shown(edit_unknown=True)
            stage.agents.may_end.clear()
            message = stage.say("[[say=hello]]")
            await stage.let_it_be_seen()
            await stage.settled(message)
        (shown,) = stage.channel.posted(message.message_id)
        assert shown.message_id != stage.feeds.opened[0].placeholders[0]

    async def test_in_final_mode_nothing_is_shown_before_the_answer(
        self, database: Database
    ) -> None:
        settings = some_settings(mode=lambda _ref, _other: "final")
        async with on_stage(database, settings) as stage:
            message = stage.say("hi")
            await stage.settled(message)
        assert len(stage.channel.calls_of("create_message")) == 1

    async def test_an_answer_without_a_visible_word_is_told(self, database: Database) -> None:
        async with on_stage(database) as stage:
            message = stage.say("[[say=\u200b]]")
            turn = await stage.settled(message)
        assert turn.state is TurnState.DONE
        assert "without any text" in stage.channel.shown(message.message_id)[0]

    async def test_many_parts_come_in_order_and_lose_nothing(self, database: Database) -> None:
        async with on_stage(database) as stage:
            message = stage.say("[[words=800]]")
            await stage.settled(message, within=30)
        shown = stage.channel.shown(message.message_id)
        words = " ".join(shown).removeprefix("<@31>").split()
        assert words == [f"word{n}" for n in range(800)]
        assert len(shown) == 4


class TestASecondMessage:
    async def test_is_told_its_place_and_answered_in_the_same_session(
        self, database: Database
    ) -> None:
        async with on_stage(database) as stage:
            first = stage.say("[[hang]]")
            await stage.signals.wait("agent_prompted")
            second = stage.say("[[recall]] [[hang]]", thread=first.message_id, mention=False)
            third = stage.say("later", thread=first.message_id, mention=False)
            await stage.channel.until(lambda c: _has(c, first.message_id, "Queued behind 2"))
            assert _has(stage.channel, first.message_id, "Queued behind 1")
            await stage.press(first.message_id)
            await stage.settled(first)
            # The number goes down when a turn before it has ended.
            await stage.channel.until(lambda c: _was_edited_to(c, "Queued behind 1"))
            await stage.press(first.message_id, interaction="9002")
            await stage.settled(second)
            await stage.settled(third)
            await stage.quiet()
        shown = stage.channel.shown(first.message_id)
        assert any("I remember 1 prompts" in text for text in shown)
        assert any("You said: later" in text for text in shown)
        assert not any("Queued" in text or "starting" in text for text in shown)

    async def test_in_the_thread_is_answered_by_a_reply(self, database: Database) -> None:
        # Whether a short turn's live message is there in time to be edited is a matter of luck.
        async with on_stage(database, FRESH) as stage:
            first = stage.say("one")
            await stage.settled(first)
            second = stage.say("two", thread=first.message_id, mention=False)
            await stage.settled(second)
        calls = stage.channel.calls_of("create_message")
        final = next(c.body for c in calls if c.body and "You said: two" in c.body.content)
        assert (final.reply_to, final.mention) == (second.message_id, "31")

    async def test_begins_while_the_answer_before_it_is_still_being_sent(
        self, database: Database
    ) -> None:
        settings = some_settings(call=timedelta(seconds=30))
        async with on_stage(database, settings) as stage:
            first = stage.say("one")
            await stage.signals.wait("agent_prompted")
            stage.channel.hang(
                "create_message", when=lambda c: bool(c.body and "One more" in c.body.content)
            )
            slow = stage.say("[[say=One more]]", thread=first.message_id, mention=False)
            await stage.channel.until(lambda c: any(
                call.body and "One more" in call.body.content
                for call in c.calls_of("create_message")
            ))  # fmt: skip
            stage.say("[[hang]]", thread=first.message_id, mention=False)
            await stage.signals.wait("agent_prompted", times=3, seconds=25)
            turn = await stage.turn_of(slow)
            assert turn is not None
            assert turn.state is TurnState.ANSWERED
            stage.channel.end_faults()


class TestThePaceOfAConversation:
    async def test_is_five_writes_and_outlives_its_owner(self, database: Database) -> None:
        defaults = {one.name: one.default for one in fields(Settings)}
        assert defaults["five_writes"] == timedelta(seconds=5)
        async with on_stage(database, some_settings(five_writes=timedelta(hours=1))) as stage:
            message = stage.say("[[say=one]]")
            turn = await stage.settled(message)
            await stage.quiet()
            window = stage.dispatcher._window(turn.conversation)
            assert not window.is_empty(stage.clock()), "what was written is forgotten"
            now = stage.clock()
            for _ in range(5):
                window.note(now)
            assert stage.dispatcher._window(turn.conversation).free_at() == now + 3600


class TestWhatSomebodyElsePutsIntoAConversation:
    async def test_is_seen_at_once_by_its_owner(
        self, database: Database, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        resting: list[object] = []
        wait = owner.ConversationOwner._wait

        async def seen_waiting(one: owner.ConversationOwner, due: datetime | None) -> None:
            resting.append(one)
            await wait(one, due)
            resting.remove(one)

        monkeypatch.setattr(owner, "_LONGEST_WAIT", 600.0)
        monkeypatch.setattr(owner.ConversationOwner, "_wait", seen_waiting)
        async with on_stage(database, some_settings(poll=timedelta(seconds=600))) as stage:
            message = stage.say("[[hang]]")

            async def has_nothing_to_do() -> bool:
                return bool(resting) and await stage._is_seen()

            await stage.until(has_nothing_to_do)
            turn = await stage.turn_of(message)
            assert turn is not None
            async with database.transaction() as tx:
                where = await conversations.get(tx, turn.conversation)
                told = presentation_body("from elsewhere")
                await owe_in(tx, stage.settings, where, "elsewhere:1", told)
            await stage.channel.until(lambda c: _has(c, message.message_id, "from elsewhere"))


class TestAFailure:
    async def test_of_the_agent_is_told_with_the_partial_text(self, database: Database) -> None:
        async with on_stage(database) as stage:
            message = stage.say("[[say=so far]] [[fail=-32603:boom]]")
            turn = await stage.settled(message)
            await stage.quiet()
        (text,) = stage.channel.shown(message.message_id)
        assert (turn.state, turn.outcome) == (TurnState.FAILED, Outcome.FAILED)
        assert "boom" in text
        assert text.endswith("so far")
        assert reactions(stage, message) == {"😱"}

    async def test_an_exit_costs_one_turn_and_the_next_has_its_memory(
        self, database: Database
    ) -> None:
        async with on_stage(database) as stage:
            first = stage.say("[[say=x]] [[exit=3]]")
            failed = await stage.settled(first)
            second = stage.say("[[recall]]", thread=first.message_id, mention=False)
            done = await stage.settled(second)
        assert (failed.outcome, done.outcome) == (Outcome.FAILED, Outcome.COMPLETED)
        assert "exit code 3" in stage.channel.shown(first.message_id)[0]
        assert "I remember 1 prompts" in stage.channel.shown(first.message_id)[-1]

    async def test_to_open_is_told_and_keeps_the_session(self, database: Database) -> None:
        async with on_stage(database) as stage:
            first = stage.say("one")
            await stage.settled(first)
            failure = AgentFailure(FailureKind.SETUP_TIMEOUT, "no answer to session/load")
            stage.agents.refuse_open = AgentUnavailable(failure)
            second = stage.say("two", thread=first.message_id, mention=False)
            failed = await stage.settled(second)
            third = stage.say("[[recall]]", thread=first.message_id, mention=False)
            await stage.settled(third)
        assert failed.outcome is Outcome.FAILED
        assert any("did not answer" in text for text in stage.channel.shown(first.message_id))
        assert "I remember 1 prompts" in stage.channel.shown(first.message_id)[-1]

    async def test_of_its_memory_is_told_and_the_transcript_given(self, database: Database) -> None:
        async with on_stage(database) as stage:
            first = stage.say("the word is swordfish")
            await stage.settled(first)
            stage.agents._live.clear()
            stage.agents._memory.clear()
            second = stage.say("two", thread=first.message_id, mention=False)
            await stage.settled(second)
        assert "could not be restored" in stage.channel.shown(first.message_id)[-1]
        preamble = stage.agents.prompts[-1].content[0].text
        assert "swordfish" in preamble

    async def test_is_not_made_by_text_that_nobody_can_encode(self, database: Database) -> None:
        async with on_stage(database, FRESH) as stage:
            message = stage.say("[[say=a\0b\ud800c]]")
            turn = await stage.settled(message)
        assert turn.raw == "a\0b\ud800c"
        assert stage.channel.shown(message.message_id) == ["<@31>\nab\ufffdc"]


class TestACancel:
    async def test_of_a_running_turn_keeps_the_partial_text(self, database: Database) -> None:
        async with on_stage(database) as stage:
            message = stage.say("[[say=half]] [[hang]]")
            await stage.signals.wait("streams_committed")
            stage.agents.may_end.clear()
            told = await stage.press(message.message_id)
            again = await stage.press(message.message_id, interaction="9002")
            stage.agents.may_end.set()
            turn = await stage.settled(message)
            await stage.quiet()
            late = await stage.press(message.message_id, interaction="9003")
        (text,) = stage.channel.shown(message.message_id)
        assert (turn.state, turn.outcome) == (TurnState.CANCELLED, Outcome.CANCELLED)
        assert "half" in text
        assert "Cancelled by Name 31" in text
        assert "asked the agent to stop" in told
        assert again == told
        assert "Nothing to cancel" in late
        assert reactions(stage, message) == {"🛑"}
        assert Phase.CANCELLING in stage.feeds.opened[0].phases

    async def test_by_text_is_exact_and_silent(self, database: Database) -> None:
        async with on_stage(database) as stage:
            message = stage.say("[[hang]]")
            await stage.signals.wait("agent_prompted")
            stage.say("!cancel", thread=message.message_id, mention=False)
            turn = await stage.settled(message)
        assert turn.state is TurnState.CANCELLED
        assert len(stage.channel.shown(message.message_id)) == 2

    async def test_a_slash_word_goes_to_the_agent(self, database: Database) -> None:
        async with on_stage(database) as stage:
            message = stage.say("/cancel")
            await stage.settled(message)
        assert stage.agents.prompts[0].content[-1].text == "/cancel"

    async def test_of_a_queued_turn_never_reaches_the_agent(self, database: Database) -> None:
        async with on_stage(database) as stage:
            first = stage.say("[[hang]]")
            await stage.signals.wait("agent_prompted")
            bob = an_author("32")
            second = stage.say("mine", thread=first.message_id, author=bob, mention=False)
            await stage.channel.until(lambda c: _has(c, first.message_id, "Queued behind 1"))
            waiting = await stage.turn_of(second)
            assert waiting is not None
            told = await stage.press(first.message_id, waiting.id, author=bob)
            await stage.channel.until(lambda c: _has(c, first.message_id, "before it started"))
            turn = await stage.settled(second)
            await stage.press(first.message_id, interaction="9002")
            await stage.settled(first)
            await stage.quiet()
        assert "before it started" in told
        assert turn.state is TurnState.CANCELLED
        assert len(stage.agents.prompts) == 1
        assert reactions(stage, second) == {"🛑"}
        assert not any("Queued" in text for text in stage.channel.shown(first.message_id))

    async def test_is_for_the_requester_and_operators_only(self, database: Database) -> None:
        async with on_stage(database) as stage:
            message = stage.say("[[hang]]")
            await stage.signals.wait("agent_prompted")
            stranger = await stage.press(message.message_id, author=an_author("99"))
            turn = await stage.turn_of(message)
            assert turn is not None
            assert turn.cancel_requested_at is None
            await stage.press(message.message_id, author=an_author("1"), interaction="9002")
            ended = await stage.settled(message)
        assert "Only Name 31" in stranger
        assert ended.cancelled_by == "Name 1"

    async def test_while_the_agent_is_opened_ends_at_once(self, database: Database) -> None:
        async with on_stage(database) as stage:
            opening = asyncio.Event()

            async def never_opens(*_args: object) -> None:
                opening.set()
                await asyncio.Event().wait()

            stage.agents.open = never_opens  # type: ignore[assignment, method-assign]
            message = stage.say("hi")
            await opening.wait()
            await stage.press(message.message_id)
            turn = await stage.settled(message)
        assert turn.state is TurnState.CANCELLED
        assert not stage.agents.prompts

    async def test_repeated_by_the_network_does_not_hit_the_next_turn(
        self, database: Database
    ) -> None:
        async with on_stage(database) as stage:
            first = stage.say("[[hang]]")
            await stage.signals.wait("agent_prompted")
            second = stage.say("[[wait=0.5]] [[say=b]]", thread=first.message_id, mention=False)
            await stage.signals.wait("intake_committed", times=2)
            await stage.press(first.message_id, interaction="7")
            await stage.settled(first)
            await stage.signals.wait("agent_prompted", times=2)
            await stage.press(first.message_id, interaction="7")
            turn = await stage.settled(second)
        assert turn.state is TurnState.DONE

    async def test_between_choice_and_claim_is_no_bug(
        self, database: Database, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        async with on_stage(database) as stage:
            chosen, go_on = asyncio.Event(), asyncio.Event()
            original = TurnRunner._claim

            async def slow(self: TurnRunner) -> object:
                chosen.set()
                await go_on.wait()
                return await original(self)

            monkeypatch.setattr(TurnRunner, "_claim", slow)
            message = stage.say("hi")
            await chosen.wait()
            told = await stage.press(message.message_id)
            go_on.set()
            turn = await stage.settled(message)
            next_one = stage.say("again", thread=message.message_id)
            await stage.settled(next_one)
        assert "before it started" in told
        assert turn.state is TurnState.CANCELLED
        assert len(stage.agents.prompts) == 1


def _was_edited_to(channel: RecordingChannel, text: str) -> bool:
    edits = channel.calls_of("edit_message")
    return any(edit.body is not None and text in edit.body.content for edit in edits)


def _has(channel: RecordingChannel, conversation: str, text: str) -> bool:
    return any(text in shown for shown in channel.shown(conversation))
