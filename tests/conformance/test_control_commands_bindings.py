"""Spawn, focus, unfocus and session: what they do in one transaction, for whom, and what they refuse."""

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from itertools import count

import pytest

from openab.channels.discord.bindings import DiscordBindings
from openab.control.bound_sessions import session_here, session_key_here
from openab.control.settings import BindingSettings, Settings
from openab.domain.binding import EndReason, Limits, SessionBinding, TargetKind
from openab.domain.delivery import DeadReason, DeliveryKind, GivenUp, Purpose
from openab.domain.gates import GatePolicy
from openab.domain.ids import PlatformId, SessionKey
from openab.domain.message import (
    Author,
    AuthorKind,
    CommandKind,
    InboundCommand,
    InboundMessage,
    Place,
)
from openab.domain.outbound import MessageBody
from openab.domain.spawn import Opened, SpawnLimits
from openab.domain.turn import CancelledQueued, TurnState
from openab.routing.bindings import Bindings
from openab.storage import bindings, conversations, deliveries, sessions, spawns, turns
from openab.storage.conversations import Conversation
from openab.storage.deliveries import Owed
from openab.storage.engine import Database, Transaction
from openab.storage.sessions import Session
from openab.storage.spawns import Spawn
from openab.storage.turns import Turn
from openab.text import binding_replies, replies
from tests.builders import (
    ACCOUNT,
    CHANNEL,
    HOME,
    Offset,
    a_conversation,
    a_ref,
    a_session,
    a_spawn,
    a_spec,
    a_turn,
    an_author,
    some_settings,
)
from tests.conformance.control_stage import Stage, StageAgents, on_stage
from tests.fakes.rooms import Rooms

ANN, BOB, OPERATOR = an_author(), an_author("32"), an_author("1")
ELSEWHERE = "78"
LIMITS = Limits(idle=timedelta(hours=24))
FOCUS, UNFOCUS, SESSION = CommandKind.FOCUS, CommandKind.UNFOCUS, CommandKind.SESSION
_numbers = count(80_000)


def settings(**changes: object) -> Settings:
    made = some_settings(
        binding=BindingSettings(True, LIMITS, SpawnLimits(is_on=True, at_once=2)),
        bindings=Bindings({CHANNEL: Rooms()}),
        named_agents=lambda: {"luna": a_spec()},
    )
    return replace(made, **changes)  # type: ignore[arg-type]


