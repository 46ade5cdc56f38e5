"""What people see besides the answer: reactions, a renewed placeholder, questions for permission."""

from dataclasses import replace
from datetime import timedelta
from itertools import chain, combinations

import pytest
import sqlalchemy as sa

from openab.control import owner
from openab.control.settings import ReactionSettings, ReplySettings
from openab.control.status_reactions import StatusReactions
from openab.domain.ids import TurnId
from openab.domain.message import CommandKind, InboundMessage
from openab.domain.outbound import MessageBody
from openab.domain.turn import TurnState
from openab.ports.channel import ChannelBusy, ChannelRejected, DeliveryUnknown, Refusal
from openab.ports.feed import Phase
from openab.storage import conversations, schema, turns
from openab.storage import reactions as reaction_rows
from openab.storage.engine import Database
from tests.builders import (
    HOME,
    a_claim,
    a_conversation,
    a_spec,
    a_turn,
    an_author,
    some_settings,
)
from tests.conformance.control_stage import Stage, on_stage
from tests.fakes.channel import RecordingChannel

FRESH = some_settings(replies=lambda: ReplySettings(final="fresh"))
ASKING = replace(FRESH, agent=lambda: a_spec(permission_mode="ask"))
QUESTION = "[[permission=execute:rm -rf <@1> `x`]]"


