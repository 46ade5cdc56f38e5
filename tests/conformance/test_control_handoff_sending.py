"""What an agent hands over goes out once or is told: whatever dies, is refused, or is away meanwhile."""

import asyncio
import json
from dataclasses import replace
from functools import partial

import pytest

from openab.control import owner, persist
from openab.control.handoff_owing import owe_intent
from openab.control.settings import Settings
from openab.control.writer import ConversationWriter
from openab.domain.agent_events import TextDelta
from openab.domain.delivery import DeliveryState, Purpose
from openab.domain.gates import GatePolicy
from openab.domain.handoff import Direction, HandoffState, NotSent, sent_in, written
from openab.domain.ids import PlatformId, TurnId
from openab.domain.message import CommandKind
from openab.domain.turn import Claimed, Ended, Outcome, TurnState
from openab.domain.window import Window
from openab.ports.agent import Prompt
from openab.ports.channel import (
    ChannelBusy,
    ChannelRejected,
    ChannelUnreachable,
    DeliveryUnknown,
    Refusal,
)
from openab.ports.feed import Phase
from openab.storage import deliveries, handoffs, turns
from openab.storage.deliveries import Delivery
from openab.storage.engine import Database
from openab.storage.handoffs import Handoff
from openab.text.output import Intent
from tests.builders import ACCOUNT, a_delivery, a_turn, some_settings
from tests.conformance.control_stage import Stage, StageAgents, on_stage
from tests.conformance.lives import ContinuingAgents, lives, recovering
from tests.conformance.test_control_deliveries import Box
from tests.conformance.test_control_takeovers import Breaker, breaks, broken_or_over
from tests.fakes.channel import Call, Posted, RecordingChannel

LUNA = "901"
TRUSTING = GatePolicy(ACCOUNT, trusted_bots=frozenset({LUNA}))
CREATE = "create_message"


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(persist, "RETRY_SECONDS", 0.01)
    monkeypatch.setattr(owner, "RETRY_SECONDS", 0.01)


def trusting(**changes: object) -> Settings:
    return some_settings(policy=lambda: TRUSTING, **changes)


def saying(*texts: str) -> str:
    """A request whose agent says exactly these pieces."""
    return f"[[script={json.dumps([['say', text] for text in texts])}]]"


def is_envelope(call: Call) -> bool:
    return call.body is not None and sent_in(call.body.content) is not None


def envelopes(channel: RecordingChannel, thread: str) -> list[Posted]:
    ours = (one for one in channel.posted(thread) if one.author_id == channel.account)
    return [one for one in ours if sent_in(one.body.content)]


def words(channel: RecordingChannel, thread: str) -> str:
    return "\n".join(channel.shown(thread))


async def sent_ones(database: Database) -> list[Handoff]:
    async with database.read() as tx:
        return [one for one in await handoffs.listed(tx) if one.direction is Direction.OUT]


class Shortening(StageAgents):
    """Agents that answer the one question for less with this."""

    def __init__(self, shorter: str = "Less.") -> None:
        super().__init__()
        self.shorter = shorter

    def script(self, prompt: Prompt) -> str:
        return saying(self.shorter) if prompt.step == 2 else super().script(prompt)


class Hesitating(ContinuingAgents):
    """Agents that never answer the question for less."""

    def script(self, prompt: Prompt) -> str:
        return "[[hang]]" if prompt.step == 2 else super().script(prompt)