class Bench:
    """A stage with commands by whoever is named, and a look at what is bound."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.database = stage.database

    def command(
        self,
        where: str,
        kind: CommandKind,
        author: Author = ANN,
        place: Place = Place.THREAD,
        parent: str = HOME,
        **options: str,
    ) -> InboundCommand:
        written = {name.replace("_", "-"): value for name, value in options.items()}
        ref = a_ref(where, parent if place is Place.THREAD else None)
        number = PlatformId(str(next(_numbers)))
        return InboundCommand(ref, place, number, author, kind, options=written)

    async def used(self, where: str, kind: CommandKind, *who: Author, **options: str) -> str:
        """Somebody uses a command in a thread; what they are told."""
        author = who[0] if who else ANN
        command = self.command(where, kind, author, Place.THREAD, HOME, **options)
        answer = await self.stage.commands.answer(command)
        return answer.text

    async def session(
        self,
        where: str,
        parent: str = HOME,
        place: Place = Place.THREAD,
        named: str | None = None,
        *,
        is_private: bool = False,
    ) -> SessionKey:
        """A session that nobody has asked anything in; `is_private`: of a thread that people opened."""
        async with self.database.transaction() as tx:
            ref = a_ref(where, parent if place is Place.THREAD else None)
            home = await conversations.ensure(tx, ref, place)
            if place is Place.THREAD and not is_private:
                await self._opened_by_us(tx, home)
            return await a_session(tx, home, named)

    async def _opened_by_us(self, tx: Transaction, thread: Conversation) -> None:
        """On a message of the channel, so that whoever sees the channel sees it."""
        owed = Owed(
            account=ACCOUNT,
            conversation=thread.id,
            key=f"thread:{thread.id}",
            kind=DeliveryKind.THREAD,
            purpose=Purpose.THREAD,
            body=MessageBody("a thread"),
            seq=1,
            is_owed=False,
        )
        await deliveries.owe(tx, owed)
        for delivery in await deliveries.open_of(tx, thread.id):
            await deliveries.record(tx, delivery, GivenUp(DeadReason.SUPERSEDED))

    async def subagent(self, thread: str, requested_in: str, agent: str = "luna") -> SessionKey:
        """A sub-agent whose thread and session are there."""
        async with self.database.transaction() as tx:
            asked_in = await a_conversation(tx, requested_in, HOME)
            own = await a_conversation(tx, thread, HOME)
            await self._opened_by_us(tx, own)
            key = await a_session(tx, own, agent)
            made = await a_spawn(tx, asked_in, f"starter-{thread}", agent=agent)
            spawn = await spawns.get(tx, made)
            assert spawn is not None
            await spawns.record(tx, spawn, Opened(), session_key=key, turn_id=f"turn-{thread}")
        return key

    async def bound(self, where: str) -> SessionBinding | None:
        """What a conversation is bound to now."""
        async with self.database.read() as tx:
            here = await conversations.find(tx, a_ref(where))
            found = await bindings.active_in(tx, here.id) if here else None
            now = await tx.now()
        return found.binding if found and not found.binding.expired_by(now) else None

    async def target(self, where: str) -> str | None:
        found = await self.bound(where)
        return found.target_session_key if found else None

    async def ended(self, where: str) -> list[EndReason | None]:
        """Why the bindings of a conversation ended, oldest first."""
        async with self.database.read() as tx:
            here = await conversations.find(tx, a_ref(where))
            assert here is not None
            newest = await bindings.newest_in(tx, here.id)
            rows = [newest] if newest else []
        return [row.binding.end_reason for row in rows if row.binding.status.value != "active"]

    async def spawned(self) -> list[Spawn]:
        """Every spawn that is owed by the session of thread 100."""
        async with self.database.read() as tx:
            return await spawns.at_work_for(tx, key_of("100"))


def key_of(where: str) -> SessionKey:
    return a_ref(where).session_key()


async def _turn(tx: Transaction, where: Conversation) -> Turn:
    made = await turns.get(tx, await a_turn(tx, where))
    assert made is not None
    return made


@asynccontextmanager
async def bench(database: Database, made: Settings | None = None) -> AsyncIterator[Bench]:
    async with on_stage(database, made or settings(), agents=StageAgents()) as stage:
        yield Bench(stage)


class TestFocus:
    @pytest.mark.parametrize(
        "named",
        [
            "100",
            "<#100>",
            "https://discord.com/channels/5/100",
            "https://discord.com/channels/5/100/1234",
            f"discord:{ACCOUNT}:100",
            f" `discord:{ACCOUNT}:100` ",
        ],
    )
    async def test_binds_to_the_session_that_is_named(self, database: Database, named: str) -> None:
        async with bench(database) as at:
            await at.session("100")
            told = await at.used("200", FOCUS, session=named)
            binding = await at.bound("200")
        assert binding is not None
        assert told == binding_replies.focused(binding)
        assert (binding.target_session_key, binding.target_kind) == (
            key_of("100"),
            TargetKind.SESSION,
        )
        assert (binding.bound_by, binding.limits) == (ANN.id, LIMITS)

    async def test_what_is_said_there_then_is_for_that_session(self, database: Database) -> None:
        async with bench(database) as at:
            first = at.stage.say("remember the cat [[say=noted]]")
            await at.stage.settled(first)
            other = at.stage.say("[[say=a]]")
            await at.stage.settled(other)
            await at.used(other.message_id, FOCUS, session=first.message_id)
            again = at.stage.say("[[recall]]", thread=other.message_id)
            turn = await at.stage.settled(again)
        assert turn.session_key == key_of(first.message_id)
        assert (turn.raw or "").startswith("I remember 1 prompts.")

    async def test_a_text_channel_cannot_be_bound(self, database: Database) -> None:
        async with bench(database) as at:
            await at.session("100")
            command = at.command(HOME, FOCUS, place=Place.CHANNEL, session="100")
            told = (await at.stage.commands.answer(command)).text
            assert told == binding_replies.not_in_a_channel()
            assert await at.bound(HOME) is None

    async def test_what_nobody_knows_is_told(self, database: Database) -> None:
        async with bench(database) as at:
            await at.session("100")
            for typed in ("404", "discord:900:404", "discord:901:100", "terra", "<#404>"):
                told = await at.used("200", FOCUS, session=typed)
                assert told == binding_replies.unknown_session(typed)
            assert await at.used("200", FOCUS) == binding_replies.no_session_named()
            assert await at.bound("200") is None

    @pytest.mark.parametrize("typed", ["a\0b", "a\ud800b", "discord:900:\0", "discord:900:\ud800"])
    async def test_nor_is_what_no_database_takes(self, database: Database, typed: str) -> None:
        async with bench(database) as at:
            told = await at.used("200", FOCUS, session=typed)
            assert told == binding_replies.unknown_session(typed)

    async def test_the_own_session_is_told_as_such(self, database: Database) -> None:
        async with bench(database) as at:
            await at.session("100")
            await at.session("200")
            assert await at.used("200", FOCUS, session="200") == binding_replies.own_session()
            await at.used("200", FOCUS, session="100")
            told = await at.used("200", FOCUS, session="200")
            assert told == binding_replies.own_session_instead()
            assert await at.target("200") == key_of("100")

    async def test_the_same_again_changes_nothing(self, database: Database) -> None:
        async with bench(database) as at:
            await at.session("100")
            await at.used("200", FOCUS, session="100")
            before = await at.bound("200")
            assert before is not None
            told = await at.used("200", FOCUS, BOB, session="100")
            assert told == binding_replies.focused_before(before)
            assert await at.bound("200") == before

    async def test_only_who_bound_it_or_an_operator_replaces_it(self, database: Database) -> None:
        async with bench(database) as at:
            for thread in ("100", "101", "102"):
                await at.session(thread)
            await at.used("200", FOCUS, session="100")
            told = await at.used("200", FOCUS, BOB, session="101")
            assert told == binding_replies.binding_not_yours()
            assert await at.target("200") == key_of("100")
            await at.used("200", FOCUS, session="101")
            assert await at.target("200") == key_of("101")
            await at.used("200", FOCUS, OPERATOR, session="102")
            assert await at.target("200") == key_of("102")
            assert await at.used("200", UNFOCUS) == binding_replies.binding_not_yours()

    async def test_anybody_replaces_what_is_over(self, database: Database) -> None:
        clock = Offset(database)
        async with bench(database) as at:
            await at.session("100")
            await at.session("101")
            await at.used("200", FOCUS, session="100")
            clock.pass_by(24 * 3600)
            await at.used("200", FOCUS, BOB, session="101")
            found = await at.bound("200")
        assert found is not None
        assert (found.target_session_key, found.bound_by) == (key_of("101"), BOB.id)

    async def test_a_place_outside_the_lists_is_out_of_reach(self, database: Database) -> None:
        policy = GatePolicy(ACCOUNT, allowed_channels=frozenset({HOME}))
        async with bench(database, settings(policy=lambda: policy)) as at:
            await at.session("100", ELSEWHERE)
            for who in (ANN, OPERATOR):
                told = await at.used("200", FOCUS, who, session="100")
                assert told == binding_replies.session_not_yours()
            assert await at.bound("200") is None

    async def test_out_of_another_channel_only_by_who_has_asked_there(
        self, database: Database
    ) -> None:
        async with bench(database) as at:
            asked = at.stage.say("[[say=a]]")
            await at.stage.settled(asked)
            where = asked.message_id
            command = at.command("200", FOCUS, BOB, parent=ELSEWHERE, session=where)
            told = (await at.stage.commands.answer(command)).text
            assert told == binding_replies.session_not_yours()
            for who in (ANN, OPERATOR):
                thread = str(next(_numbers))
                command = at.command(thread, FOCUS, who, parent=ELSEWHERE, session=where)
                await at.stage.commands.answer(command)
                assert await at.target(thread) == key_of(where)

    async def test_out_of_a_thread_that_people_opened_only_by_who_has_asked_there(
        self, database: Database
    ) -> None:
        """It may be private, and nothing tells a bystander's right to see it."""
        async with bench(database) as at:
            key = await at.session("100", is_private=True)
            told = await at.used("200", FOCUS, session="100")
            assert told == binding_replies.session_not_yours()
            await at.used("201", FOCUS, OPERATOR, session="100")
            assert await at.target("201") == key

    async def test_a_direct_conversation_is_brought_by_its_person_alone(
        self, database: Database
    ) -> None:
        policy = GatePolicy(ACCOUNT, allow_dm=True)
        async with bench(database, settings(policy=lambda: policy)) as at:
            await at.session("300", place=Place.DM)
            for who in (BOB, OPERATOR):
                told = await at.used("200", FOCUS, who, session="300")
                assert told == binding_replies.session_not_yours()
            assert await at.bound("200") is None
            async with at.database.transaction() as tx:
                home = await conversations.find(tx, a_ref("300"))
                assert home is not None
                await a_turn(tx, home)
            await at.used("200", FOCUS, session="300")
            assert await at.target("200") == key_of("300")

    async def test_a_binding_opens_no_way_that_outlives_it(self, database: Database) -> None:
        """Who talked to somebody's direct session where it was bound has not asked in it."""
        policy = GatePolicy(ACCOUNT, allow_dm=True)
        async with bench(database, settings(policy=lambda: policy)) as at:
            await at.session("300", place=Place.DM)
            async with at.database.transaction() as tx:
                home = await conversations.find(tx, a_ref("300"))
                assert home is not None
                await turns.record(tx, await _turn(tx, home), CancelledQueued())
            await at.used("200", FOCUS, session="300")
            asked = at.stage.say("[[say=a]]", thread="200", author=BOB)
            assert (await at.stage.settled(asked)).session_key == key_of("300")
            await at.used("200", UNFOCUS)
            told = await at.used("210", FOCUS, BOB, session="300")
            assert told == binding_replies.session_not_yours()
            assert await at.bound("210") is None

    async def test_an_agent_that_nobody_configures_any_more(self, database: Database) -> None:
        async with bench(database, settings(named_agents=dict)) as at:
            await at.subagent("110", "200")
            told = await at.used("200", FOCUS, session="luna")
            assert told == binding_replies.agent_not_configured("luna")

    async def test_a_bot_binds_nothing(self, database: Database) -> None:
        async with bench(database) as at:
            await at.session("100")
            told = await at.used("200", FOCUS, an_author("55", AuthorKind.BOT), session="100")
            assert told == binding_replies.for_people()

    async def test_a_stranger_is_turned_away_first(self, database: Database) -> None:
        policy = GatePolicy(ACCOUNT, allowed_users=frozenset({BOB.id}))
        async with bench(database, settings(policy=lambda: policy)) as at:
            await at.session("100")
            await at.used("200", FOCUS, session="100")
            assert await at.bound("200") is None

    async def test_a_repeated_interaction_binds_nothing_again(self, database: Database) -> None:
        async with bench(database) as at:
            await at.session("100")
            command = at.command("200", FOCUS, session="100")
            await at.stage.commands.answer(command)
            await at.used("200", UNFOCUS)
            again = await at.stage.commands.answer(command)
            assert again.text == replies.done_before()
            assert await at.bound("200") is None

    async def test_what_fails_half_way_leaves_nothing_and_can_be_done_again(
        self, database: Database
    ) -> None:
        class Breaking(Rooms):
            breaks = True

            async def begun(self, tx: Transaction, binding: SessionBinding) -> None:
                if self.breaks:
                    raise ZeroDivisionError
                await super().begun(tx, binding)

        rooms = Breaking()
        async with bench(database, settings(bindings=Bindings({CHANNEL: rooms}))) as at:
            await at.session("100")
            command = at.command("200", FOCUS, session="100")
            with pytest.raises(ZeroDivisionError):
                await at.stage.commands.answer(command)
            assert await at.bound("200") is None
            rooms.breaks = False
            await at.stage.commands.answer(command)
            assert await at.target("200") == key_of("100")

    async def test_a_channel_that_nobody_serves_is_told_with_its_code(
        self, database: Database
    ) -> None:
        async with bench(database, settings(bindings=Bindings({}))) as at:
            await at.session("100")
            told = await at.used("200", FOCUS, session="100")
            assert "BINDING_ADAPTER_UNAVAILABLE" in told


