"""What the adapter hears: messages in order and whole, commands answered in time."""

import asyncio

import pytest

from openab.channels.discord.access import channel_access
from openab.channels.discord.interactions import FAILED_WORDS, NOT_NOW_WORDS, UNKNOWN_WORDS
from openab.channels.discord.outbound import DiscordChannel
from openab.channels.discord.slash import Offer, register_commands
from openab.domain.errors import Transient
from openab.domain.ids import AccountId, MessageRef, PlatformId
from openab.domain.message import AuthorKind, CommandKind, InboundCommand, MessageKind, Place
from openab.domain.outbound import Button, MessageBody, presentation_body
from openab.ports.channel import ChannelRejected
from openab.simulator.discord import LoopbackDiscord, hang, server_error
from openab.storage.engine import DatabaseUnavailable
from tests.fakes.discord_stage import listening, logged_in, until

SECONDS = 5.0


async def test_a_mention_in_a_channel() -> None:
    async with LoopbackDiscord() as discord:
        bot, person = discord.add_bot("sol"), discord.add_person("ann")
        home = discord.add_channel("general")
        async with listening(discord, bot) as listener:
            said = await person.say(home.id, f"<@!{bot.id}> build it")
            message = await listener.next_message()

    assert message.message_id == said.id
    assert message.conversation.account == bot.id
    assert (message.conversation.conversation_id, message.place) == (home.id, Place.CHANNEL)
    assert message.mentioned_users == {bot.id}
    assert (message.author.id, message.author.kind) == (person.id, AuthorKind.HUMAN)


async def test_our_own_echo_carries_the_nonce() -> None:
    async with LoopbackDiscord() as discord:
        bot, home = discord.add_bot("sol"), discord.add_channel("general")
        async with listening(discord, bot) as listener:
            where = PlatformId(home.id)
            await listener.client.channel.create_message(
                where, presentation_body("working"), "abc123", SECONDS
            )
            message = await listener.next_message()

    assert (message.author.kind, message.nonce, message.silent) == (AuthorKind.SELF, "abc123", True)


async def test_who_else_speaks() -> None:
    async with LoopbackDiscord() as discord:
        bot, other = discord.add_bot("sol"), discord.add_bot("luna")
        home = discord.add_channel("general")
        hook = discord.add_webhook(home.id, "news")
        async with listening(discord, bot) as listener:
            await other.say(home.id, f"<@{bot.id}> hi")
            await hook.say("extra")
            kinds = [(await listener.next_message()).author.kind for _ in range(2)]

    assert kinds == [AuthorKind.BOT, AuthorKind.WEBHOOK]


async def test_a_new_thread_is_known_without_asking() -> None:
    async with LoopbackDiscord() as discord:
        bot, person = discord.add_bot("sol"), discord.add_person("ann")
        home = discord.add_channel("general")
        async with listening(discord, bot) as listener:
            starter = await person.say(home.id, "topic")
            thread = await person.open_thread(starter, "Topic")
            await person.say(thread.id, "inside")
            heard = [await listener.next_message()]
            while heard[-1].text != "inside":
                heard.append(await listener.next_message())

            message = heard[-1]
            assert message.place is Place.THREAD
            assert message.conversation.parent_conversation_id == home.id
            assert message.thread_owner == person.id
            assert not [one for one in discord.journal.requests if one.route == "get_channel"]
            assert all(
                one.kind is MessageKind.SYSTEM
                for one in heard
                if one.text not in {"topic", "inside"}
            )


async def test_an_archived_thread_is_looked_up_and_order_is_kept() -> None:
    async with LoopbackDiscord() as discord:
        bot, person = discord.add_bot("sol"), discord.add_person("ann")
        home = discord.add_channel("general")
        thread = await person.open_thread(await person.say(home.id, "topic"), "Topic")
        await person.archive(thread.id)
        async with listening(discord, bot) as listener:
            # The un-archiving event would tell; it is lost here.
            discord.faults.deliver("never", event="THREAD_UPDATE", times=-1)
            rule = discord.faults.add(hang(30, "after"), method="GET")
            await person.say(thread.id, "first")
            await person.say(home.id, "second")
            await rule.wait_hits()
            assert listener.heard.empty()
            rule.release()
            first, second = await listener.next_message(), await listener.next_message()
            await person.say(thread.id, "third")
            third = await listener.next_message()

            assert [first.text, second.text, third.text] == ["first", "second", "third"]
            assert first.place is third.place is Place.THREAD
            assert rule.hits == 1


async def test_a_look_up_that_fails_is_repeated() -> None:
    async with LoopbackDiscord() as discord:
        bot, person = discord.add_bot("sol"), discord.add_person("ann")
        home = discord.add_channel("general")
        thread = await person.open_thread(await person.say(home.id, "topic"), "Topic")
        await person.archive(thread.id)
        async with listening(discord, bot) as listener:
            discord.faults.deliver("never", event="THREAD_UPDATE", times=-1)
            discord.faults.add(server_error(503), method="GET")
            await person.say(thread.id, "first")

            assert (await listener.next_message()).place is Place.THREAD