class TestAHandoff:
    async def test_goes_out_behind_the_answer_and_is_shown_as_what_it_is(
        self, database: Database
    ) -> None:
        async with on_stage(database, trusting()) as stage:
            stage.channel.names[LUNA] = "Luna"
            message = stage.say(saying("[[hand", f"off:{LUNA}]]\nRun <@77>", " the tests.\u200b"))
            turn = await stage.settled(message)
            await stage.until(lambda: told(stage, message.message_id, "🤝"))
            (handoff,) = await sent_ones(database)
        thread = message.message_id
        (posted,) = envelopes(stage.channel, thread)
        envelope = sent_in(posted.body.content)
        assert envelope
        assert envelope.text == handoff.payload == "Run <@77> the tests.\u200b"
        assert (envelope.target, envelope.origin_thread) == (LUNA, thread)
        assert envelope.origin_message == thread
        assert (posted.body.mention, posted.body.silent, posted.body.is_bare) == (LUNA, False, True)
        assert stage.channel.members == {thread: {LUNA}}
        assert (turn.state, handoff.state) == (TurnState.DONE, HandoffState.SENT)
        assert handoff.message_id == posted.message_id
        first, second, third = stage.channel.shown(thread)
        assert "handoff" not in first
        assert "tests." in first
        assert second == posted.body.content
        assert "Luna (901)" in third
        assert third.startswith("-# ")

    async def test_is_told_to_no_feed_as_a_head(self, database: Database) -> None:
        async with on_stage(database, trusting()) as stage:
            message = stage.say(saying("[[reply_to:1]]\nHere."))
            await stage.settled(message)
        assert "reply_to" not in words(stage.channel, message.message_id)

    @pytest.mark.parametrize(
        ("output", "reason", "numbers"),
        [
            (f"[[handoff:{ACCOUNT}]]\nDo it.", "own_account", ""),
            ("[[handoff:77]]\nDo it.", "target_not_trusted", ""),
            (f"[[handoff:{LUNA}]]\n \n", "no_text", ""),
            (f"[[handoff:{LUNA}]]\nDo \ud83d it.", "lone_surrogate", ""),
            (f"[[handoff:{LUNA}]]\n{'long ' * 900}", "too_large", "4,500"),
        ],
    )
    async def test_that_can_never_be_sent_is_told_beside_the_answer(
        self, database: Database, output: str, reason: str, numbers: str
    ) -> None:
        agents = Shortening("long " * 900)
        async with on_stage(database, trusting(), agents=agents) as stage:
            message = stage.say(saying(output))
            turn = await stage.settled(message)
            await stage.until(lambda: told(stage, message.message_id, f"`{reason}`"))
            (handoff,) = await sent_ones(database)
        shown = words(stage.channel, message.message_id)
        assert numbers in shown
        assert not envelopes(stage.channel, message.message_id)
        assert handoff.state is HandoffState.NOT_SENT
        assert handoff.reason == NotSent(reason)
        # A row that is owed is dead.
        assert (turn.outcome, turn.state) == (Outcome.COMPLETED, TurnState.FAILED)

    async def test_with_a_value_that_is_no_id_is_told_and_nothing_else(
        self, database: Database
    ) -> None:
        async with on_stage(database, trusting()) as stage:
            message = stage.say(saying("[[handoff:luna]]\nDo it."))
            turn = await stage.settled(message)
            await stage.until(lambda: told(stage, message.message_id, "`[[handoff:luna]]`"))
            assert await sent_ones(database) == []
        assert turn.state is TurnState.DONE
        assert "`wrong_target`" in words(stage.channel, message.message_id)

    @pytest.mark.parametrize("ends", ["[[fail=-32000:broken]]", "[[exit=3]]", "[[hang]]"])
    async def test_is_only_asked_for_by_an_output_that_was_completed(
        self, database: Database, ends: str
    ) -> None:
        async with on_stage(database, trusting()) as stage:
            name, _, value = ends[2:-2].partition("=")
            steps = [["say", f"[[handoff:{LUNA}]]\nDo it."], [name, value]]
            message = stage.say(f"[[script={json.dumps(steps)}]]")
            await stage.signals.wait("agent_prompted")
            if name == "hang":
                await stage.press(message.message_id)
            turn = await stage.settled(message)
            assert await sent_ones(database) == []
        assert turn.outcome in {Outcome.FAILED, Outcome.CANCELLED}
        shown = words(stage.channel, message.message_id)
        assert "[[handoff" not in shown


async def told(stage: Stage, thread: str, word: str) -> bool:
    return word in words(stage.channel, thread)