class TestResume:
    async def test_gives_a_thread_the_memory_that_only_the_agent_still_has(
        self, database: Database
    ) -> None:
        async with bench(database) as at:
            first = at.stage.say("remember the cat [[say=noted]]")
            await at.stage.settled(first)
            other = at.stage.say("[[say=a]]")
            await at.stage.settled(other)
            async with database.read() as tx:
                known = await sessions.get(tx, key_of(first.message_id))
            assert known
            typed = f"acp:{known.acp_session_id}"
            told = await at.used(other.message_id, FOCUS, OPERATOR, session=typed)
            assert known.acp_session_id
            assert told == binding_replies.resumed(known.acp_session_id)
            again = at.stage.say("[[recall]]", thread=other.message_id)
            turn = await at.stage.settled(again)
        assert turn.session_key == key_of(other.message_id)
        assert "remember the cat" in (turn.raw or "")

    async def test_is_for_operators_who_disturb_nobody(self, database: Database) -> None:
        async with bench(database) as at:
            key = await at.session("200")
            assert (
                await at.used("200", FOCUS, session="acp:x") == binding_replies.resume_not_yours()
            )
            nothing = await at.used("200", FOCUS, OPERATOR, session="acp: ")
            assert nothing == binding_replies.no_session_named()
            await at.session("100")
            await at.used("200", FOCUS, session="100")
            bound = await at.used("200", FOCUS, OPERATOR, session="acp:x")
            assert bound == binding_replies.resume_elsewhere()
            at.stage.agents.may_end.clear()
            message = at.stage.say("wait", thread="201")
            await at.stage.until(lambda: _has_prompt(at.stage))
            busy = await at.used("201", FOCUS, OPERATOR, session="acp:x")
            assert busy == binding_replies.resume_busy()
            at.stage.agents.may_end.set()
            await at.stage.settled(message)
            async with database.read() as tx:
                kept = [await sessions.get(tx, one) for one in (key, key_of("201"))]
        assert [one.generation for one in kept if one] == [1, 1]