class TestReactions:
    async def test_from_any_shown_to_any_wished_nothing_is_left_over(
        self, database: Database
    ) -> None:
        stage = Stage(database, some_settings())
        trigger = stage.channel.say(HOME, "hi")
        async with database.transaction() as tx:
            where = await a_conversation(tx)
            turn = await a_turn(tx, where, trigger.message_id)
        ((_, ownership),) = await a_claim(database)
        hands = StatusReactions(stage.services, stage.services.channel(lambda: True), ownership)
        emojis = ("👀", "🔥", "🆗")
        subsets = chain.from_iterable(combinations(emojis, n) for n in range(4))
        for shown in subsets:
            for wished in (*emojis, None):
                for is_tentative in (False, True):
                    # A tentative one may stand there or not: here it does not.
                    listed = [f"?{e}" if is_tentative else e for e in shown]
                    stage.channel.message(trigger.message_id).reactions = (
                        set() if is_tentative else set(shown)
                    )
                    async with database.transaction() as tx:
                        now = await tx.now()
                        await reaction_rows.wish(tx, turn, wished, now)
                        (known,) = await reaction_rows.of_turn(tx, turn)
                        await reaction_rows.note(tx, known, listed, now, 0)
                    steps = 0
                    while (await hands.step())[0]:
                        steps += 1
                        assert steps < 12
                    expected = {wished} if wished else set()
                    assert stage.channel.message(trigger.message_id).reactions == expected
                    async with database.read() as tx:
                        (known,) = await reaction_rows.of_turn(tx, turn)
                    assert (set(known.shown), known.due_at) == (expected, None)

    async def test_a_crash_before_or_after_the_call_leaves_nothing(
        self, database: Database
    ) -> None:
        stage = Stage(database, some_settings())
        for n, is_made in enumerate((True, False)):
            trigger = stage.channel.say(HOME, "hi")
            async with database.transaction() as tx:
                where = await a_conversation(tx, str(600 + n))
                turn = await a_turn(tx, where, trigger.message_id)
                await tx.execute(sa.update(schema.turns).values(trigger_conversation_id=HOME))
                await reaction_rows.wish(tx, turn, "👀", await tx.now())
            ((_, ownership),) = await a_claim(database)
            channel = stage.services.channel(lambda: True)
            first = StatusReactions(stage.services, channel, ownership)
            move = await first._prepare()
            assert move is not None
            if is_made:
                await first._call(move)
            async with database.transaction() as tx:
                await reaction_rows.wish(tx, turn, "🆗", await tx.now())
            later = StatusReactions(stage.services, channel, ownership)
            while (await later.step())[0]:
                pass
            assert stage.channel.message(trigger.message_id).reactions == {"🆗"}

    async def test_a_refused_emoji_spoils_nothing(self, database: Database) -> None:
        async with on_stage(database) as stage:
            refusal = ChannelRejected(Refusal.OTHER, "unknown emoji", 10014)
            stage.channel.fail("add_reaction", refusal, times=9, when=lambda c: c.word == "👀")
            message = stage.say("hi")
            await stage.settled(message)
            await stage.quiet()
        assert reactions(stage, message) == {"🆗"}

    async def test_a_call_that_fails_is_repeated(self, database: Database) -> None:
        async with on_stage(database) as stage:
            stage.channel.fail("add_reaction", ChannelBusy("429", 0.05))
            stage.channel.fail("add_reaction", DeliveryUnknown("502"), commits=True)
            message = stage.say("hi")
            await stage.settled(message)
            await stage.quiet()
        assert reactions(stage, message) == {"🆗"}

    async def test_what_was_certainly_not_added_is_not_removed(self, database: Database) -> None:
        """A 429 and a changed wish would else cost a call that Discord answers with 400."""
        async with on_stage(database) as stage:
            busy = ChannelBusy("429", 0.05)
            stage.channel.fail("add_reaction", busy, times=99, when=lambda c: c.word != "🆗")
            message = stage.say("hi")
            await stage.settled(message)
            await stage.quiet()
        assert reactions(stage, message) == {"🆗"}
        assert stage.channel.calls_of("remove_reaction") == []

    async def test_waits_for_the_accounts_room_and_wastes_none(self, database: Database) -> None:
        slots: list[float] = []

        def reserve(now: float) -> float:
            slots.append(now + 0.2)
            return slots[-1]

        stage = Stage(database, some_settings())
        stage.services = replace(stage.services, reserve=reserve)
        trigger = stage.channel.say(HOME, "hi")
        async with database.transaction() as tx:
            turn = await a_turn(tx, await a_conversation(tx), trigger.message_id)
            await reaction_rows.wish(tx, turn, "👀", await tx.now())
        ((_, ownership),) = await a_claim(database)
        hands = StatusReactions(stage.services, stage.services.channel(lambda: True), ownership)
        for _ in range(3):
            did, due = await hands.step()
            assert (did, due is not None, len(slots)) == (False, True, 1)
        stage.clock.extra += 1
        assert (await hands.step())[0]
        assert [call.word for call in stage.channel.calls] == ["👀"]

    async def test_one_that_is_in_vain_is_given_up(self, database: Database) -> None:
        async with on_stage(database) as stage:
            stage.channel.fail("add_reaction", ChannelBusy("429", 0.01), times=999)
            message = stage.say("hi")
            await stage.settled(message)
            await stage.quiet()
        assert reactions(stage, message) == set()
        assert 7 <= len(stage.channel.calls_of("add_reaction")) <= 21

    async def test_the_last_goes_too_where_that_is_wished(self, database: Database) -> None:
        no_wait = timedelta(0)
        settings = some_settings(
            reactions=ReactionSettings(remove_after_reply=True, pace=no_wait, done_hold=no_wait)
        )
        async with on_stage(database, settings) as stage:
            message = stage.say("hi")
            await stage.settled(message)
            await stage.quiet()
        assert "🆗" in [call.word for call in stage.channel.calls_of("add_reaction")]
        assert reactions(stage, message) == set()

    async def test_none_are_made_where_they_are_off(self, database: Database) -> None:
        settings = some_settings(reactions=ReactionSettings(enabled=False))
        async with on_stage(database, settings) as stage:
            message = stage.say("hi")
            await stage.settled(message)
            await stage.quiet()
        assert not stage.channel.calls_of("add_reaction")

    async def test_a_wish_of_the_presentation_is_for_a_running_turn(
        self, database: Database
    ) -> None:
        async with on_stage(database) as stage:
            message = stage.say("[[hang]]")
            await stage.signals.wait("agent_prompted")
            turn = await stage.turn_of(message)
            assert turn is not None
            stage.dispatcher.wish_reaction(turn.id, "🔥")
            await stage.channel.until(lambda _: reactions(stage, message) == {"🔥"})
            await stage.press(message.message_id)
            await stage.settled(message)
            stage.dispatcher.wish_reaction(turn.id, "🤔")
            await stage.quiet()
        assert reactions(stage, message) == {"🛑"}