class TestAnAgentThatWroteTooMuch:
    async def test_is_asked_once_and_people_keep_its_first_answer(self, database: Database) -> None:
        agents = Shortening("[[handoff:77]]\nLess.")
        async with on_stage(database, trusting(), agents=agents) as stage:
            message = stage.say(saying(f"[[handoff:{LUNA}]]\n{'long ' * 500}"))
            turn = await stage.settled(message)
            (handoff,) = await sent_ones(database)
        request, question = agents.prompts
        assert (request.attempt, request.step) == (1, 1)
        assert (question.attempt, question.step) == (1, 2)
        assert "there is room for 1," in question.content[0].text
        (posted,) = envelopes(stage.channel, message.message_id)
        envelope = sent_in(posted.body.content)
        assert envelope
        assert (envelope.text, handoff.payload, envelope.target) == ("Less.", "Less.", LUNA)
        shown = words(stage.channel, message.message_id)
        assert "long long" in shown
        assert turn.state is TurnState.DONE
        assert turn.raw
        assert "Less." not in turn.raw
        (feed,) = stage.feeds.opened
        assert Phase.SHORTENING in feed.phases
        assert not any(isinstance(one, TextDelta) and "Less" in one.text for one in feed.events)

    async def test_and_is_cancelled_meanwhile_hands_over_nothing(self, database: Database) -> None:
        agents = Hesitating("life-1")
        async with on_stage(database, trusting(), agents=agents) as stage:
            message = stage.say(saying(f"[[handoff:{LUNA}]]\n{'long ' * 500}"))
            await stage.signals.wait("shortening_begun")
            await stage.press(message.message_id)
            turn = await stage.settled(message)
            assert await sent_ones(database) == []
        assert turn.state is TurnState.CANCELLED
        assert "long long" in words(stage.channel, message.message_id)

    async def test_and_is_killed_meanwhile_has_answered(self, migrated_address: str) -> None:
        settings = replace(recovering("resume"), policy=lambda: TRUSTING)
        agents = Hesitating("life-1")
        async with lives(migrated_address, settings) as all_lives:
            await all_lives.kill()
            stage = await all_lives.begin(agents=agents)
            message = stage.say(saying(f"[[handoff:{LUNA}]]\n{'long ' * 500}"))
            await stage.signals.wait("agent_prompted", times=2)
            stage = await all_lives.again()
            turn = await stage.settled(message)
            await stage.until(lambda: told(stage, message.message_id, "`too_large`"))
            (handoff,) = await sent_ones(stage.database)
        assert turn.outcome is Outcome.COMPLETED
        assert handoff.reason is NotSent.TOO_LARGE
        assert not stage.agents.prompts, "the request was answered: nobody is asked again"
        shown = words(stage.channel, message.message_id)
        assert "long long" in shown
        assert "[[handoff" not in shown


class TestAnotherReference:
    async def test_is_what_the_answer_replies_to_and_pings_nobody_there(
        self, database: Database
    ) -> None:
        async with on_stage(database, trusting()) as stage:
            message = stage.say(saying("[[reply_to:1234]]\nHere."))
            await stage.settled(message)
        (first,) = (
            one for one in stage.channel.posted(message.message_id) if "Here." in one.body.content
        )
        assert first.body.reply_to == "1234"
        assert not first.body.pings_author

    async def test_that_is_refused_falls_back_to_none(self, database: Database) -> None:
        async with on_stage(database, trusting()) as stage:
            stage.channel.fail(
                CREATE,
                ChannelRejected(Refusal.REFERENCE_INVALID, "no such message"),
                when=lambda call: bool(call.body and call.body.reply_to == "1234"),
            )
            message = stage.say(saying("[[reply_to:1234]]\nHere."))
            turn = await stage.settled(message)
        assert turn.state is TurnState.DONE
        assert "Here." in words(stage.channel, message.message_id)


class TestAnnouncement:
    async def test_tells_an_agent_once_in_its_session(self, database: Database) -> None:
        async with on_stage(database, trusting()) as stage:
            stage.channel.names[LUNA] = "Luna"
            message = stage.say("[[say=one]]")
            await stage.settled(message)
            await stage.settled(stage.say("[[say=two]]", thread=message.message_id))
            await stage.press(message.message_id, kind=CommandKind.RESET)
            await stage.settled(stage.say("[[say=three]]", thread=message.message_id))
            first, second, third = stage.agents.prompts
        assert "[[handoff:BOT_ID]]" in first.content[0].text
        assert "- 901: Luna" in first.content[0].text
        assert "room for 1," in first.content[0].text
        assert not any("BOT_ID" in block.text for block in second.content)
        assert "BOT_ID" in third.content[0].text, "after a reset it knows nothing"

    @pytest.mark.parametrize(
        "settings",
        [some_settings(), trusting(announces_handoffs=False)],
        ids=["nobody is trusted", "switched off"],
    )
    async def test_says_nothing(self, database: Database, settings: Settings) -> None:
        async with on_stage(database, settings) as stage:
            await stage.settled(stage.say("[[say=one]]"))
        assert not any("BOT_ID" in block.text for block in stage.agents.prompts[0].content)