async def test_a_hundred_messages_keep_their_order() -> None:
    async with LoopbackDiscord() as discord:
        bot, person = discord.add_bot("sol"), discord.add_person("ann")
        home = discord.add_channel("general")
        async with listening(discord, bot) as listener:
            for number in range(100):
                await person.say(home.id, str(number))
            heard = [(await listener.next_message()).text for _ in range(100)]

    assert heard == [str(number) for number in range(100)]


async def test_an_edit_is_not_heard() -> None:
    async with LoopbackDiscord() as discord:
        bot, person = discord.add_bot("sol"), discord.add_person("ann")
        home = discord.add_channel("general")
        async with listening(discord, bot) as listener:
            said = await person.say(home.id, "hello")
            await person.edit(said, f"{bot.mention} hello")
            await person.say(home.id, "end")
            heard = [(await listener.next_message()).text for _ in range(2)]

    assert heard == ["hello", "end"]


async def test_a_direct_message_and_an_attachment() -> None:
    async with LoopbackDiscord() as discord:
        bot, person = discord.add_bot("sol"), discord.add_person("ann")
        direct = discord.open_dm(person, bot)
        async with listening(discord, bot) as listener:
            await person.say(direct.id, "", attachments=[person.attach("a.log", b"abc")])
            message = await listener.next_message()

    assert message.place is Place.DM
    assert [(one.name, one.size) for one in message.attachments] == [("a.log", 3)]


async def _register(discord: LoopbackDiscord, listener_rest: object, bot_id: str) -> None:
    async def unknown() -> None:
        return None

    async def forget(_digest: str) -> None:
        return None

    await register_commands(
        listener_rest,  # type: ignore[arg-type]
        PlatformId(bot_id),
        known_digest=unknown,
        store_digest=forget,
    )


async def test_a_slash_command_is_answered_for_the_asker_only() -> None:
    async with LoopbackDiscord() as discord:
        bot, person = discord.add_bot("sol"), discord.add_person("ann")
        home = discord.add_channel("general")
        async with listening(discord, bot) as listener:
            await _register(discord, listener.client.rest, bot.id)
            pending = await person.slash(home.id, "cancel", bot)
            callback = await pending.answer()

            assert callback.type == 4
            assert callback.data["flags"] == 1 << 6
            assert callback.data["content"] == "stopped"
            assert callback.data["allowed_mentions"] == {
                "parse": [],
                "users": [],
                "replied_user": False,
            }
            (command,) = listener.commands
            assert (command.kind, command.interaction_id) == (CommandKind.CANCEL, pending.id)
            assert command.author.id == person.id


async def test_a_slow_answer_is_deferred_and_then_filled_in() -> None:
    async with LoopbackDiscord() as discord:
        bot, person = discord.add_bot("sol"), discord.add_person("ann")
        home = discord.add_channel("general")
        decided = asyncio.Event()

        async def slowly(_command: InboundCommand) -> str:
            await decided.wait()
            return "stopped at last"

        async with listening(discord, bot) as listener:
            listener.answer = slowly
            await _register(discord, listener.client.rest, bot.id)
            pending = await person.slash(home.id, "cancel", bot)
            assert (await pending.answer()).type == 5
            decided.set()

            assert await pending.text() == "stopped at last"
            contents = [one.fields for one in discord.journal.requests if one.fields.get("content")]
            assert all(one["allowed_mentions"]["parse"] == [] for one in contents)


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (ZeroDivisionError(), FAILED_WORDS),
        (Transient("somebody else is busy"), FAILED_WORDS),
        (DatabaseUnavailable("the database is busy"), NOT_NOW_WORDS),
    ],
)
async def test_a_failing_answer_is_told_politely(error: Exception, words: str) -> None:
    async with LoopbackDiscord() as discord:
        bot, person = discord.add_bot("sol"), discord.add_person("ann")
        home = discord.add_channel("general")

        async def broken(_command: InboundCommand) -> str:
            raise error

        async with listening(discord, bot) as listener:
            listener.answer = broken
            await _register(discord, listener.client.rest, bot.id)
            pending = await person.slash(home.id, "cancel", bot)

            assert (await pending.answer()).data["content"] == words
            assert listener.health.ready


@pytest.mark.parametrize(
    ("custom_id", "words"),
    [("openab:stop:turn-1", "stopped"), ("openab:retired:9", UNKNOWN_WORDS)],
)
async def test_a_button_press_is_answered(custom_id: str, words: str) -> None:
    async with LoopbackDiscord() as discord:
        bot, person = discord.add_bot("sol"), discord.add_person("ann")
        home = discord.add_channel("general")
        async with listening(discord, bot) as listener:
            where = PlatformId(home.id)
            body = presentation_body("working", (Button(custom_id, "Stop"),))
            await listener.client.channel.create_message(where, body, "n1", SECONDS)
            pending = await person.click(discord.messages(home.id)[-1], custom_id)
            callback = await pending.answer()

            assert (callback.type, callback.data["content"]) == (4, words)
            assert [one.argument for one in listener.commands] == (
                ["turn-1"] if words == "stopped" else []
            )


