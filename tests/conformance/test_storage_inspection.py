"""What people look at is read right on both dialects, and never what was said."""

import pytest

from openab.storage.binding_listing import list_bindings
from openab.storage.engine import Database
from openab.storage.inspection import (
    find_message,
    list_deliveries,
    list_sessions,
    list_turns,
)
from openab.storage.upgrade import SchemaRefused
from tests import stories
from tests.builders import HOME, a_conversation, a_spawn
from tests.conformance.binding_stage import HOUR, Network


async def test_turns_come_newest_first_and_the_open_ones_can_be_asked_for(
    database: Database, migrated_address: str
) -> None:
    failed, waiting = await stories.tell(database)

    everything = await list_turns(migrated_address, only_open=False, limit=10)
    still_open = await list_turns(migrated_address, only_open=True, limit=10)

    assert {line.id: (line.state, line.outcome) for line in everything} == {
        waiting: ("queued", None),
        failed: ("answered", "failed"),
    }
    assert {line.id for line in still_open} == {failed, waiting}
    assert everything[0].conversation_id == stories.THREAD
    assert everything[0].requester_name == stories.NAME
    assert stories.SECRET_ANSWER not in repr(everything)
    assert len(await list_turns(migrated_address, only_open=False, limit=1)) == 1


async def test_sessions_tell_their_open_turns(database: Database, migrated_address: str) -> None:
    before = await list_sessions(migrated_address, only_open=False, limit=10)
    await stories.tell(database)

    (line,) = await list_sessions(migrated_address, only_open=True, limit=10)

    assert before == []
    assert (line.agent, line.working_dir, line.open_turns) == ("codex-acp", "/work", 2)


async def test_deliveries_tell_their_state_and_not_their_text(
    database: Database, migrated_address: str
) -> None:
    await stories.tell(database)

    lines = await list_deliveries(migrated_address, only_open=False, limit=10)

    assert {line.part: (line.state, line.dead_reason) for line in lines} == {
        1: ("sent", None),
        2: ("dead", "forbidden"),
    }
    assert stories.SECRET_ANSWER not in repr(lines)
    assert await list_deliveries(migrated_address, only_open=True, limit=10) == []


async def test_a_message_is_found_with_its_turn(database: Database, migrated_address: str) -> None:
    failed, waiting = await stories.tell(database)

    (asked,) = (await find_message(migrated_address, stories.ASKED)).sightings
    (behind,) = (await find_message(migrated_address, stories.WAITING)).sightings
    (ignored,) = (await find_message(migrated_address, stories.IGNORED)).sightings

    assert asked.story is not None
    assert asked.story.turn.id == failed
    assert [line.event for line in asked.story.log][:2] == ["turn_started", "turn_failed"]
    assert [line.part for line in asked.story.deliveries] == [1, 2]
    assert not asked.story.is_owned
    assert behind.story is not None
    # The failed one has ended; it holds nobody up.
    assert (behind.story.turn.id, behind.story.turns_before) == (waiting, 0)
    assert (ignored.entry.reason, ignored.story) == ("not_mentioned", None)


async def test_openabs_own_message_leads_to_its_turn(
    database: Database, migrated_address: str
) -> None:
    failed, _ = await stories.tell(database)

    found = await find_message(migrated_address, stories.REPLY)

    assert found.sightings == ()
    assert found.own is not None
    assert (found.own.part, found.own.turn_id) == (1, failed)
    assert found.own_story is not None


async def test_a_message_that_was_never_seen(database: Database, migrated_address: str) -> None:
    await stories.tell(database)

    found = await find_message(migrated_address, "999")

    assert (found.sightings, found.own, found.own_story) == ((), None, None)


async def test_every_message_of_a_sub_agents_task_leads_to_its_spawn(
    database: Database, migrated_address: str
) -> None:
    await stories.tell(database)
    made = await stories.give(database)
    messages = (stories.STARTER, stories.INTRO, stories.TASK, stories.ANSWER, stories.TOLD, made)

    for message in messages:
        (spawn,) = (await find_message(migrated_address, message)).spawns
        assert spawn.id == made
    assert (spawn.state, spawn.conversation_id, spawn.thread_id) == (
        "finished",
        HOME,
        stories.STARTER,
    )
    assert (spawn.starter_state, spawn.turn_state) == ("sent", "queued")
    assert spawn.answered_in == (stories.STARTER,)
    assert stories.SECRET_TASK not in repr(spawn)
    assert (await find_message(migrated_address, stories.REPLY)).spawns == ()


async def test_an_empty_database_is_told_and_stays_empty(database_address: str) -> None:
    for _ in range(2):
        with pytest.raises(SchemaRefused, match="no openab has run with it yet"):
            await list_turns(database_address, only_open=False, limit=1)


async def test_bindings_and_spawns_are_told_as_they_are_now(
    database: Database, migrated_address: str
) -> None:
    net = Network(database, "rooms")
    session = await net.session("40")
    net.clock.pass_by(-7200)
    over = await net.bind(session, "50", idle=HOUR)
    good = await net.bind(session, "51", idle=3 * HOUR)
    async with database.transaction() as tx:
        await a_spawn(tx, await a_conversation(tx))

    found = await list_bindings(migrated_address, only_open=False, limit=10)
    still_open = await list_bindings(migrated_address, only_open=True, limit=10)
    (line,) = await list_sessions(migrated_address, only_open=False, limit=1)

    assert [(one.id, one.state, one.end_reason, one.ends_by) for one in found.bindings] == [
        (good.binding_id, "active", None, "idle"),
        (over.binding_id, "expired", "idle", None),
    ]
    assert [one.id for one in still_open.bindings] == [good.binding_id]
    (spawn,) = found.spawns
    assert found.spawns[0].id == still_open.spawns[0].id
    assert (spawn.state, spawn.agent, spawn.conversation_id) == ("owed", "luna", HOME)
    assert 7200 <= spawn.age_seconds < 7500
    assert "Look into it." not in repr(found)
    assert line.bound_to == ("51",)
    # Looking writes nothing.
    assert set(await net.active()) == {over.binding_id, good.binding_id}