class Sender(Box):
    """The outbox of a thread from which work is handed over, driven step by step."""

    async def take(self) -> None:
        self.settings = trusting()
        await super().take()
        self.count = 0
        writer = ConversationWriter(self.channel, 0.2, lambda: 0.0, window=Window(10_000))
        self.outbox._writer = writer

    async def hand(self, payload: str = "Do it.", *, final: str = "") -> TurnId:
        """A completed turn that owes a hand-off, behind an answer if there is one."""
        self.count += 1
        async with self.database.transaction() as tx:
            turn = await a_turn(tx, self.where, str(1000 + self.count))
            known = await turns.get(tx, turn)
            assert known
            await turns.record(tx, known, Claimed())
            known = await turns.get(tx, turn)
            assert known
            if final:
                key, purpose = f"turn:{turn}:final:1:v1", Purpose.FINAL
                await a_delivery(tx, self.where, key, final, turn=turn, part=1, purpose=purpose)
            await owe_intent(
                tx, self.settings, self.where, known, Intent(PlatformId(LUNA), payload)
            )
            outcome = Outcome.COMPLETED
            await turns.record(tx, known, Ended(outcome), outcome=outcome.value)
        return turn

    def lose_answer(self, *, commits: bool = False) -> None:
        """Nobody learns what became of the envelope, and then nothing gets through, however slow we are."""
        self.channel.fail(CREATE, DeliveryUnknown("502"), commits=commits, when=is_envelope)
        self.channel.fail(CREATE, ChannelUnreachable("away"), times=1000, when=is_envelope)

    async def handoff(self) -> Handoff:
        (found,) = await sent_ones(self.database)
        return found

    async def carrier(self, version: int = 1) -> Delivery:
        handoff = await self.handoff()
        return await self.row(f"turn:{handoff.turn}:handoff:v{version}")

    @property
    def posted(self) -> list[Posted]:
        return envelopes(self.channel, self.where.ref.conversation_id)

    @property
    def told(self) -> str:
        return words(self.channel, self.where.ref.conversation_id)


@pytest.fixture
async def sender(database: Database) -> Sender:
    made = Sender(database)
    await made.take()
    return made


