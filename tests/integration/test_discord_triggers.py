"""What else the adapter hears: reactions, roles, other bots by name, and threads it has to join."""

import asyncio

from openab.domain.ids import PlatformId
from openab.domain.message import AuthorKind, InboundMessage, InboundReaction, Place
from openab.simulator.discord import LoopbackDiscord, rate_limited
from tests.fakes.discord_stage import listening, until

GUILD_REACTIONS, DM_REACTIONS = 1 << 10, 1 << 13
Heard = asyncio.Queue[InboundMessage | InboundReaction]


def _everything(_thread: PlatformId, _parent: PlatformId | None) -> bool:
    return True


async def test_reactions_are_heard_in_one_order_with_the_messages() -> None:
    async with LoopbackDiscord() as discord:
        bot, person = discord.add_bot("sol"), discord.add_person("ann")
        home = discord.add_channel("general")
        heard: Heard = asyncio.Queue()
        told = heard.put_nowait
        async with listening(discord, bot, sink=told, on_reaction=told):
            said = await bot.say(home.id, "done")
            await person.react(said, "👍")
            await person.say(home.id, "next")
            await bot.react(said, "🆗")
            first, reaction, message, own = [await heard.get() for _ in range(4)]

    assert isinstance(first, InboundMessage)
    assert isinstance(message, InboundMessage)
    assert isinstance(reaction, InboundReaction)
    assert isinstance(own, InboundReaction)
    assert (reaction.emoji, reaction.is_custom) == ("👍", False)
    assert (reaction.message_id, reaction.message_author) == (said.id, bot.id)
    assert (reaction.author.id, reaction.author.name) == (person.id, "ann")
    assert (reaction.author.kind, own.author.kind) == (AuthorKind.HUMAN, AuthorKind.SELF)
    assert reaction.place is Place.CHANNEL


async def test_a_servers_own_emoji_is_known_as_such_and_a_direct_message_works() -> None:
    async with LoopbackDiscord() as discord:
        bot, person = discord.add_bot("sol"), discord.add_person("ann")
        direct, home = discord.open_dm(person, bot), discord.add_channel("general")
        reactions: asyncio.Queue[InboundReaction] = asyncio.Queue()
        async with listening(discord, bot, on_reaction=reactions.put_nowait):
            await person.react(await person.say(home.id, "hi"), "party:123456")
            await person.react(await person.say(direct.id, "hi"), "👍")
            custom, plain = [await reactions.get() for _ in range(2)]

    assert (custom.is_custom, custom.emoji) == (True, "party")
    assert (plain.place, plain.author.id) == (Place.DM, person.id)


async def test_reactions_are_asked_for_only_where_they_are_wanted() -> None:
    async with LoopbackDiscord() as discord:
        bot = discord.add_bot("sol")
        async with listening(discord, bot):
            pass
        async with listening(discord, bot, on_reaction=lambda _reaction: None):
            pass
        without, with_them = [
            int(one.detail["intents"])
            for one in discord.journal.connections
            if one.step == "identify"
        ]

    assert not without & (GUILD_REACTIONS | DM_REACTIONS)
    assert with_them & (GUILD_REACTIONS | DM_REACTIONS) == GUILD_REACTIONS | DM_REACTIONS


async def test_the_bots_own_role_and_other_bots_are_recognised() -> None:
    async with LoopbackDiscord() as discord:
        bot, other = discord.add_bot("sol"), discord.add_bot("luna")
        person, home = discord.add_person("ann"), discord.add_channel("general")
        async with listening(discord, bot) as listener:
            await person.say(home.id, f"{discord.role_mention(bot)} build it")
            await person.say(home.id, f"{other.mention} {person.mention} build it")
            asked = await other.say(home.id, "what?")
            await person.reply(asked, "no mention, though it pings")
            by_role, by_name, _, reply = [await listener.next_message() for _ in range(4)]

    assert by_role.mentioned_roles == by_role.managed_roles
    assert by_role.managed_roles
    assert by_name.mentioned_bots == {other.id}
    assert reply.mentioned_bots == frozenset()


async def test_threads_are_joined_at_the_start_and_when_they_appear() -> None:
    async with LoopbackDiscord() as discord:
        discord.world.threads_need_membership = True
        bot, person, other = discord.add_bot("sol"), discord.add_person("ann"), discord.add_bot("x")
        home = discord.add_channel("general")
        old = await person.open_thread(await person.say(home.id, "old"), "Old")
        archived = await person.open_thread(await person.say(home.id, "gone"), "Gone")
        await person.archive(archived.id)
        async with listening(discord, bot, wants_thread=_everything) as listener:
            new = await other.open_thread(await other.say(home.id, "new"), "New")
            await until(lambda: {bot.id} <= _members(discord, old.id) & _members(discord, new.id))
            for thread in (old, new):
                await other.say(thread.id, f"{bot.mention} go")
            heard = [await listener.next_message() for _ in range(3)]

        assert [one.text for one in heard if bot.id in one.mentioned_users] == [
            f"<@{bot.id}> go"
        ] * 2
        assert bot.id not in _members(discord, archived.id)


async def test_threads_we_do_not_listen_in_are_left_alone() -> None:
    async with LoopbackDiscord() as discord:
        bot, person = discord.add_bot("sol"), discord.add_person("ann")
        home, other = discord.add_channel("general"), discord.add_channel("other")

        def wants(_thread: PlatformId, parent: PlatformId | None) -> bool:
            return parent == home.id

        foreign = await person.open_thread(await person.say(other.id, "no"), "No")
        ours = await person.open_thread(await person.say(home.id, "yes"), "Yes")
        async with listening(discord, bot, wants_thread=wants):
            late = await person.open_thread(await person.say(other.id, "no"), "No")
            last = await person.open_thread(await person.say(home.id, "yes"), "Yes")
            await until(lambda: {bot.id} <= _members(discord, ours.id) & _members(discord, last.id))

        assert all(bot.id not in _members(discord, one.id) for one in (foreign, late))


async def test_a_join_that_has_to_wait_is_made_later_and_only_once() -> None:
    async with LoopbackDiscord() as discord:
        bot, person = discord.add_bot("sol"), discord.add_person("ann")
        home = discord.add_channel("general")
        thread = await person.open_thread(await person.say(home.id, "old"), "Old")
        discord.faults.add(rate_limited("bucket", 0.2), route="join_thread")
        async with listening(discord, bot, wants_thread=_everything):
            await until(lambda: bot.id in _members(discord, thread.id))
            # Changes of a thread that we know are no reason to join again.
            await person.archive(thread.id)
            await person.say(thread.id, "awake")
            other = await person.open_thread(await person.say(home.id, "new"), "New")
            await until(lambda: bot.id in _members(discord, other.id))

        joins = [one for one in discord.journal.requests if one.route == "join_thread"]
        assert len(joins) == 3


def _members(discord: LoopbackDiscord, thread_id: str) -> set[str]:
    thread = discord.world.channel(thread_id).thread
    assert thread is not None
    return set(thread.members)