class TestAnOldPlaceholder:
    async def test_is_replaced_before_its_edits_are_limited(self, database: Database) -> None:
        async with on_stage(database, FRESH) as stage:
            message = stage.say("[[hang]]")
            stage.agents.may_end.clear()
            await stage.let_it_be_seen()
            (feed,) = stage.feeds.opened
            turn = await stage.turn_of(message)
            assert turn is not None
            stage.clock.extra = 3301.0
            stage.dispatcher.wake(turn.conversation)

            async def is_replaced() -> bool:
                shown = [one.message_id for one in stage.channel.posted(message.message_id)]
                return len(feed.placeholders) == 2 and shown == feed.placeholders[1:]

            await stage.until(is_replaced)
            await stage.press(message.message_id)
            await stage.settled(message)
            await stage.quiet()
        (text,) = stage.channel.shown(message.message_id)
        assert "Cancelled" in text

    async def test_both_go_when_the_turn_ends_in_between(self, database: Database) -> None:
        async with on_stage(database, FRESH) as stage:
            message = stage.say("[[hang]]")
            await stage.let_it_be_seen()
            turn = await stage.turn_of(message)
            assert turn is not None
            stage.channel.hang("create_message", commits=True)
            stage.clock.extra = 3301.0
            stage.dispatcher.wake(turn.conversation)
            await stage.signals.wait("placeholder_renewed")
            await stage.press(message.message_id)
            ended = await stage.settled(message)
            await stage.quiet()
        assert ended.state is TurnState.CANCELLED
        (text,) = stage.channel.shown(message.message_id)
        assert "Cancelled" in text