class TestOnItsWay:
    async def test_a_refused_membership_sends_nothing(self, sender: Sender) -> None:
        sender.channel.fail(
            "add_thread_member", ChannelRejected(Refusal.FORBIDDEN, "Missing Access", 50001)
        )
        turn = await sender.hand()
        await sender.run()
        assert (await sender.handoff()).reason is NotSent.TARGET_ABSENT
        assert "`target_absent`" in sender.told
        assert "Missing Access" in sender.told
        assert not sender.posted
        assert await sender.turn_state(turn) is TurnState.FAILED

    async def test_an_archived_thread_is_opened_for_its_target(self, sender: Sender) -> None:
        sender.channel.archive(sender.where.ref.conversation_id)
        await sender.hand()
        await sender.run()
        assert len(sender.posted) == 1

    @pytest.mark.parametrize("error", [ChannelBusy("429", 3.0), DeliveryUnknown("502")])
    async def test_a_membership_in_doubt_is_asked_for_again(
        self, sender: Sender, error: Exception
    ) -> None:
        sender.channel.fail("add_thread_member", error)  # type: ignore[arg-type]
        turn = await sender.hand()
        await sender.run()
        assert not sender.posted
        await sender.run_later(6)
        assert len(sender.posted) == 1
        assert await sender.turn_state(turn) is TurnState.DONE

    @pytest.mark.parametrize(
        ("refusal", "reason"),
        [
            (Refusal.BLOCKED, "refused"),
            (Refusal.FORBIDDEN, "refused"),
            (Refusal.CONVERSATION_GONE, "conversation_gone"),
        ],
    )
    async def test_a_refusal_is_told_where_it_can_be_read(
        self, sender: Sender, refusal: Refusal, reason: str
    ) -> None:
        sender.channel.fail(CREATE, ChannelRejected(refusal, "no"), when=is_envelope)
        turn = await sender.hand()
        await sender.run()
        assert (await sender.handoff()).reason == reason
        told = sender.told + "".join(await sender.told_in_parent())
        assert told.count(f"`{reason}`") == 1
        assert await sender.turn_state(turn) is TurnState.FAILED

    async def test_it_waits_for_the_answer_but_not_for_ever(self, sender: Sender) -> None:
        sender.channel.fail(
            CREATE,
            ChannelBusy("429", 20.0),
            times=4,
            when=lambda call: bool(call.body and call.body.content == "the answer"),
        )
        await sender.hand(final="the answer")
        await sender.run()
        assert not sender.posted
        await sender.run_later(25)
        assert not sender.posted
        await sender.run_later(6)
        assert len(sender.posted) == 1
        assert "the answer" not in sender.shown()
        await sender.run_later(60)
        await sender.run_later(60)
        await sender.run_later(60)
        assert sender.shown().count("the answer") == 1

    async def test_the_tenth_in_a_minute_waits_and_holds_nothing_up(self, sender: Sender) -> None:
        for _ in range(10):
            await sender.hand()
        await sender.run(60)
        assert len(sender.posted) == 9
        await sender.owe("later:v1", "something else")
        await sender.run()
        assert "something else" in sender.shown()
        await sender.run_later(50)
        assert len(sender.posted) == 9
        await sender.run_later(11)
        assert len(sender.posted) == 10
        assert len({one.body.content for one in sender.posted}) == 10

    async def test_a_network_that_is_away_for_six_minutes_gets_a_new_expiry(
        self, sender: Sender
    ) -> None:
        away = ChannelUnreachable("away")
        sender.channel.fail(CREATE, away, times=1000)
        turn = await sender.hand()
        first = sent_in((await sender.carrier()).body.content)
        for _ in range(12):
            await sender.run_later(30)
        sender.channel.end_faults()
        await sender.run_later(31)
        (posted,) = sender.posted
        again = sent_in(posted.body.content)
        assert first
        assert again
        assert (again.event_id, again.text) == (first.event_id, first.text)
        assert again.expires_at > first.expires_at
        assert (await sender.handoff()).state is HandoffState.SENT
        assert await sender.turn_state(turn) is TurnState.DONE
        assert sender.told.count("🤝") == 1

    async def test_a_sender_that_is_away_for_an_hour_hands_nothing_over(
        self, sender: Sender
    ) -> None:
        turn = await sender.hand()
        await sender.run_later(3600)
        assert not sender.posted
        assert (await sender.handoff()).reason is NotSent.EXPIRED
        assert "`expired`" in sender.told
        assert "60 min" in sender.told
        assert await sender.turn_state(turn) is TurnState.FAILED

    @pytest.mark.parametrize("commits", [True, False])
    async def test_what_may_have_been_seen_is_never_written_anew(
        self, sender: Sender, *, commits: bool
    ) -> None:
        """A lost answer, and then nothing for six minutes: history tells, by the event's id."""
        sender.lose_answer(commits=commits)
        await sender.hand()
        await sender.run()
        assert (await sender.carrier()).state is DeliveryState.UNKNOWN
        await sender.run_later(360)
        await sender.run_later(61)
        handoff = await sender.handoff()
        assert len(sender.posted) == commits
        assert (await sender.carrier()).version == 1
        if commits:
            assert handoff.state is HandoffState.SENT
            assert "🤝" in sender.told
        else:
            assert handoff.reason is NotSent.EXPIRED
            assert "`expired`" in sender.told

    async def test_any_version_of_it_in_history_is_it(self, sender: Sender) -> None:
        sender.lose_answer()
        await sender.hand()
        await sender.run()
        envelope = sent_in((await sender.carrier()).body.content)
        assert envelope
        other = written(replace(envelope, expires_at=envelope.expires_at + 1))
        sender.channel.say(sender.where.ref.conversation_id, other, ACCOUNT)
        sender.channel.end_faults()
        await sender.run_later(360)
        assert (await sender.handoff()).state is HandoffState.SENT
        assert len(sender.posted) == 1

    async def test_our_own_echo_settles_it_whoever_may_be_added_now(self, sender: Sender) -> None:
        sender.lose_answer(commits=True)
        await sender.hand()
        await sender.run()
        carrier = await sender.carrier()
        (posted,) = sender.posted
        async with sender.database.transaction() as tx:
            await deliveries.note_platform_id(tx, carrier.id, posted.message_id)
        # Another owner knows of no member.
        sender.outbox._handoffs._members.clear()
        refusal = ChannelRejected(Refusal.FORBIDDEN, "Missing Access")
        sender.channel.end_faults()
        sender.channel.fail("add_thread_member", refusal, times=100)
        await sender.run_later(3600)
        assert (await sender.handoff()).state is HandoffState.SENT
        assert len(sender.posted) == 1

    async def test_an_expired_one_in_doubt_that_history_cannot_tell_of_is_unclear(
        self, sender: Sender
    ) -> None:
        sender.lose_answer()
        await sender.hand()
        await sender.run()
        sender.channel.end_faults()
        sender.channel.fail(
            "fetch_message", ChannelRejected(Refusal.FORBIDDEN, "no history"), times=1000
        )
        await sender.run_later(400)
        assert (await sender.handoff()).reason is NotSent.UNCLEAR
        assert "`unclear`" in sender.told
        assert not sender.posted

    async def test_a_repetition_within_the_nonces_window_is_the_same_message(
        self, sender: Sender
    ) -> None:
        sender.channel.fail(CREATE, DeliveryUnknown("502"), commits=True, when=is_envelope)
        await sender.hand()
        await sender.run()
        await sender.run_later(5)
        assert len(sender.posted) == 1
        assert (await sender.handoff()).state is HandoffState.SENT

    async def test_an_owner_that_died_in_the_call_leaves_it_in_doubt(self, sender: Sender) -> None:
        await sender.hand()
        began = asyncio.Event()

        async def dying(*_args: object) -> None:
            began.set()
            raise RuntimeError("killed")

        original = sender.outbox._attempts.make
        sender.outbox._attempts.make = dying  # type: ignore[method-assign,assignment]
        with pytest.raises(RuntimeError, match="killed"):
            await sender.run()
        assert began.is_set()
        sender.outbox._attempts.make = original  # type: ignore[method-assign]
        await sender.outbox.recover()
        carrier = await sender.carrier()
        assert (carrier.state, carrier.had_doubt) == (DeliveryState.UNKNOWN, True)
        await sender.run_later(3600)
        await sender.run_later(61)
        assert (await sender.handoff()).reason is NotSent.EXPIRED
        assert not sender.posted