async def _has_prompt(stage: Stage) -> bool:
    return bool(stage.agents.prompts)


class TestFocusOnASubAgent:
    async def test_by_its_name_where_it_was_asked_for(self, database: Database) -> None:
        async with bench(database) as at:
            key = await at.subagent("110", "200")
            await at.used("200", FOCUS, session="luna")
            found = await at.bound("200")
        assert found is not None
        assert (found.target_session_key, found.target_kind) == (key, TargetKind.SUBAGENT)

    async def test_by_its_name_in_its_own_thread_the_way_back(self, database: Database) -> None:
        async with bench(database) as at:
            key = await at.subagent("110", "200")
            await at.used("110", FOCUS, session="luna")
            assert await at.target("110") == key

    async def test_nowhere_else_by_its_name(self, database: Database) -> None:
        async with bench(database) as at:
            await at.subagent("110", "200")
            told = await at.used("201", FOCUS, session="luna")
            assert told == binding_replies.unknown_session("luna")

    async def test_two_of_one_name_are_listed(self, database: Database) -> None:
        async with bench(database) as at:
            keys = [await at.subagent(thread, "200") for thread in ("110", "111")]
            told = await at.used("200", FOCUS, session="luna")
            assert all(key in told for key in keys)
            assert await at.bound("200") is None
            await at.used("200", FOCUS, session=keys[1])
            assert await at.target("200") == keys[1]

    async def test_a_thread_with_two_sessions_is_asked_about(self, database: Database) -> None:
        async with bench(database) as at:
            key = await at.subagent("110", "200")
            own = await at.session("110")
            told = await at.used("200", FOCUS, session="<#110>")
            assert key in told
            assert own in told

    async def test_whoever_it_works_for_may_unfocus_its_own_thread(
        self, database: Database
    ) -> None:
        async with bench(database) as at:
            await at.subagent("110", "200")
            await at.used("110", FOCUS, OPERATOR, session="luna")
            assert await at.used("110", UNFOCUS, BOB) == binding_replies.binding_not_yours()
            assert await at.used("110", UNFOCUS) == binding_replies.unfocused()
            await at.used("200", FOCUS, OPERATOR, session="luna")
            assert await at.used("200", UNFOCUS) == binding_replies.binding_not_yours()


