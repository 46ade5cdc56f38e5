"""Raw Discord payloads become messages and commands of the domain."""

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openab.channels.discord.inbound import inbound_command, inbound_message
from openab.channels.discord.places import DIRECT, PlaceFacts, Places, place_facts
from openab.domain.ids import AccountId, PlatformId
from openab.domain.message import AuthorKind, CommandKind, InboundMessage, MessageKind, Place

US = AccountId("900")
CHANNEL = PlaceFacts(Place.CHANNEL)
THREAD = PlaceFacts(Place.THREAD, PlatformId("7"), PlatformId("31"))


def raw_message(**changed: Any) -> dict[str, Any]:
    return {
        "id": "1001",
        "channel_id": "8",
        "guild_id": "6",
        "author": {"id": "31", "username": "ann", "global_name": "Ann"},
        "member": {"nick": None, "roles": ["51", "52"]},
        "content": "hello",
        "timestamp": "2026-07-01T10:00:00.123000+00:00",
        "edited_timestamp": None,
        "type": 0,
    } | changed


def read(facts: PlaceFacts = CHANNEL, **changed: Any) -> InboundMessage:
    return inbound_message(raw_message(**changed), US, facts)


def test_a_message_in_a_thread() -> None:
    message = read(THREAD)

    assert message.place is Place.THREAD
    assert message.conversation.conversation_id == "8"
    assert message.conversation.parent_conversation_id == "7"
    assert message.conversation.account == US
    assert message.thread_owner == "31"
    assert message.sent_at == datetime(2026, 7, 1, 10, 0, 0, 123000, tzinfo=UTC)
    assert message.author.role_ids == {"51", "52"}
    assert not message.from_history


def test_a_direct_message_has_neither_guild_nor_member() -> None:
    raw = raw_message()
    del raw["guild_id"], raw["member"]
    message = inbound_message(raw, US, DIRECT)

    assert message.place is Place.DM
    assert message.author.role_ids == frozenset()


@pytest.mark.parametrize(
    ("nick", "global_name", "shown"),
    [("Boss", "Ann", "Boss"), (None, "Ann", "Ann"), (None, None, "ann"), ("", "", "ann")],
)
def test_the_name_people_see(nick: str | None, global_name: str | None, shown: str) -> None:
    author = {"id": "31", "username": "ann", "global_name": global_name}

    assert read(author=author, member={"nick": nick}).author.display_name == shown


@pytest.mark.parametrize(
    ("changed", "kind"),
    [
        ({}, AuthorKind.HUMAN),
        ({"author": {"id": "40", "username": "b", "bot": True}}, AuthorKind.BOT),
        ({"author": {"id": US, "username": "us", "bot": True}}, AuthorKind.SELF),
        ({"webhook_id": "77"}, AuthorKind.WEBHOOK),
        (
            {
                "webhook_id": "40",
                "application_id": "40",
                "author": {"id": "40", "username": "b", "bot": True},
            },
            AuthorKind.BOT,
        ),
    ],
)
def test_who_speaks(changed: dict[str, Any], kind: AuthorKind) -> None:
    assert read(**changed).author.kind is kind


def test_mentions_are_read_from_the_text_alone() -> None:
    message = read(
        content="<@900> and <@!31>, not <#12>, <@&51>", mentions=[{"id": "66"}], mention_roles=[]
    )

    assert message.mentioned_users == {"900", "31"}
    assert message.mentioned_roles == {"51"}


@pytest.mark.parametrize(
    ("number", "kind"),
    [
        (0, MessageKind.DEFAULT),
        (19, MessageKind.REPLY),
        (18, MessageKind.SYSTEM),
        (20, MessageKind.SYSTEM),
        (21, MessageKind.SYSTEM),
        (999, MessageKind.SYSTEM),
    ],
)
def test_only_default_and_reply_are_no_system_messages(number: int, kind: MessageKind) -> None:
    assert read(type=number).kind is kind


def test_silence_edit_and_nonce_are_told() -> None:
    message = read(flags=1 << 12, edited_timestamp="2026-07-01T10:01:00+00:00", nonce=123)

    assert message.silent
    assert message.edited
    assert message.nonce == "123"
    assert not read(flags=1 << 2).silent