async def test_a_command_in_a_thread_is_about_the_thread() -> None:
    async with LoopbackDiscord() as discord:
        bot, person = discord.add_bot("sol"), discord.add_person("ann")
        home = discord.add_channel("general")
        thread = await person.open_thread(await person.say(home.id, "topic"), "Topic")
        async with listening(discord, bot) as listener:
            await _register(discord, listener.client.rest, bot.id)
            await (await person.slash(thread.id, "cancel", bot)).answer()
            (command,) = listener.commands

    assert command.place is Place.THREAD
    assert command.conversation.parent_conversation_id == home.id


async def test_commands_are_registered_only_when_they_changed() -> None:
    stored: list[str] = []

    async def known() -> str | None:
        return stored[-1] if stored else None

    async def store(digest: str) -> None:
        stored.append(digest)

    async with LoopbackDiscord() as discord:
        bot = discord.add_bot("sol")
        async with logged_in(discord, bot) as rest:
            application = PlatformId(bot.id)
            done = [
                await register_commands(rest, application, known_digest=known, store_digest=store)
                for _ in range(2)
            ]

    assert done == [True, False]
    assert sum(one.method == "PUT" for one in discord.journal.requests) == 1


async def test_what_the_configuration_offers_is_registered_anew_and_filled_in_by_people() -> None:
    stored: list[str] = []

    async def known() -> str | None:
        return stored[-1] if stored else None

    async def store(digest: str) -> None:
        stored.append(digest)

    async with LoopbackDiscord() as discord:
        bot, person = discord.add_bot("sol"), discord.add_person("ann")
        home = discord.add_channel("general")
        application = PlatformId(bot.id)
        async with listening(discord, bot) as listener:
            rest = listener.client.rest
            for offer in (Offer(), Offer(True), Offer(True, ("luna",)), Offer(True, ("luna",))):
                await register_commands(
                    rest, application, offer, known_digest=known, store_digest=store
                )
            told = {"agent": "luna", "task": "Look into it."}
            await (await person.slash(home.id, "spawn", bot, **told)).answer()
            limits = {"idle": "90m", "max-age": "off"}
            await (await person.slash(home.id, "session", bot, **limits)).answer()
            await (await person.slash(home.id, "unfocus", bot)).answer()
            await register_commands(rest, application, known_digest=known, store_digest=store)
            with pytest.raises(LookupError):
                await person.slash(home.id, "unfocus", bot)

    assert [one.kind for one in listener.commands] == [
        CommandKind.SPAWN,
        CommandKind.SESSION,
        CommandKind.UNFOCUS,
    ]
    assert [one.options for one in listener.commands] == [told, limits, {}]
    assert sum(one.method == "PUT" for one in discord.journal.requests) == 4


async def test_the_doctor_names_what_is_missing() -> None:
    async with LoopbackDiscord() as discord:
        bot, home = discord.add_bot("sol"), discord.add_channel("general")
        other = discord.add_channel("private")
        discord.deny(bot.id, home.id, "create_public_threads", "add_reactions")
        discord.deny(bot.id, other.id, "view_channel")
        async with logged_in(discord, bot) as rest:
            found = await channel_access(rest, AccountId(bot.id), PlatformId(home.id), SECONDS)
            with pytest.raises(ChannelRejected):
                await channel_access(rest, AccountId(bot.id), PlatformId(other.id), SECONDS)

    assert found.channel_name == "general"
    assert found.missing == ("Create Public Threads", "Add Reactions")


async def test_sending_works_without_a_gateway() -> None:
    async with LoopbackDiscord() as discord:
        bot, home = discord.add_bot("sol"), discord.add_channel("general")
        async with logged_in(discord, bot) as rest:
            made = await DiscordChannel(rest).create_message(
                PlatformId(home.id), MessageBody("hi"), "n1", SECONDS
            )
            await DiscordChannel(rest).edit_message(
                MessageRef(PlatformId(home.id), made), MessageBody("there"), SECONDS
            )

        assert [one.content for one in discord.messages(home.id)] == ["there"]
        assert not discord.journal.connections


async def test_a_blocked_listener_is_fed_while_a_command_waits() -> None:
    async with LoopbackDiscord() as discord:
        bot, person = discord.add_bot("sol"), discord.add_person("ann")
        home = discord.add_channel("general")
        never = asyncio.Event()

        async def stuck(_command: InboundCommand) -> str:
            await never.wait()
            return ""

        async with listening(discord, bot) as listener:
            listener.answer = stuck
            await _register(discord, listener.client.rest, bot.id)
            await person.slash(home.id, "cancel", bot)
            await until(lambda: listener.commands)
            await person.say(home.id, "meanwhile")

            assert (await listener.next_message()).text == "meanwhile"