class TestUnfocus:
    async def test_ends_the_binding_with_a_farewell(self, database: Database) -> None:
        async with bench(database) as at:
            await at.session("100")
            await at.used("200", FOCUS, session="100")
            assert await at.used("200", UNFOCUS) == binding_replies.unfocused()
            assert await at.bound("200") is None
            assert await at.ended("200") == [EndReason.UNFOCUSED]

            async def is_told() -> bool:
                async with at.database.read() as tx:
                    rows = await deliveries.listed(tx)
                return any(row["key"].endswith(":farewell") for row in rows)

            await at.stage.until(is_told)

    async def test_there_may_be_nothing_to_end(self, database: Database) -> None:
        async with bench(database) as at:
            assert await at.used("200", UNFOCUS) == binding_replies.nothing_bound()

    @pytest.mark.parametrize("kind", [FOCUS, UNFOCUS, SESSION])
    async def test_in_a_text_channel_a_thread_is_advised(
        self, database: Database, kind: CommandKind
    ) -> None:
        async with bench(database) as at:
            command = at.command(HOME, kind, place=Place.CHANNEL)
            told = (await at.stage.commands.answer(command)).text
        assert told == binding_replies.not_in_a_channel()

    async def test_an_operator_may(self, database: Database) -> None:
        async with bench(database) as at:
            await at.session("100")
            await at.used("200", FOCUS, session="100")
            assert await at.used("200", UNFOCUS, BOB) == binding_replies.binding_not_yours()
            await at.used("200", UNFOCUS, OPERATOR)
            assert await at.bound("200") is None

    async def test_a_repeated_interaction_ends_no_later_binding(self, database: Database) -> None:
        async with bench(database) as at:
            await at.session("100")
            await at.used("200", FOCUS, session="100")
            command = at.command("200", UNFOCUS)
            await at.stage.commands.answer(command)
            await at.used("200", FOCUS, session="100")
            assert (await at.stage.commands.answer(command)).text == replies.done_before()
            assert await at.target("200") == key_of("100")