class Repeating(ContinuingAgents):
    """Agents that hand the same work over once more when they are told to go on."""

    def script(self, prompt: Prompt) -> str:
        return super().script(replace(prompt, attempt=1))


class TestADeath:
    async def test_between_any_two_commits_from_the_last_word_to_the_message_doubles_nothing(
        self, migrated_address: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """One envelope in all lives together, or a line that says why there is none."""
        breaker, channel = Breaker(monkeypatch), RecordingChannel(account=ACCOUNT)
        settings = replace(recovering("resume", 9), policy=lambda: TRUSTING)
        for nth, is_done in breaks(migrated_address, 8):
            async with lives(migrated_address, settings, channel) as all_lives:
                stage = all_lives.now
                stage.agents.may_end.clear()
                message = stage.say(saying(f"[[handoff:{LUNA}]]\nDo it, {nth}."))
                await stage.let_it_be_seen()
                breaker.arm(nth - 1, is_done=is_done, dies=stage)
                stage.agents.may_end.set()
                await stage.until(partial(broken_or_over, breaker, stage, message))
                breaker.arm(-1, is_done=False)
                await all_lives.kill()
                again = Repeating("life-2", memory=all_lives.memory)
                stage = await all_lives.begin(agents=again)
                turn = await stage.settled(message)
                await stage.quiet()
                ours = [one for one in await sent_ones(stage.database) if one.turn == turn.id]
            posted = envelopes(channel, message.message_id)
            assert len(ours) == 1, nth
            assert len(posted) == 1, nth
            assert ours[0].state is HandoffState.SENT, nth
            assert words(channel, message.message_id).count("🤝") == 1, nth
            assert turn.state is TurnState.DONE, nth

    async def test_of_a_turn_that_had_said_its_head_keeps_it_from_people(
        self, migrated_address: str
    ) -> None:
        settings = replace(recovering("resume"), policy=lambda: TRUSTING)
        async with lives(migrated_address, settings) as all_lives:
            said = json.dumps([["say", f"[[handoff:{LUNA}]]\nhalf"], ["hang", ""]])
            message = all_lives.now.say(f"[[script={said}]]")
            await all_lives.is_stored("half")
            await all_lives.now.let_it_be_seen()
            stage = await all_lives.again(further="[[say=the rest]]")
            await stage.settled(message)
            await stage.quiet()
            (handoff,) = await sent_ones(stage.database)
        shown = words(stage.channel, message.message_id)
        assert "[[handoff" not in shown
        assert "half" in shown
        assert handoff.payload == "half\n\nthe rest"
        assert handoff.state is HandoffState.SENT