def test_an_attachment_without_a_type() -> None:
    file = {"filename": "a.log", "size": 3, "url": "http://127.0.0.1/a.log"}
    (attachment,) = read(attachments=[file]).attachments

    assert (attachment.name, attachment.content_type, attachment.size) == ("a.log", "", 3)


@given(st.text())
def test_any_text_can_be_read(text: str) -> None:
    assert read(content=text).text == text


@pytest.mark.parametrize("missing", ["id", "author", "content", "timestamp", "type", "channel_id"])
def test_another_shape_is_an_error_and_no_half_message(missing: str) -> None:
    raw = raw_message()
    del raw[missing]
    with pytest.raises(KeyError):
        inbound_message(raw, US, CHANNEL)


def interaction(**changed: Any) -> dict[str, Any]:
    return {
        "id": "2001",
        "type": 2,
        "token": "t",
        "channel_id": "8",
        "guild_id": "6",
        "member": {"user": {"id": "31", "username": "ann"}, "roles": ["51"]},
        "data": {"name": "cancel"},
    } | changed


def test_the_cancel_command() -> None:
    command = inbound_command(interaction(), US, THREAD)

    assert command is not None
    assert command.kind is CommandKind.CANCEL
    assert command.argument == ""
    assert command.author.id == "31"
    assert command.author.role_ids == {"51"}
    assert command.conversation.parent_conversation_id == "7"


def test_the_stop_button_names_its_turn() -> None:
    pressed = interaction(type=3, data={"custom_id": "openab:stop:turn:9", "component_type": 2})
    command = inbound_command(pressed, US, THREAD)

    assert command is not None
    assert (command.kind, command.argument) == (CommandKind.CANCEL, "turn:9")


def test_a_pick_names_its_option_and_its_value() -> None:
    data = {"custom_id": "openab:config:model:x", "component_type": 3, "values": ["m1"]}
    command = inbound_command(interaction(type=3, data=data), US, THREAD)

    assert command is not None
    assert (command.kind, command.argument) == (CommandKind.CHOOSE, "model:x")
    assert command.values == ("m1",)


def test_in_a_direct_conversation_there_is_a_user_and_no_member() -> None:
    raw = interaction(user={"id": "31", "username": "ann"}, guild_id=None)
    del raw["member"]
    command = inbound_command(raw, US, DIRECT)

    assert command is not None
    assert command.author.id == "31"


@pytest.mark.parametrize(
    "changed",
    [
        {"data": {"name": "restart"}},
        {"data": None},
        {"type": 3, "data": {"custom_id": "openab:retired:1"}},
        {"type": 3, "data": {"custom_id": "someone:stop:1"}},
        {"type": 3, "data": {"custom_id": "stop"}},
        {"type": 4, "data": {"name": "cancel"}},
    ],
)
def test_what_is_not_ours_is_no_command(changed: dict[str, Any]) -> None:
    assert inbound_command(interaction(**changed), US, THREAD) is None


def test_a_thread_is_what_has_thread_metadata() -> None:
    raw = {"id": "8", "type": 0, "parent_id": "7", "owner_id": "31", "thread_metadata": {}}

    assert place_facts(raw) == THREAD
    # A category is a parent, too, but does not make a thread.
    assert place_facts({"id": "8", "type": 0, "parent_id": "7"}) == CHANNEL


def test_a_partial_thread_takes_no_fact_away() -> None:
    places = Places()
    places.learn({"id": "8", "type": 11, "parent_id": "7", "owner_id": "31"})
    places.learn({"id": "8", "type": 11, "parent_id": "7"})

    assert places.find(PlatformId("8")) == THREAD


def test_the_least_used_place_is_forgotten_first() -> None:
    places = Places(most=2)
    for name in ("1", "2"):
        places.learn({"id": name, "type": 0})
    places.find(PlatformId("1"))
    places.learn({"id": "3", "type": 0})

    assert places.find(PlatformId("2")) is None
    assert places.find(PlatformId("1")) == CHANNEL