class TestSession:
    async def test_without_anything_it_shows(self, database: Database) -> None:
        async with bench(database) as at:
            await at.session("100")
            assert await at.used("200", SESSION) == binding_replies.nothing_bound()
            await at.used("200", FOCUS, session="100")
            binding = await at.bound("200")
            assert binding is not None
            command = at.command("200", SESSION, BOB)
            for _ in range(2):
                told = (await at.stage.commands.answer(command)).text
                assert told == binding_replies.bound(binding)

    @pytest.mark.parametrize(
        ("options", "limits"),
        [
            ({"idle": "90m"}, Limits(idle=timedelta(minutes=90))),
            ({"idle": "off"}, Limits()),
            ({"max_age": "2d"}, replace(LIMITS, max_age=timedelta(days=2))),
            ({"idle": "Never", "max_age": "1d 12h"}, Limits(max_age=timedelta(hours=36))),
        ],
    )
    async def test_changes_how_long_it_lasts(
        self, database: Database, options: Mapping[str, str], limits: Limits
    ) -> None:
        async with bench(database) as at:
            await at.session("100")
            await at.used("200", FOCUS, session="100")
            told = await at.used("200", SESSION, **options)
            found = await at.bound("200")
            assert found is not None
            assert found.limits == limits
            assert told == binding_replies.limits_changed(found)

    @pytest.mark.parametrize("typed", ["", "soon", "30s", "3651d", "-5m", "5"])
    async def test_what_is_no_duration_changes_nothing(
        self, database: Database, typed: str
    ) -> None:
        async with bench(database) as at:
            await at.session("100")
            await at.used("200", FOCUS, session="100")
            before = await at.bound("200")
            told = await at.used("200", SESSION, idle="off", max_age=typed)
            assert told == binding_replies.no_duration(typed)
            assert await at.bound("200") == before

    async def test_only_who_bound_it_or_an_operator(self, database: Database) -> None:
        async with bench(database) as at:
            await at.session("100")
            await at.used("200", FOCUS, session="100")
            told = await at.used("200", SESSION, BOB, idle="off")
            assert told == binding_replies.binding_not_yours()
            await at.used("200", SESSION, OPERATOR, idle="off")
            found = await at.bound("200")
            assert found is not None
            assert found.limits.idle is None

    async def test_one_that_is_too_old_by_it_is_over_at_once(self, database: Database) -> None:
        clock = Offset(database)
        async with bench(database) as at:
            await at.session("100")
            await at.used("200", FOCUS, session="100")
            clock.pass_by(7200)
            told = await at.used("200", SESSION, max_age="1h")
            assert told == binding_replies.over_at_once()
            assert await at.ended("200") == [EndReason.MAX_AGE]

    async def test_a_shorter_silence_begins_now(self, database: Database) -> None:
        clock = Offset(database)
        async with bench(database) as at:
            await at.session("100")
            await at.used("200", FOCUS, session="100")
            clock.pass_by(7200)
            await at.used("200", SESSION, idle="1h")
            assert await at.target("200") == key_of("100")
            clock.pass_by(3600)
            assert await at.bound("200") is None

    async def test_a_repeated_change_is_not_made_again(self, database: Database) -> None:
        async with bench(database) as at:
            await at.session("100")
            await at.used("200", FOCUS, session="100")
            command = at.command("200", SESSION, idle="1h")
            await at.stage.commands.answer(command)
            await at.used("200", SESSION, idle="off")
            assert (await at.stage.commands.answer(command)).text == replies.done_before()
            found = await at.bound("200")
            assert found is not None
            assert found.limits.idle is None


