"""A sub-agent's task: one thread, one run, one answer in it and nowhere else, and its parent is told once."""

import asyncio
import json
from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from openab.channels.discord.bindings import DiscordBindings
from openab.control import owner
from openab.control.binding_sweep import BindingSweep
from openab.control.settings import BindingSettings, Settings
from openab.control.spawning import Asked
from openab.control.spawning import spawn as give
from openab.domain.binding import (
    BindingStatus,
    EndReason,
    Limits,
    SessionBinding,
    TargetKind,
)
from openab.domain.ids import ConversationId, SessionKey
from openab.domain.message import CommandKind, InboundMessage, Place
from openab.domain.spawn import SpawnLimits, SpawnRefusal, SpawnState
from openab.domain.turn import TurnSource, TurnState
from openab.ports.agent import Prompt
from openab.ports.channel import ChannelRejected, DeliveryUnknown, Refusal
from openab.routing.bindings import Bindings
from openab.storage import bindings, conversations, sessions, spawns, turns
from openab.storage.engine import Database, Transaction
from openab.storage.schema import spawns as spawn_table
from openab.storage.spawns import Spawn
from openab.storage.turns import Turn
from tests.builders import (
    ACCOUNT,
    ASKER,
    CHANNEL,
    HOME,
    Offset,
    a_conversation,
    a_ref,
    a_session,
    a_spec,
    some_settings,
)
from tests.conformance.control_stage import Stage, StageAgents, on_stage
from tests.fakes.channel import RecordingChannel

HELPER = "helper"


def spawning(limits: SpawnLimits | None = None, **changes: object) -> Settings:
    """Settings with sub-agents switched on."""
    return some_settings(
        named_agents=lambda: {HELPER: replace(a_spec(), name=HELPER)},
        binding=BindingSettings(enabled=True, spawns=limits or SpawnLimits(is_on=True)),
        bindings=Bindings({CHANNEL: DiscordBindings()}),
        **changes,
    )


def saying(*texts: str) -> str:
    """A request whose agent says exactly these pieces."""
    return f"[[script={json.dumps([['say', text] for text in texts])}]]"


def giving(task: str, agent: str = HELPER) -> str:
    """A request whose agent gives this task to a sub-agent."""
    return saying(f"[[spawn:{agent}]]\n{task}")


class Family(StageAgents):
    """Agents whose answer to a completion is fixed: the completion quotes what would else be a script."""

    #: The run of a request that ends so is held back.
    held = ""

    def script(self, prompt: Prompt) -> str:
        text = prompt.content[-1].text
        if self.held and text == self.held:
            self.may_end.clear()
        return saying("Good to know.") if text.startswith("[openab:") else super().script(prompt)


def ours(stage: Stage, place: str) -> list[str]:
    """What we have said there, under whatever name."""
    people = {"31"}
    return [one.body.content for one in stage.channel.posted(place) if one.author_id not in people]


class Endless(StageAgents):
    """Agents that give the same task again whenever it is done."""

    def script(self, prompt: Prompt) -> str:
        text = prompt.content[-1].text
        return (
            giving(saying("Once more.")) if text.startswith("[openab:") else super().script(prompt)
        )


async def spawned(database: Database) -> list[Spawn]:
    async with database.read() as tx:
        ids = [row.id for row in await tx.execute(spawn_table.select())]
        found = [await spawns.get(tx, one) for one in ids]
    return sorted((one for one in found if one), key=lambda one: one.created_at)


async def all_turns(database: Database) -> list[Turn]:
    async with database.read() as tx:
        listed = [await turns.get(tx, row["id"]) for row in await turns.listed(tx)]
    return [turn for turn in listed if turn]


async def over(stage: Stage, count: int) -> list[Turn]:
    """Wait until so many turns have their last state, and nothing is owed for any."""

    async def are_over() -> bool:
        found = await all_turns(stage.database)
        done = [turn for turn in found if turn.state in _LAST and not await stage.owed(turn.id)]
        return len(done) == len(found) == count

    await stage.until(are_over)
    return sorted(await all_turns(stage.database), key=lambda turn: turn.created_at)


_LAST = {TurnState.DONE, TurnState.FAILED, TurnState.CANCELLED, TurnState.INTERRUPTED}