class TestPermissions:
    async def asked(self, stage: Stage) -> tuple[InboundMessage, TurnId]:
        message = stage.say(f"[[say=before]] {QUESTION}")
        await stage.channel.until(lambda c: bool(question(c, message)))
        turn = await stage.turn_of(message)
        assert turn is not None
        return message, turn.id

    async def test_are_asked_with_a_button_per_option_and_answered(
        self, database: Database
    ) -> None:
        async with on_stage(database, ASKING) as stage:
            message, turn = await self.asked(stage)
            body = question(stage.channel, message)[0]
            told = await self.press(stage, message, body.buttons[2].custom_id)
            ended = await stage.settled(message)
            late = await self.press(stage, message, body.buttons[0].custom_id, interaction="8")
            await stage.quiet()
            log = await stage.log_of(turn)
        assert [button.label for button in body.buttons] == [
            "allow once", "allow always", "reject once",
        ]  # fmt: skip
        assert all(len(button.custom_id) <= 100 for button in body.buttons)
        assert (body.silent, body.mention) == (True, None)
        assert "<@1>" not in body.content
        assert "rm -rf" in body.content
        assert "Passed on" in told
        assert "not open any more" in late
        assert ended.state is TurnState.DONE
        (text,) = stage.channel.shown(message.message_id)
        assert "permission: id-reject_once" in text
        assert Phase.WAITING_PERMISSION in stage.feeds.opened[0].phases
        assert {"permission_asked", "permission_settled"} <= set(log)

    async def test_are_shown_and_go_at_once_without_a_reaction_to_wake_anybody(
        self, database: Database, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(owner, "_LONGEST_WAIT", 600.0)
        settings = replace(ASKING, reactions=ReactionSettings(enabled=False))
        async with on_stage(database, settings) as stage:
            stage.agents.may_end.clear()
            message, _ = await self.asked(stage)
            body = question(stage.channel, message)[0]
            await self.press(stage, message, body.buttons[2].custom_id)
            await stage.channel.until(lambda c: not question(c, message))
            stage.agents.may_end.set()
            await stage.settled(message)

    async def test_nobody_but_the_requester_and_operators_may_answer(
        self, database: Database
    ) -> None:
        async with on_stage(database, ASKING) as stage:
            message, turn = await self.asked(stage)
            button = question(stage.channel, message)[0].buttons[0].custom_id
            stranger = await self.press(stage, message, button, author="99")
            async with database.read() as tx:
                waiting = await turns.get(tx, turn)
            assert waiting is not None
            assert waiting.state is TurnState.RUNNING
            operator = await self.press(stage, message, button, author="1", interaction="8")
            await stage.settled(message)
        assert "Only Name 31" in stranger
        assert "Passed on" in operator

    async def test_a_cancel_while_one_is_pending_leaves_nothing(self, database: Database) -> None:
        async with on_stage(database, ASKING) as stage:
            message, _ = await self.asked(stage)
            await stage.press(message.message_id)
            turn = await stage.settled(message)
            await stage.quiet()
        assert turn.state is TurnState.CANCELLED
        (text,) = stage.channel.shown(message.message_id)
        assert "before" in text
        assert "Cancelled" in text

    async def test_in_auto_mode_nobody_is_asked(self, database: Database) -> None:
        async with on_stage(database, FRESH) as stage:
            message = stage.say(QUESTION)
            await stage.settled(message)
        bodies = [call.body for call in stage.channel.calls_of("create_message")]
        assert not [body for body in bodies if body and "permission (" in body.content]

    async def test_a_button_that_is_not_ours_does_nothing(self, database: Database) -> None:
        async with on_stage(database, ASKING) as stage:
            message, turn = await self.asked(stage)
            for n, argument in enumerate(
                ("", "x", f"{turn}", f"{turn}:1", f"{turn}:1:9", f"{turn}:0:0", f"{turn}:2:0",
                 f"{turn}:-1:0", f"{turn}:1:²", f"{turn}:1:0:0", "none:1:0", f"{turn}:{'9' * 5000}:0")
            ):  # fmt: skip
                told = await self.press(
                    stage, message, f"openab:permit:{argument}", interaction=str(n)
                )
                assert "not open any more" in told, argument
            await stage.press(message.message_id)
            await stage.settled(message)

    async def press(
        self,
        stage: Stage,
        message: InboundMessage,
        custom_id: str,
        *,
        author: str = "31",
        interaction: str = "7",
    ) -> str:
        return await stage.press(
            message.message_id,
            custom_id.removeprefix("openab:permit:"),
            author=an_author(author),
            kind=CommandKind.PERMIT,
            interaction=interaction,
        )


def question(channel: RecordingChannel, message: InboundMessage) -> list[MessageBody]:
    """The bodies of the open questions that people see."""
    posted = channel.posted(message.message_id)
    return [one.body for one in posted if "asks for permission" in one.body.content]


def reactions(stage: Stage, message: InboundMessage) -> set[str]:
    return stage.channel.message(message.message_id).reactions


class TestTheThread:
    async def test_that_cannot_be_opened_is_told_and_its_turn_fails_once(
        self, database: Database
    ) -> None:
        async with on_stage(database) as stage:
            refusal = ChannelRejected(Refusal.THREAD_LIMIT, "too many threads", 160006)
            stage.channel.fail("open_thread", refusal)
            message = stage.say("build it")
            turn = await stage.settled(message)
            await stage.quiet()
        assert turn.state is TurnState.FAILED
        assert not stage.agents.prompts
        told = [text for text in stage.channel.shown(HOME) if "No thread" in text]
        assert len(told) == 1
        assert reactions(stage, message) == {"😱"}

    async def test_that_must_wait_costs_nothing_meanwhile(self, database: Database) -> None:
        async with on_stage(database) as stage:
            stage.channel.fail("open_thread", ChannelBusy("429", 250.0))
            message = stage.say("build it")
            await stage.channel.until(
                lambda c: any("asks us to wait" in text for text in c.shown(HOME))
            )
            await stage.quiet()
            turn = await stage.turn_of(message)
            assert turn is not None
            async with database.read() as tx:
                before = (await conversations.get(tx, turn.conversation)).epoch
            # Polled many times, and never claimed.
            for n in range(3):
                await stage.press(message.message_id, "nothing", interaction=str(n))
            async with database.read() as tx:
                after = (await conversations.get(tx, turn.conversation)).epoch
        assert (turn.state, after) == (TurnState.QUEUED, before)

    async def test_its_two_conversations_settle_a_turn_together(self, database: Database) -> None:
        """A turn whose rows stand in two conversations is settled by whoever is last."""
        async with on_stage(database) as stage:
            for n in range(6):
                stage.channel.fail("open_thread", ChannelRejected(Refusal.FORBIDDEN, "no", 50013))
                message = stage.say(f"build {n}")
                turn = await stage.settled(message)
                assert turn.state is TurnState.FAILED
