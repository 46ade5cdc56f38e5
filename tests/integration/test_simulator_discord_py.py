"""A real discord.py client, with the slim settings, cannot tell the loopback Discord from Discord."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from io import BytesIO
from typing import Any

import aiohttp
import discord
import pytest
import yarl

from openab.ports.tasks import end, spawn
from openab.simulator.discord import (
    Bot,
    Channel,
    LoopbackDiscord,
    Person,
    commit_then,
    commit_then_drop,
    rate_limited,
    server_error,
)
from openab.simulator.discord.signals import Signal


class Client(discord.Client):
    """The slim client; keeps what it is told."""

    def __init__(self, **options: Any) -> None:
        intents = options.pop("intents", None) or wanted_intents()
        super().__init__(
            intents=intents,
            max_messages=None,
            member_cache_flags=discord.MemberCacheFlags.none(),
            chunk_guilds_at_startup=False,
            allowed_mentions=discord.AllowedMentions.none(),
            guild_ready_timeout=0.05,
            heartbeat_timeout=options.pop("heartbeat_timeout", 60.0),
        )
        self.seen: list[tuple[str, Any]] = []
        self.changed = Signal()
        self.failures: list[BaseException] = []

    def note(self, name: str, value: Any) -> None:
        self.seen.append((name, value))
        self.changed.notify()

    async def on_ready(self) -> None:
        self.note("ready", None)

    async def on_resumed(self) -> None:
        self.note("resumed", None)

    async def on_message(self, message: discord.Message) -> None:
        self.note("message", message)

    async def on_raw_message_edit(self, payload: discord.RawMessageUpdateEvent) -> None:
        self.note("edit", payload)

    async def on_raw_message_delete(self, payload: discord.RawMessageDeleteEvent) -> None:
        self.note("delete", payload)

    async def on_raw_reaction_add(self, payload: discord.RawReactionActionEvent) -> None:
        self.note("reaction", payload)

    async def on_raw_reaction_remove(self, payload: discord.RawReactionActionEvent) -> None:
        self.note("unreaction", payload)

    async def on_thread_create(self, thread: discord.Thread) -> None:
        self.note("thread", thread)

    async def on_raw_thread_update(self, payload: discord.RawThreadUpdateEvent) -> None:
        self.note("thread_update", payload)

    async def on_interaction(self, interaction: discord.Interaction) -> None:
        self.note("interaction", interaction)

    async def on_error(self, event_method: str, /, *args: Any, **kwargs: Any) -> None:
        raise AssertionError(event_method)

    async def wait(self, name: str, fits: Callable[[Any], bool] = lambda value: True) -> Any:
        found = await self.changed.until(
            lambda: [(value,) for seen, value in self.seen if seen == name and fits(value)],
            within=60.0,
            picture=lambda: str([seen for seen, _ in self.seen]),
        )
        return found[0][0]


def wanted_intents() -> discord.Intents:
    intents = discord.Intents.none()
    intents.guilds = intents.guild_messages = intents.dm_messages = True
    intents.message_content = intents.guild_reactions = True
    return intents


class Stage:
    """A world with a bot, a person and a channel."""

    def __init__(self, loopback: LoopbackDiscord) -> None:
        self.discord = loopback
        self.bot: Bot = loopback.add_bot("Sol")
        self.person: Person = loopback.add_person("alice")
        self.channel: Channel = loopback.add_channel("general")

    @asynccontextmanager
    async def client(self, bot: Bot | None = None, **options: Any) -> AsyncIterator[Client]:
        client = Client(**options)
        await client.login((bot or self.bot).token)
        running = spawn("client", client.connect())
        try:
            await client.wait("ready")
            yield client
        finally:
            await client.close()
            with suppress(Exception):
                await end(running)


@pytest.fixture
async def stage(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Stage]:
    async with LoopbackDiscord() as loopback:
        monkeypatch.setattr(discord.http.Route, "BASE", loopback.api_base)
        gateway = yarl.URL(loopback.gateway_url)
        monkeypatch.setattr(discord.gateway.DiscordWebSocket, "DEFAULT_GATEWAY", gateway)
        yield Stage(loopback)


async def test_it_logs_in_and_knows_its_guild(stage: Stage) -> None:
    async with stage.client() as client:
        assert client.user
        assert str(client.user.id) == stage.bot.id
        (guild,) = client.guilds
        assert str(guild.id) == stage.discord.guild.id
        assert [channel.name for channel in guild.text_channels] == ["general"]
        assert guild.self_role is not None
        assert guild.me.guild_permissions.send_messages
        assert not guild.me.guild_permissions.manage_threads
        assert (await client.application_info()).flags.gateway_message_content


async def test_it_hears_people_and_answers_in_a_thread(stage: Stage) -> None:
    async with stage.client() as client:
        said = await stage.person.say(stage.channel.id, f"{stage.bot.mention} build it ")
        heard = await client.wait("message")
        assert heard.content == f"{stage.bot.mention} build it"
        assert heard.raw_mentions == [int(stage.bot.id)]
        assert str(heard.author.id) == stage.person.id
        assert heard.type is discord.MessageType.default
        thread = await heard.create_thread(name="build it")
        assert str(thread.id) == said.id
        sent = await thread.send("on it", nonce="turn-1")
        starter = await client.wait("message", lambda m: m.type.value == 21)
        assert starter.channel.id == thread.id
        echo = await client.wait("message", lambda m: m.id == sent.id)
        assert echo.nonce == "turn-1"
        await sent.edit(content="done")
        edit = await client.wait("edit", lambda payload: payload.message_id == sent.id)
        assert edit.message.content == "done"
        await sent.add_reaction("✅")
        assert str((await client.wait("reaction")).emoji) == "✅"
        shown = stage.discord.messages(said.id)
        assert [message.content for message in shown] == ["done"]
        assert shown[0].contents == ["on it", "done"]
        assert shown[0].reactions == {"✅": [stage.bot.id]}


async def test_replies_history_and_deletion(stage: Stage) -> None:
    async with stage.client() as client:
        said = await stage.person.say(stage.channel.id, "first")
        heard = await client.wait("message")
        answer = await heard.reply("second", mention_author=True)
        assert answer.reference is not None
        assert answer.type is discord.MessageType.reply
        history = [one.content async for one in heard.channel.history(limit=10)]
        assert history == ["second", "first"]
        after = [one.content async for one in heard.channel.history(after=heard)]
        assert after == ["second"]
        assert stage.discord.messages(stage.channel.id)[1].pings == {stage.person.id}
        await answer.delete()
        assert (await client.wait("delete")).message_id == answer.id
        assert stage.discord.messages(stage.channel.id) == [said]


async def test_a_direct_conversation(stage: Stage) -> None:
    async with stage.client() as client:
        dm = stage.discord.open_dm(stage.person, stage.bot)
        await stage.person.say(dm.id, "psst")
        heard = await client.wait("message")
        assert heard.guild is None
        await heard.channel.send("yes?")
        assert [one.content for one in stage.discord.messages(dm.id)] == ["psst", "yes?"]


async def test_a_slash_command_and_a_button(stage: Stage) -> None:
    async with stage.client() as client:
        tree = discord.app_commands.CommandTree(client)

        @tree.command(name="cancel", description="stop")
        async def cancel(interaction: discord.Interaction, why: str) -> None:
            view = discord.ui.View(timeout=None)
            view.add_item(discord.ui.Button(label="Stop", custom_id="stop:1"))
            await interaction.response.send_message(f"cancelled: {why}", view=view)

        await tree.sync()
        pending = await stage.person.slash(stage.channel.id, "cancel", stage.bot, why="late")
        answer = await pending.answer()
        assert answer.type == 4
        assert pending.original
        assert pending.original.content == "cancelled: late"
        client.seen.clear()
        press = await stage.person.click(pending.original, "stop:1")
        interaction = await client.wait("interaction")
        assert interaction.data["custom_id"] == "stop:1"
        await interaction.response.defer()
        assert (await press.answer()).type == 6
        await interaction.edit_original_response(content="stopped", view=None)
        assert stage.discord.messages(stage.channel.id)[0].content == "stopped"
        await interaction.followup.send("for you", ephemeral=True)
        assert press.followups[0].ephemeral_for == stage.person.id
        assert len(stage.discord.messages(stage.channel.id)) == 1


async def test_a_deferred_answer_is_filled_in(stage: Stage) -> None:
    async with stage.client() as client:
        tree = discord.app_commands.CommandTree(client)

        @tree.command(name="think", description="slow")
        async def think(interaction: discord.Interaction) -> None:
            await interaction.response.defer(thinking=True)
            await interaction.edit_original_response(content="thought")

        await tree.sync(guild=None)
        pending = await stage.person.slash(stage.channel.id, "think", stage.bot)
        assert (await pending.answer()).type == 5
        assert await pending.text() == "thought"


async def test_files_go_both_ways(stage: Stage) -> None:
    async with stage.client() as client:
        file = stage.person.attach("notes.txt", b"hello")
        await stage.person.say(stage.channel.id, "", attachments=[file])
        heard = await client.wait("message")
        assert await heard.attachments[0].read() == b"hello"
        await heard.channel.send("see", file=discord.File(BytesIO(b"reply"), filename="a.bin"))
        shown = stage.discord.messages(stage.channel.id)[1]
        assert shown.attachments[0].content == b"reply"


async def test_a_write_limit_is_honoured_without_any_429(stage: Stage) -> None:
    stage.discord.limits.rules["create_message"].seconds = 0.3
    async with stage.client() as client:
        channel = client.get_partial_messageable(int(stage.channel.id))
        for number in range(12):
            await channel.send(str(number))
    answered = [one.status for one in stage.discord.journal.select("create_message")]
    assert answered == [200] * 12


@pytest.mark.parametrize("code", [1000, 4000, 4009])
async def test_a_close_is_followed_by_a_resume_with_what_was_missed(
    stage: Stage, code: int
) -> None:
    async with stage.client() as client:
        stage.discord.gateway.close(stage.bot.id, code)
        await stage.discord.wait_until(lambda: not stage.discord.gateway.of_bot(stage.bot.id))
        await stage.person.say(stage.channel.id, "while you were away")
        assert (await client.wait("message")).content == "while you were away"
        await client.wait("resumed")
        assert len(stage.discord.journal.steps("identify")) == 1


async def test_op7_is_followed_by_a_resume(stage: Stage) -> None:
    async with stage.client() as client:
        stage.discord.gateway.reconnect(stage.bot.id)
        await client.wait("resumed")


async def test_a_lost_session_means_ready_again_and_a_gap_in_the_events(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def at_once(*_: object, **__: object) -> None:
        return None

    async with stage.client() as client:
        monkeypatch.setattr(client, "before_identify_hook", at_once)
        client.seen.clear()
        stage.discord.gateway.forget(stage.bot.id)
        await stage.person.say(stage.channel.id, "nobody hears this")
        stage.discord.gateway.cut(stage.bot.id)
        await client.wait("ready")
        assert [name for name, _ in client.seen if name == "message"] == []
        channel = client.get_partial_messageable(int(stage.channel.id))
        assert [one.content async for one in channel.history()] == ["nobody hears this"]


async def test_a_wrong_token_and_a_refused_intent(stage: Stage) -> None:
    client = Client()
    with pytest.raises(discord.LoginFailure):
        await client.login("wrong")
    await client.close()
    plain = stage.discord.add_bot("plain", message_content=False)
    refused = Client()
    await refused.login(plain.token)
    with pytest.raises(discord.PrivilegedIntentsRequired):
        await refused.connect()
    await refused.close()


async def test_without_the_intent_only_mentions_own_messages_and_dms_have_content(
    stage: Stage,
) -> None:
    intents = wanted_intents()
    intents.message_content = False
    async with stage.client(intents=intents) as client:
        await stage.person.say(stage.channel.id, "secret")
        await stage.person.say(stage.channel.id, f"{stage.bot.mention} open")
        open_one = await client.wait("message", lambda m: bool(m.raw_mentions))
        contents = [message.content for name, message in client.seen if name == "message"]
        assert contents == ["", open_one.content]


async def test_archived_threads_are_absent_and_come_back_when_somebody_speaks(
    stage: Stage,
) -> None:
    said = await stage.person.say(stage.channel.id, "old")
    thread = await stage.person.open_thread(said, "old thread")
    await stage.person.archive(thread.id)
    async with stage.client() as client:
        assert list(client.guilds[0].threads) == []
        await stage.person.say(thread.id, "hello again")
        assert (await client.wait("message")).channel.id == int(thread.id)
        update = await client.wait("thread_update")
        assert update.data["thread_metadata"]["archived"] is False


async def test_poison_kills_the_connection_but_not_the_double(stage: Stage) -> None:
    client = Client()
    await client.login(stage.bot.token)
    running = spawn("poisoned", client.connect())
    await client.wait("ready")
    stage.discord.gateway.poison(stage.bot.id)
    with pytest.raises(KeyError):
        await asyncio.wait_for(running, 60)
    assert not client.is_closed()
    await client.close()
    async with stage.client() as again:
        await stage.person.say(stage.channel.id, "still there")
        assert (await again.wait("message")).content == "still there"


async def test_two_bots_race_for_one_thread(stage: Stage) -> None:
    luna = stage.discord.add_bot("Luna")
    async with stage.client() as first, stage.client(luna) as second:
        await stage.person.say(stage.channel.id, "both")
        heard = [await first.wait("message"), await second.wait("message")]
        outcomes = await asyncio.gather(
            *[message.create_thread(name="race") for message in heard], return_exceptions=True
        )
        refusals = [one for one in outcomes if isinstance(one, discord.HTTPException)]
        assert [one.code for one in refusals] == [160004]


async def test_an_edit_reaches_no_ping_and_a_bot_hears_it_only_as_an_edit(stage: Stage) -> None:
    luna = stage.discord.add_bot("Luna")
    async with stage.client() as sol, stage.client(luna) as heard_by_luna:
        channel = sol.get_partial_messageable(int(stage.channel.id))
        sent = await channel.send("...")
        everyone = discord.AllowedMentions(users=True, everyone=True, roles=True)
        await sent.edit(content=f"{luna.mention} {stage.person.mention}", allowed_mentions=everyone)
        edit = await heard_by_luna.wait("edit")
        assert int(luna.id) in edit.message.raw_mentions
        shown = stage.discord.messages(stage.channel.id)[0]
        assert set(shown.mention_ids) == {luna.id, stage.person.id}
        assert shown.pings == frozenset()


async def test_a_commit_then_502_is_retried_into_one_message(stage: Stage) -> None:
    handle = stage.discord.faults.add(commit_then(502), route="create_message")
    async with stage.client() as client:
        await client.get_partial_messageable(int(stage.channel.id)).send("once")
    assert handle.hits == 1
    assert [one.content for one in stage.discord.messages(stage.channel.id)] == ["once"]
    assert [one.nonce_hit for one in stage.discord.journal.select("create_message")] == [
        False,
        True,
    ]


async def test_a_commit_then_drop_is_unknown_to_the_client(stage: Stage) -> None:
    stage.discord.faults.add(commit_then_drop(), route="create_message")
    async with stage.client() as client:
        with pytest.raises(aiohttp.ClientError):
            await client.get_partial_messageable(int(stage.channel.id)).send("once")
    assert [one.content for one in stage.discord.messages(stage.channel.id)] == ["once"]


@pytest.mark.parametrize("kind", ["bucket", "sub_limit", "global"])
async def test_every_honest_429_is_waited_out(stage: Stage, kind: Any) -> None:
    handle = stage.discord.faults.add(rate_limited(kind, 0.2), route="create_message")
    async with stage.client() as client:
        await client.get_partial_messageable(int(stage.channel.id)).send("once")
    first, second = stage.discord.journal.select("create_message")
    assert handle.hits == 1
    assert second.at - first.at >= 0.2


async def test_a_429_without_via_and_a_503_are_raised_at_once(stage: Stage) -> None:
    stage.discord.faults.add(rate_limited("no_via"), route="create_message")
    stage.discord.faults.add(server_error(503), route="create_message")
    async with stage.client() as client:
        channel = client.get_partial_messageable(int(stage.channel.id))
        for status in (429, 503):
            with pytest.raises(discord.HTTPException) as refusal:
                await channel.send("once")
            assert refusal.value.status == status
    assert stage.discord.messages(stage.channel.id) == []


async def test_missing_acknowledgements_and_silence_end_in_a_resume(stage: Stage) -> None:
    stage.discord.gateway.heartbeat_seconds = 0.2
    async with stage.client(heartbeat_timeout=0.7) as client:
        stage.discord.faults.unacknowledged.add(stage.bot.id)
        await stage.discord.wait_until(lambda: stage.discord.journal.steps("resume"))
        stage.discord.faults.unacknowledged.clear()
        await stage.discord.wait_connected(stage.bot)
        resumed = len(stage.discord.journal.steps("resume"))
        stage.discord.gateway.silence(stage.bot.id)
        await stage.person.say(stage.channel.id, "unheard, then replayed")
        heard = await client.wait("message")
        assert heard.content == "unheard, then replayed"
        assert len(stage.discord.journal.steps("resume")) > resumed


async def test_op9_false_means_ready_again(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    async def at_once(*_: object, **__: object) -> None:
        return None

    async with stage.client() as client:
        monkeypatch.setattr(client, "before_identify_hook", at_once)
        client.seen.clear()
        stage.discord.gateway.invalidate(stage.bot.id, resumable=False)
        await client.wait("ready")
        await stage.person.say(stage.channel.id, "hello again")
        assert (await client.wait("message")).content == "hello again"