class TestSpawn:
    async def test_owes_a_starter_and_says_where(self, database: Database) -> None:
        async with bench(database) as at:
            await at.session("100")
            told = await at.used("100", CommandKind.SPAWN, agent="luna", task="Look into it.")
            (spawn,) = await at.spawned()
        assert told == binding_replies.spawn_begun("luna", HOME)
        assert (spawn.agent, spawn.task, spawn.depth) == ("luna", "Look into it.", 1)
        assert (spawn.requester_id, spawn.requester_is_bot) == (ANN.id, False)
        assert spawn.parent_turn is None

    async def test_where_nobody_has_asked_no_session_learns_of_it(self, database: Database) -> None:
        async with bench(database) as at:
            await at.used("100", CommandKind.SPAWN, agent="luna", task="x")
            assert await at.spawned() == []
            async with at.database.read() as tx:
                rows = await deliveries.listed(tx)
            (key,) = [row["key"] for row in rows if row["key"].startswith("spawn:")]
        assert key.endswith(":starter:v1")

    @pytest.mark.parametrize(
        ("changes", "options", "reason"),
        [
            ({"binding": BindingSettings(True)}, {}, "switched_off"),
            ({}, {"agent": "terra"}, "unknown_agent"),
            ({}, {"task": " \n"}, "no_task"),
        ],
    )
    async def test_a_refusal_says_why(
        self,
        database: Database,
        changes: Mapping[str, object],
        options: Mapping[str, str],
        reason: str,
    ) -> None:
        async with bench(database, settings(**changes)) as at:
            wanted = {"agent": "luna", "task": "x", **options}
            told = await at.used("100", CommandKind.SPAWN, **wanted)
            assert f"`{reason}`" in told

    async def test_not_in_a_direct_conversation(self, database: Database) -> None:
        policy = GatePolicy(ACCOUNT, allow_dm=True)
        async with bench(database, settings(policy=lambda: policy)) as at:
            command = at.command("300", CommandKind.SPAWN, place=Place.DM, agent="luna", task="x")
            assert "`no_threads_here`" in (await at.stage.commands.answer(command)).text

    async def test_not_in_a_channel_where_nobody_is_heard(self, database: Database) -> None:
        policy = GatePolicy(ACCOUNT, allowed_channels=frozenset({"100"}))
        async with bench(database, settings(policy=lambda: policy)) as at:
            told = await at.used("100", CommandKind.SPAWN, agent="luna", task="x")
            assert "`no_threads_here`" in told
            assert "`allowed_channels`" in told

    async def test_no_more_at_once_than_are_allowed(self, database: Database) -> None:
        async with bench(database) as at:
            await at.session("100")
            wanted = {"agent": "luna", "task": "x"}
            told = [await at.used("100", CommandKind.SPAWN, **wanted) for _ in range(3)]
            assert "`too_many`" in told[2]
            assert "`too_many`" not in told[1]

    async def test_a_sub_agents_thread_is_too_deep(self, database: Database) -> None:
        async with bench(database) as at:
            await at.subagent("110", "100")
            await at.used("110", FOCUS, session="luna")
            told = await at.used("110", CommandKind.SPAWN, agent="luna", task="x")
            assert "`too_deep`" in told

    async def test_a_repeated_interaction_starts_one(self, database: Database) -> None:
        async with bench(database) as at:
            await at.session("100")
            command = at.command("100", CommandKind.SPAWN, agent="luna", task="x")
            await at.stage.commands.answer(command)
            assert (await at.stage.commands.answer(command)).text == replies.done_before()
            assert len(await at.spawned()) == 1


class TestSwitchedOff:
    @pytest.mark.parametrize("kind", [FOCUS, UNFOCUS, SESSION])
    async def test_it_is_told(self, database: Database, kind: CommandKind) -> None:
        async with bench(database, settings(binding=BindingSettings())) as at:
            await at.session("100")
            assert await at.used("200", kind, session="100") == binding_replies.switched_off()
            assert await at.bound("200") is None

    async def test_what_was_bound_is_kept_and_not_followed(self, database: Database) -> None:
        async with bench(database) as at:
            await at.session("100")
            await at.used("200", FOCUS, session="100")
        off, on = settings(binding=BindingSettings()), settings()
        async with database.transaction() as tx:
            here = await conversations.find(tx, a_ref("200"))
            assert here is not None
            assert await session_key_here(tx, off, here) == key_of("200")
            assert (await session_here(tx, off, here)).key == key_of("200")
            assert await session_key_here(tx, on, here) == key_of("100")


class TestTextTwins:
    async def notices(self, at: Bench, where: InboundMessage) -> list[str]:
        async with at.database.read() as tx:
            here = await conversations.find(tx, a_ref(where.message_id))
            assert here is not None
            rows = await deliveries.listed(tx)
        mine = [row for row in rows if row["conversation"] == here.id]
        bodies = [row["body"] for row in mine if row["key"].startswith(("command:", "binding:"))]
        return [json.loads(body)["content"] for body in bodies]

    async def test_focus_session_and_unfocus_are_typed(self, database: Database) -> None:
        as_in_discord = settings(bindings=Bindings({CHANNEL: DiscordBindings()}))
        async with bench(database, as_in_discord) as at:
            await at.session("100")
            asked = at.stage.say("[[say=a]]")
            await at.stage.settled(asked)
            thread = asked.message_id
            for number, (typed, said) in enumerate(
                [
                    ("!focus <#100>", "🔗 What is said here goes to the session of <#100>"),
                    ("!session", "🔗 This conversation talks to the session of <#100>"),
                    ("!unfocus", "👋 This conversation does not talk to the session of <#100>"),
                    ("!unfocus", "nothing is bound here"),
                ],
                start=1,
            ):
                at.stage.say(typed, thread=thread)

                async def is_told(number: int = number) -> bool:
                    return len(await self.notices(at, asked)) == number

                # One line each, whether it answers the command or tells of the binding.
                await at.stage.until(is_told)
                assert sum(said in each for each in await self.notices(at, asked)) == 1
            assert await at.bound(thread) is None