class TestASubAgent:
    async def test_works_in_a_thread_of_its_own_and_its_parent_is_told_once(
        self, database: Database
    ) -> None:
        async with on_stage(database, spawning(), agents=Family()) as stage:
            message = stage.say(giving(saying("The tests pass.")))
            asked, task, told = await over(stage, 3)
            await stage.quiet()
            (spawn,) = await spawned(database)
            async with database.read() as tx:
                child = await conversations.get(tx, task.conversation)
                (bound,) = await bindings.of_session(tx, task.session_key)
        thread = child.ref.conversation_id
        assert child.ref.parent_conversation_id == HOME
        assert (spawn.state, spawn.turn, spawn.session) == (
            SpawnState.FINISHED,
            task.id,
            task.session_key,
        )
        assert task.session_key == SessionKey(f"{child.ref.session_key()}:{HELPER}")
        assert (task.source, told.source) == (TurnSource.SPAWN, TurnSource.COMPLETION)
        assert told.idempotency_key == f"completion:{task.id}"
        assert (told.session_key, told.conversation) == (asked.session_key, asked.conversation)
        assert "The tests pass." in told.batch[0].text
        # The echoed task says it, too.
        assert len([line for line in ours(stage, thread) if "The tests pass." in line]) == 2
        (starter,) = ours(stage, HOME)
        assert starter.startswith("-# 🧵")
        # Where it was asked for people read where it went.
        assert [line for line in ours(stage, message.message_id) if f"<#{thread}>" in line]
        assert any("Good to know." in line for line in stage.channel.shown(message.message_id))
        assert bound.binding.status is BindingStatus.ACTIVE
        assert bound.binding.bound_by == asked.requester_id

    async def test_is_refused_with_a_notice_where_the_switch_is_off(
        self, database: Database
    ) -> None:
        async with on_stage(database, some_settings()) as stage:
            message = stage.say(giving("Do it."))
            (turn,) = await over(stage, 1)
            await stage.quiet()
        assert not await spawned(database)
        told = "\n".join(stage.channel.shown(message.message_id))
        assert SpawnRefusal.SWITCHED_OFF.value in told
        assert not ours(stage, HOME)
        assert turn.state is TurnState.DONE

    async def test_each_refusal_names_its_reason(self, database: Database) -> None:
        async with on_stage(database, spawning(SpawnLimits(is_on=True, at_once=0))) as stage:
            first = stage.say(giving("Do it."))
            await stage.settled(first)
            second = stage.say(giving("Do it.", "stranger"))
            await stage.settled(second)
            await stage.quiet()
        assert SpawnRefusal.TOO_MANY.value in "\n".join(stage.channel.shown(first.message_id))
        assert SpawnRefusal.UNKNOWN_AGENT.value in "\n".join(stage.channel.shown(second.message_id))

    async def test_that_is_not_configured_any_more_is_told_with_both_ways_out(
        self, database: Database
    ) -> None:
        known = {HELPER: replace(a_spec(), name=HELPER)}
        settings = replace(spawning(), named_agents=lambda: known)
        async with on_stage(database, settings, agents=Family()) as stage:
            stage.say(giving(saying("Done.")))
            task = (await over(stage, 3))[1]
            async with database.read() as tx:
                child = await conversations.get(tx, task.conversation)
            known.clear()
            thread = child.ref.conversation_id
            await stage.settled(stage.say("And now?", thread=thread))
            await stage.quiet()
        told = "\n".join(stage.channel.shown(thread))
        assert f"write [agents.{HELPER}] for it, or `/unfocus`" in told
        assert "[agent] command" not in told

    @pytest.mark.parametrize(
        ("agent", "word"),
        [(HELPER, SpawnRefusal.NO_TASK), ("stranger", SpawnRefusal.UNKNOWN_AGENT)],
    )
    async def test_without_a_task_is_told_by_the_answer_alone(
        self, database: Database, agent: str, word: SpawnRefusal
    ) -> None:
        async with on_stage(database, spawning()) as stage:
            message = stage.say(giving("", agent))
            await over(stage, 1)
            await stage.quiet()
        (told,) = [one for one in stage.channel.shown(message.message_id) if "⚠️" in one]
        assert f"`{word.value}`" in told
        assert "without any text" not in told

    async def test_may_not_go_deeper_than_is_allowed(self, database: Database) -> None:
        async with on_stage(database, spawning(), agents=Family()) as stage:
            stage.say(giving(giving("And you do it.")))
            found = await over(stage, 3)
            await stage.quiet()
            async with database.read() as tx:
                child = await conversations.get(tx, found[1].conversation)
        assert len(await spawned(database)) == 1
        shown = "\n".join(stage.channel.shown(child.ref.conversation_id))
        assert SpawnRefusal.TOO_DEEP.value in shown

    async def test_asked_for_by_people_is_counted_where_they_ask(self, database: Database) -> None:
        settings = spawning(SpawnLimits(is_on=True, at_once=1))

        async def ask(place: str) -> object:
            async with database.transaction() as tx:
                return await give(
                    tx,
                    settings,
                    Asked(
                        HELPER, "Do it.", ASKER, "Ann", False, await a_conversation(tx, place), None
                    ),
                )

        assert await ask(HOME) in {one.id for one in await spawned(database)}
        assert await ask(HOME) is SpawnRefusal.TOO_MANY
        assert isinstance(await ask("78"), str)
        assert len(await spawned(database)) == 2

    async def test_asked_for_from_two_places_of_one_session_at_once_is_counted_once_each(
        self, database: Database
    ) -> None:
        """The places hang in different channels, so that no row of theirs is common to both."""
        settings = spawning(SpawnLimits(is_on=True, at_once=1))
        async with database.transaction() as tx:
            key = await a_session(tx, await a_conversation(tx, "77"))

        async def ask(place: str) -> object:
            async with database.transaction() as tx:
                here = await a_conversation(tx, place)
                return await give(
                    tx, settings, Asked(HELPER, "Do it.", ASKER, "Ann", False, here, key)
                )

        for round_ in range(5):
            told = await asyncio.gather(*(ask(f"{place}{round_}") for place in range(800, 804)))
            assert sum(
                isinstance(one, str) and one is not SpawnRefusal.TOO_MANY for one in told
            ) == (round_ == 0)
        assert len(await spawned(database)) == 1

    async def test_may_not_follow_one_another_for_ever(self, database: Database) -> None:
        limits = SpawnLimits(is_on=True, depth=1, in_a_row=2)
        agents = Endless()
        async with on_stage(database, spawning(limits), agents=agents) as stage:
            message = stage.say(giving(saying("Once more.")))
            await over(stage, 5)
            await stage.quiet()
        assert [one.in_a_row for one in await spawned(database)] == [1, 2]
        told = ours(stage, message.message_id)
        assert [line for line in told if SpawnRefusal.TOO_MANY_IN_A_ROW.value in line]