class TestOtherCommandsMeanWhatIsBound:
    async def test_reset_ends_the_session_wherever_it_works(self, database: Database) -> None:
        async with bench(database) as at:
            first = at.stage.say("[[say=a]][[hang]]")
            await at.stage.signals.wait("agent_prompted")
            await at.used("200", FOCUS, session=first.message_id)
            told = await at.used("200", CommandKind.RESET)
            assert told == replies.reset_done(waiting=0, is_running=True)
            assert (await at.stage.settled(first)).state is TurnState.CANCELLED
            async with at.database.read() as tx:
                session = await sessions.get(tx, key_of(first.message_id))
        assert session is not None
        assert session.generation == 2

    async def test_reset_starts_over_when_a_turn_begins_elsewhere_meanwhile(
        self, postgres_database: Database, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """SQLite's writers take turns."""
        real, late = sessions.locked, list[InboundMessage]()
        async with bench(postgres_database) as at:
            await at.session("100")
            await at.used("200", FOCUS, session="100")

            async def begun_meanwhile(tx: Transaction, key: SessionKey) -> Session | None:
                if not late:
                    late.append(at.stage.say("[[say=a]][[hang]]", thread="200"))
                    await at.stage.signals.wait("agent_prompted")
                return await real(tx, key)

            monkeypatch.setattr(sessions, "locked", begun_meanwhile)
            told = await at.used("100", CommandKind.RESET, OPERATOR)
            assert told == replies.reset_done(waiting=0, is_running=True)
            assert (await at.stage.settled(late[0])).state is TurnState.CANCELLED

    async def test_reset_leaves_the_own_session_of_the_conversation(
        self, database: Database
    ) -> None:
        async with bench(database) as at:
            await at.session("100")
            own = at.stage.say("[[say=a]]")
            await at.stage.settled(own)
            await at.used(own.message_id, FOCUS, session="100")
            await at.used(own.message_id, CommandKind.RESET, OPERATOR)
            async with at.database.read() as tx:
                kept = await sessions.get(tx, key_of(own.message_id))
                ended = await sessions.get(tx, key_of("100"))
        assert kept is not None
        assert ended is not None
        assert (kept.generation, ended.generation) == (1, 2)

    async def test_nobody_resets_what_works_for_somebody_else(self, database: Database) -> None:
        async with bench(database) as at:
            first = at.stage.say("[[say=a]][[hang]]")
            await at.stage.signals.wait("agent_prompted")
            await at.used("200", FOCUS, BOB, session=first.message_id)
            told = await at.used("200", CommandKind.RESET, BOB)
            assert told == replies.reset_not_yours()
            await at.used(first.message_id, CommandKind.CANCEL)
            await at.stage.settled(first)

    async def test_usage_is_that_of_the_session(self, database: Database) -> None:
        async with bench(database) as at:
            first = at.stage.say("[[say=a]]")
            await at.stage.settled(first)
            assert await at.used("200", CommandKind.USAGE) == replies.no_session()
            await at.used("200", FOCUS, session=first.message_id)
            assert "1 request," in await at.used("200", CommandKind.USAGE)
            again = at.stage.say("[[say=b]]", thread="200")
            await at.stage.settled(again)
            for where in ("200", first.message_id):
                assert "2 requests," in await at.used(where, CommandKind.USAGE)

    async def test_who_has_asked_from_a_bound_conversation_has_asked_in_the_session(
        self, database: Database
    ) -> None:
        async with bench(database) as at:
            key = await at.session("100")
            await at.used("200", FOCUS, session="100")
            asked = at.stage.say("[[say=a]]", thread="200", author=BOB)
            await at.stage.settled(asked)
            told = await at.used("100", CommandKind.RESET, BOB)
            assert told == replies.reset_done(waiting=0, is_running=False)
            async with at.database.read() as tx:
                session = await sessions.get(tx, key)
        assert session is not None
        assert session.generation == 2

    async def test_and_after_its_time_the_own_one_is_meant(self, database: Database) -> None:
        clock = Offset(database)
        async with bench(database) as at:
            await at.session("100")
            await at.used("200", FOCUS, session="100")
            clock.pass_by(24 * 3600)
            async with at.database.read() as tx:
                here = await conversations.find(tx, a_ref("200"))
                assert here is not None
                key = await session_key_here(tx, at.stage.settings, here)
        assert key == key_of("200")