class TestAnAgent:
    async def test_is_told_once_how_it_can_give_a_task_and_a_sub_agent_is_not(
        self, database: Database
    ) -> None:
        agents = Family()
        async with on_stage(database, spawning(), agents=agents) as stage:
            message = stage.say(giving(saying("Done.")))
            await over(stage, 3)
            again = stage.say("and now?", thread=message.message_id)
            await stage.settled(again)
        told = [
            [block.text for block in prompt.content if "[[spawn:NAME]]" in block.text]
            for prompt in agents.prompts
        ]
        assert [len(texts) for texts in told] == [1, 0, 0, 0]
        assert told[0][0].endswith(f"- {HELPER}")


class TestACompletion:
    async def test_goes_where_it_was_asked_for_once_its_thread_is_given_up(
        self, database: Database, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        agents = Family()
        agents.held = saying("Late news.")
        async with on_stage(database, spawning(), agents=agents) as stage:
            message = stage.say(giving(agents.held))
            await stage.until(lambda: _is_held(agents))
            (spawn,) = await spawned(database)
            assert spawn.session
            async with database.transaction() as tx:
                await stage.settings.bindings.unbind(tx, spawn.session, EndReason.UNFOCUSED)
            # The look that mends lost hints is not needed for anything that follows.
            monkeypatch.setattr(owner, "_LONGEST_WAIT", 600.0)
            agents.may_end.set()
            await over(stage, 3)
            await stage.quiet()
        shown = stage.channel.shown(message.message_id)
        assert [line for line in shown if "Late news." in line and "no thread is bound" in line]

    async def test_stays_in_its_thread_though_that_cannot_be_written(
        self, database: Database
    ) -> None:
        async with on_stage(database, spawning(), agents=Family()) as stage:
            refused = ChannelRejected(Refusal.FORBIDDEN, "Missing Permissions", 50013)
            stage.channel.fail(
                "create_message",
                refused,
                times=99,
                when=lambda call: call.body is not None and call.body.content.endswith("No way."),
            )
            message = stage.say(giving(saying("No way.")))
            await over(stage, 3)
            await stage.quiet()
        here = ours(stage, message.message_id)
        assert any("could not be delivered" in line for line in here), here
        assert not [line for line in here + ours(stage, HOME) if line.endswith("No way.")]


async def _is_held(agents: StageAgents) -> bool:
    return not agents.may_end.is_set()


class TestTheEndOfATask:
    async def test_locks_both_conversations_in_the_order_of_whoever_commits_streams(
        self, database: Database, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        held: dict[Transaction, list[ConversationId]] = {}
        hold = conversations.hold

        async def seen(tx: Transaction, conversation: ConversationId) -> None:
            held.setdefault(tx, []).append(conversation)
            await hold(tx, conversation)

        monkeypatch.setattr(conversations, "hold", seen)
        async with on_stage(database, spawning(), agents=Family()) as stage:
            stage.say(giving("Look."))
            await over(stage, 3)
            (spawn,) = await spawned(database)
            (task,) = [
                turn for turn in await all_turns(database) if turn.source is TurnSource.SPAWN
            ]
        assert sorted({task.conversation, spawn.requester_conversation}) in held.values()


class TestAFailure:
    async def test_is_told_to_the_parent_with_the_reason_that_people_read(
        self, database: Database
    ) -> None:
        async with on_stage(database, spawning(), agents=Family()) as stage:
            stage.say(giving("[[fail=-32603:out of tokens]]"))
            _, task, told = await over(stage, 3)
            await stage.quiet()
        assert task.state is TurnState.FAILED
        assert "has failed" in told.batch[0].text
        assert "out of tokens" in told.batch[0].text


class TestWhatIsHeld:
    async def test_is_shown_once_as_soon_as_it_belongs_to_one_place(
        self, database: Database
    ) -> None:
        """Bound in two other places, and no more in its own: nobody can say which is meant."""
        async with on_stage(database, spawning(), agents=Family()) as stage:
            message, other = await self.held(stage)
            (held,) = await spawned(database)
            (informing,) = [
                turn for turn in await all_turns(database) if turn.source is TurnSource.COMPLETION
            ]
            before = ours(stage, "8001")
            sweep = BindingSweep(stage.services)
            await sweep.sweep()
            async with database.transaction() as tx:
                await stage.settings.bindings.unbind(tx, other.binding_id, EndReason.UNFOCUSED)
            # People need not wait for a sweep: what they do about a binding shows it.
            await stage.press("8001", kind=CommandKind.SESSION)
            (freed,) = await spawned(database)
            assert freed.state is SpawnState.FINISHED
            await sweep.sweep()
            await stage.until(lambda: _shows(stage, "8001", "Which one?"))
            await stage.quiet()
        assert held.state is SpawnState.HELD
        assert not [line for line in before if "Which one?" in line]
        assert len([line for line in ours(stage, "8001") if "Which one?" in line]) == 1
        told = ours(stage, message.message_id)
        assert [line for line in told if "no-requester-match" in line and "several" in line]
        # The parent has the answer, and is not told that people had read it.
        assert "which people have not been shown" in informing.batch[0].text
        assert not [line for line in told + ours(stage, HOME) if line.endswith("Which one?")]

    async def test_and_cannot_be_shown_is_told_where_it_was_asked_for(
        self, database: Database
    ) -> None:
        async with on_stage(database, spawning(), agents=Family()) as stage:
            message, other = await self.held(stage)
            refused = ChannelRejected(Refusal.FORBIDDEN, "Missing Permissions", 50013)
            stage.channel.fail(
                "create_message",
                refused,
                times=9,
                when=lambda call: call.body is not None and call.body.content == "Which one?",
            )
            async with database.transaction() as tx:
                await stage.settings.bindings.unbind(tx, other.binding_id, EndReason.UNFOCUSED)
            await BindingSweep(stage.services).sweep()
            await stage.until(lambda: _shows(stage, message.message_id, "could not be delivered"))
            await stage.quiet()
        assert [line for line in ours(stage, message.message_id) if "<#8001>" in line]

    async def test_for_too_long_is_given_up_and_told(self, database: Database) -> None:
        async with on_stage(database, spawning(), agents=Family()) as stage:
            message, _ = await self.held(stage)
            clock, sweep = Offset(database), BindingSweep(stage.services)
            clock.pass_by(29 * 86400)
            await sweep.sweep()
            (kept,) = await spawned(database)
            clock.pass_by(2 * 86400)
            await sweep.sweep()
            await sweep.sweep()
            await stage.until(lambda: _shows(stage, message.message_id, "kept for 30 days"))
            await stage.quiet()
            (given_up,) = await spawned(database)
        assert (kept.state, given_up.state) == (SpawnState.HELD, SpawnState.FINISHED)
        told = ours(stage, message.message_id)
        assert len([line for line in told if "not shown any more" in line]) == 1

    async def held(self, stage: Stage) -> tuple[InboundMessage, SessionBinding]:
        """A task whose end is held: its session is bound in 8001 and in 8002, which is returned."""
        assert isinstance(stage.agents, Family)
        stage.agents.held = saying("Which one?")
        message = stage.say(giving(stage.agents.held))
        await stage.until(lambda: _is_held(stage.agents))
        (spawn,) = await spawned(stage.database)
        assert spawn.session
        async with stage.database.transaction() as tx:
            await stage.settings.bindings.unbind(tx, spawn.session, EndReason.UNFOCUSED)
        await bound_too(stage, spawn.session, "8001")
        other = await bound_too(stage, spawn.session, "8002")
        stage.agents.may_end.set()
        await over(stage, 3)
        await stage.quiet()
        return message, other

    async def test_is_nothing_of_a_task_whose_session_is_brought_elsewhere_as_well(
        self, database: Database
    ) -> None:
        agents = Family()
        agents.held = saying("Here.")
        async with on_stage(database, spawning(), agents=agents) as stage:
            stage.say(giving(agents.held))
            await stage.until(lambda: _is_held(agents))
            (spawn,) = await spawned(database)
            assert spawn.session
            await bound_too(stage, spawn.session, "8001")
            agents.may_end.set()
            _, task, _ = await over(stage, 3)
            await stage.quiet()
            async with database.read() as tx:
                child = await conversations.get(tx, task.conversation)
            (after,) = await spawned(database)
        assert after.state is SpawnState.FINISHED
        assert [line for line in ours(stage, child.ref.conversation_id) if line.endswith("Here.")]
        assert not [line for line in ours(stage, "8001") if line.endswith("Here.")]


class TestASessionInTwoConversations:
    async def test_works_in_one_of_them_at_a_time(
        self, database: Database, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        # Whoever waits for the session does not depend on the look that mends lost hints.
        monkeypatch.setattr(owner, "_LONGEST_WAIT", 600.0)
        rests, rest = asyncio.Event(), owner.ConversationOwner._wait

        async def seen(self: owner.ConversationOwner, due: datetime | None) -> None:
            if self._turns.waits_for_session:
                rests.set()
            await rest(self, due)

        monkeypatch.setattr(owner.ConversationOwner, "_wait", seen)
        agents = StageAgents()
        agents.may_end.clear()
        async with on_stage(database, spawning(), agents=agents) as stage:
            first = stage.say("begin", thread="8000")
            await stage.until(lambda: _prompts(agents, 1))
            turn = await stage.turn_of(first)
            assert turn
            await bound_too(stage, turn.session_key, "8001")
            second = stage.say("go on", thread="8001")
            await stage.until(lambda: stage.turn_of(second))
            await stage.until(lambda: _is_claimed(stage, "8001"))
            waiting = await stage.turn_of(second)
            assert waiting
            assert (waiting.state, waiting.session_key) == (TurnState.QUEUED, turn.session_key)
            assert len(agents.prompts) == 1
            await rests.wait()
            agents.may_end.set()
            await stage.settled(first)
            done = await stage.settled(second)
        assert done.state is TurnState.DONE
        assert [prompt.turn for prompt in agents.prompts] == [turn.id, done.id]


class TestAStarter:
    async def test_that_is_refused_starts_nothing_and_is_told(self, database: Database) -> None:
        async with on_stage(database, spawning()) as stage:
            refused = ChannelRejected(Refusal.FORBIDDEN, "Missing Permissions", 50013)
            stage.channel.fail(
                "create_message", refused, when=lambda call: call.conversation_id == HOME
            )
            message = stage.say(giving("Do it."))
            await over(stage, 1)
            await stage.until(lambda: _shows(stage, message.message_id, "no_starter"))
            await stage.quiet()
            (spawn,) = await spawned(database)
        assert (spawn.state, spawn.reason) == (SpawnState.REFUSED, SpawnRefusal.NO_STARTER)
        assert not ours(stage, HOME)

    async def test_that_was_owed_before_the_switch_was_off_starts_nothing(
        self, database: Database
    ) -> None:
        async with database.transaction() as tx:
            here = await conversations.ensure(tx, a_ref("8000", HOME), Place.THREAD)
            asked = Asked(HELPER, "Do it.", ASKER, "Ann", requester_is_bot=False, at=here,
                          parent_session=None)  # fmt: skip
            await give(tx, spawning(), asked)
        off = spawning(SpawnLimits(is_on=False))
        async with on_stage(database, off) as stage:
            await stage.until(lambda: _shows(stage, "8000", "switched_off"))
            await stage.quiet()
            (spawn,) = await spawned(database)
        assert (spawn.state, spawn.reason) == (SpawnState.REFUSED, SpawnRefusal.SWITCHED_OFF)
        assert not await all_turns(database)

    async def test_whose_thread_is_refused_ends_the_task_and_its_binding(
        self, database: Database
    ) -> None:
        async with on_stage(database, spawning(), agents=Family()) as stage:
            refused = ChannelRejected(Refusal.THREAD_LIMIT, "Too many threads", 160006)
            message = stage.say(giving("Do it."))
            stage.channel.fail(
                "open_thread", refused, when=lambda call: call.message_id != message.message_id
            )
            asked, task, told = await over(stage, 3)
            await stage.quiet()
            (spawn,) = await spawned(database)
            async with database.read() as tx:
                child = await conversations.get(tx, task.conversation)
                tombstone = await bindings.newest_in(tx, child.id)
        assert (spawn.state, task.state) == (SpawnState.FINISHED, TurnState.FAILED)
        assert tombstone is not None
        assert tombstone.binding.status is BindingStatus.ENDED
        assert "has failed" in told.batch[0].text
        assert [line for line in ours(stage, message.message_id) if "Too many threads" in line]
        assert told.session_key == asked.session_key
        # The parent learns the reason that people read, and nothing is tried in a thread that is not there.
        assert "Too many threads" in told.batch[0].text
        tried = stage.channel.calls_of("create_message") + stage.channel.calls_of("post_as_persona")
        assert not [call for call in tried if call.conversation_id == child.ref.conversation_id]


class TestAThread:
    async def test_whose_making_is_in_doubt_is_adopted_and_made_once(
        self, database: Database
    ) -> None:
        async with on_stage(database, spawning(), agents=Family()) as stage:
            message = stage.say(giving(saying("Done.")))
            stage.channel.fail(
                "open_thread",
                DeliveryUnknown("the connection broke"),
                commits=True,
                when=lambda call: call.message_id != message.message_id,
            )
            _, task, _ = await over(stage, 3)
            await stage.quiet()
            async with database.read() as tx:
                child = await conversations.get(tx, task.conversation)
        assert len(await spawned(database)) == 1
        assert [line for line in ours(stage, child.ref.conversation_id) if line.endswith("Done.")]
        assert len([line for line in ours(stage, HOME) if "🧵" in line]) == 1

    async def test_that_is_gone_at_the_first_word_leaves_no_session_that_nobody_can_reach(
        self, database: Database
    ) -> None:
        async with on_stage(database, spawning(), agents=Family()) as stage:
            gone = ChannelRejected(Refusal.CONVERSATION_GONE, "Unknown Channel", 10003)
            message = stage.say(giving(saying("Nobody hears.")))
            places = {HOME, message.message_id}
            stage.channel.fail(
                "create_message",
                gone,
                times=99,
                when=lambda call: call.conversation_id not in places,
            )
            _, task, told = await over(stage, 3)
            await stage.quiet()
            async with database.read() as tx:
                child = await conversations.get(tx, task.conversation)
                tombstone = await bindings.newest_in(tx, child.id)
            (spawn,) = await spawned(database)
        assert child.is_closed
        assert tombstone is not None
        assert tombstone.binding.end_reason is EndReason.CONVERSATION_GONE
        assert spawn.state is SpawnState.FINISHED
        assert "Nobody hears." in told.batch[0].text
        # It is told where it was asked for: by the answer itself, or by what became of it.
        here = ours(stage, message.message_id)
        assert [
            line for line in here if "Nobody hears." in line or "could not be delivered" in line
        ]


class TestTheSwitch:
    async def test_off_changes_no_call_of_an_ordinary_conversation(
        self, database: Database
    ) -> None:
        # Whether a short turn's live message is sent at all is a matter of luck.
        off = spawning(SpawnLimits(is_on=False), mode=lambda _ref, _has_other_bot: "final")
        channel = RecordingChannel(account=ACCOUNT)
        before = await self.calls(database, replace(off, binding=BindingSettings()), channel)
        after = await self.calls(database, off, channel)
        assert before
        assert after == before

    async def calls(
        self, database: Database, settings: Settings, channel: RecordingChannel
    ) -> list[tuple[str, ...]]:
        """What the network was asked, without the ids that are new each time."""
        known_calls = len(channel.calls)
        async with on_stage(database, settings, channel=channel) as stage:
            message = stage.say(saying("One."))
            await stage.settled(message)
            await stage.settled(stage.say(saying("Two."), thread=message.message_id))
            await stage.quiet()
            known = {message.message_id: "thread"}
            return [
                (
                    call.method,
                    known.get(call.conversation_id, call.conversation_id),
                    call.body.content if call.body and call.method == "create_message" else "",
                )
                for call in channel.calls[known_calls:]
                if call.method in {"create_message", "open_thread", "delete_message"}
            ]


class TestALiveTurn:
    async def test_shows_which_sub_agents_work_for_it(self, database: Database) -> None:
        agents = Family()
        agents.held = saying("Slow.")
        async with on_stage(database, spawning(), agents=agents) as stage:
            message = stage.say(giving(agents.held))
            await stage.until(lambda: _is_held(agents))
            stage.say("and?", thread=message.message_id)
            await stage.until(lambda: _sees_helpers(stage))
            agents.may_end.set()
            found = await over(stage, 4)
        # Though the parent was in the middle of another turn: it is told once, behind that.
        told = [turn for turn in found if turn.source is TurnSource.COMPLETION]
        assert len(told) == 1


async def test_a_look_writes_only_where_something_is_due(database: Database) -> None:
    clock, stage = Offset(database), Stage(database, spawning())
    async with database.transaction() as tx:
        where = await a_conversation(tx, "8000", HOME)
        session = await sessions.ensure(tx, where, agent=HELPER, working_dir="/work")
        await stage.settings.bindings.bind(
            tx,
            session.key,
            TargetKind.SUBAGENT,
            a_ref("8001", HOME),
            bound_by="31",
            limits=Limits(idle=timedelta(seconds=60)),
        )
    sweep, commits = BindingSweep(stage.services), database.commits
    assert (await sweep.look(), database.commits) == (0, commits)
    clock.pass_by(61)
    assert await sweep.look() == 1
    assert database.commits > commits


async def bound_too(stage: Stage, session: SessionKey, thread: str) -> SessionBinding:
    """Bind another thread to the session."""
    async with stage.database.transaction() as tx:
        return await stage.settings.bindings.bind(
            tx, session, TargetKind.SUBAGENT, a_ref(thread, HOME), bound_by="31"
        )


async def _shows(stage: Stage, place: str, text: str) -> bool:
    return any(text in line for line in ours(stage, place))


async def _prompts(agents: StageAgents, count: int) -> bool:
    return len(agents.prompts) >= count


async def _is_claimed(stage: Stage, thread: str) -> bool:
    async with stage.database.read() as tx:
        where = await conversations.find(tx, a_ref(thread, HOME))
    return where is not None and where.lease_owner is not None


async def _sees_helpers(stage: Stage) -> bool:
    return any((HELPER,) in feed.helpers for feed in stage.feeds.opened)
