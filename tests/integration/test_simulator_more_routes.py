"""The loopback Discord's lesser routes: guilds, members, threads, reactions, webhooks, odd frames."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest

from openab.ports.tasks import spawn
from openab.simulator.discord import LoopbackDiscord, hang


class Api:
    """A plain HTTP client with a bot's token, in a world with one person and one channel."""

    def __init__(self, discord: LoopbackDiscord, session: aiohttp.ClientSession) -> None:
        self.discord, self.http = discord, session
        self.bot = discord.add_bot("Sol")
        self.person = discord.add_person("alice")
        self.channel = discord.add_channel("general")
        discord.limits.enabled = False

    async def call(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        headers = {"Authorization": f"Bot {self.bot.token}"}
        url = self.discord.api_base + path
        async with self.http.request(method, url, json=body, headers=headers) as reply:
            return reply.status, await reply.json() if reply.status != 204 else None

    def at(self, rest: str = "") -> str:
        return f"/channels/{self.channel.id}{rest}"


@pytest.fixture
async def api() -> AsyncIterator[Api]:
    async with LoopbackDiscord() as discord, aiohttp.ClientSession() as session:
        yield Api(discord, session)


async def test_guilds_members_and_users(api: Api) -> None:
    guild = api.discord.guild
    elsewhere = api.discord.add_guild("Elsewhere", everybody=False)
    assert [one["id"] for one in (await api.call("GET", "/users/@me/guilds"))[1]] == [guild.id]
    path = f"/guilds/{guild.id}"
    assert (await api.call("GET", path))[1]["name"] == "Loopback"
    channels = (await api.call("GET", path + "/channels"))[1]
    assert [one["name"] for one in channels] == ["general"]
    names = {one["name"] for one in (await api.call("GET", path + "/roles"))[1]}
    assert names == {"@everyone", "Sol"}
    me = (await api.call("GET", path + "/members/@me"))[1]
    assert me["user"]["id"] == api.bot.id
    assert (await api.call("GET", path + "/members/5"))[1]["code"] == 10007
    assert (await api.call("GET", "/guilds/5"))[1]["code"] == 10004
    assert (await api.call("GET", f"/guilds/{elsewhere.id}"))[1]["code"] == 50001
    alice = (await api.call("GET", f"/users/{api.person.id}"))[1]
    assert (alice["username"], alice["bot"]) == ("alice", False)
    assert (await api.call("GET", "/users/5"))[1]["code"] == 10013


async def test_direct_conversations(api: Api) -> None:
    body = {"recipient_id": api.person.id}
    first = (await api.call("POST", "/users/@me/channels", body))[1]
    assert (await api.call("POST", "/users/@me/channels", body))[1]["id"] == first["id"]
    assert [one["id"] for one in first["recipients"]] == [api.person.id]
    assert (await api.call("POST", "/users/@me/channels", {"recipient_id": "5"}))[0] == 404
    said = await api.person.say(first["id"], "hi")
    path = f"/channels/{first['id']}/messages/{said.id}"
    assert (await api.call("DELETE", path))[1]["code"] == 50003
    assert (await api.call("PATCH", f"/channels/{first['id']}", {"name": "x"}))[1]["code"] == 50003
    stranger = api.discord.add_bot("Luna")
    assert not api.discord.world.sees(stranger.id, api.discord.world.channel(first["id"]))


async def test_a_thread_without_a_message_and_its_members(api: Api) -> None:
    status, thread = await api.call("POST", api.at("/threads"), {"name": "loose"})
    assert status == 201
    (told,) = api.discord.messages(api.channel.id, system=True)
    assert (told.type, told.content) == (18, "loose")
    assert api.discord.messages(api.channel.id) == []
    members = f"/channels/{thread['id']}/thread-members"
    assert [one["user_id"] for one in (await api.call("GET", members))[1]] == [api.bot.id]
    assert (await api.call("DELETE", members + "/@me"))[0] == 204
    assert (await api.call("GET", members + "/@me"))[1]["code"] == 10013
    assert (await api.call("PUT", members + "/@me"))[0] == 204
    assert (await api.call("GET", members + "/@me"))[1]["user_id"] == api.bot.id
    assert (await api.call("PUT", f"{members}/{api.person.id}"))[0] == 204
    assert (await api.call("PUT", api.at("/thread-members/@me")))[1]["code"] == 50024
    nested = f"/channels/{thread['id']}/threads"
    assert (await api.call("POST", nested, {"name": "deeper"}))[1]["code"] == 50024
    guild = f"/guilds/{api.discord.guild.id}/threads/active"
    assert [one["id"] for one in (await api.call("GET", guild))[1]["threads"]] == [thread["id"]]
    assert [one.id for one in api.discord.threads(api.channel.id)] == [thread["id"]]


async def test_who_may_change_a_thread(api: Api) -> None:
    said = await api.person.say(api.channel.id, "start")
    await api.person.open_thread(said, "t")
    path = f"/channels/{said.id}"
    assert (await api.call("PATCH", path, {"name": "mine?"}))[1]["code"] == 50013
    api.discord.grant(api.bot.id, api.channel.id, "manage_threads")
    changes = {"name": "ours", "locked": True, "auto_archive_duration": 60}
    changed = (await api.call("PATCH", path, changes))[1]
    assert (changed["name"], changed["thread_metadata"]["locked"]) == ("ours", True)
    assert (await api.call("PATCH", path, {"archived": True}))[0] == 200
    assert (await api.call("PATCH", path, {"name": "late"}))[1]["code"] == 50083
    assert (await api.call("PATCH", path, {"name": ""}))[1]["code"] == 50035
    assert (await api.call("DELETE", path))[0] == 200
    assert (await api.call("GET", path))[1]["code"] == 10003


async def test_who_may_change_a_channel(api: Api) -> None:
    assert (await api.call("PATCH", api.at(), {"name": "x"}))[1]["code"] == 50013
    api.discord.grant(api.bot.id, api.channel.id, "manage_channels")
    assert (await api.call("PATCH", api.at(), {"name": "x"}))[1]["name"] == "x"
    overwrite = (await api.call("GET", api.at()))[1]["permission_overwrites"][0]
    assert (overwrite["id"], overwrite["allow"]) == (api.bot.id, str(1 << 4))
    assert (await api.call("DELETE", api.at()))[0] == 200


async def test_reactions_one_by_one_and_all(api: Api) -> None:
    said = await api.person.say(api.channel.id, "x")
    await api.person.react(said, "👍")
    path = api.at(f"/messages/{said.id}/reactions")
    assert (await api.call("PUT", f"{path}/👍/@me"))[0] == 204
    assert (await api.call("PUT", f"{path}/👍/@me"))[0] == 204
    who = [one["id"] for one in (await api.call("GET", f"{path}/👍"))[1]]
    assert who == [api.person.id, api.bot.id]
    shown = (await api.call("GET", api.at(f"/messages/{said.id}")))[1]["reactions"]
    assert [(one["count"], one["me"]) for one in shown] == [(2, True)]
    assert (await api.call("DELETE", f"{path}/👍/@me"))[0] == 204
    assert (await api.call("DELETE", f"{path}/👍/@me"))[1]["code"] == 10014
    assert (await api.call("DELETE", f"{path}/👍/{api.person.id}"))[1]["code"] == 50013
    api.discord.grant(api.bot.id, api.channel.id, "manage_messages")
    assert (await api.call("DELETE", f"{path}/👍/{api.person.id}"))[0] == 204
    await api.person.react(said, "🎉")
    assert (await api.call("DELETE", path))[0] == 204
    assert said.reactions == {}
    api.discord.deny(api.bot.id, api.channel.id, "add_reactions")
    assert (await api.call("PUT", f"{path}/👍/@me"))[1]["code"] == 50013


async def test_typing_and_history_need_their_rights(api: Api) -> None:
    await api.person.say(api.channel.id, "x")
    assert (await api.call("POST", api.at("/typing")))[0] == 204
    assert (await api.call("GET", api.at("/messages?limit=101")))[1]["code"] == 50035
    assert (await api.call("GET", api.at("/messages?after=x")))[1]["code"] == 50035
    reply = {"content": "r", "message_reference": {"message_id": "5"}}
    api.discord.deny(api.bot.id, api.channel.id, "read_message_history")
    assert (await api.call("GET", api.at("/messages")))[1] == []
    assert (await api.call("POST", api.at("/messages"), reply))[1]["code"] == 160002


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({"content": ["x"]}, 50035),
        ({"content": "x", "flags": "many"}, 50035),
        ({"content": "x", "allowed_mentions": []}, 50035),
        ({"content": "x", "embeds": "none"}, 50035),
        ({"content": "x", "message_reference": {}}, 50035),
        (
            {
                "content": "x",
                "components": [{"type": 1, "components": [{"type": 2, "custom_id": "c" * 101}]}],
            },
            50035,
        ),
        ("text", 50035),
    ],
)
async def test_wrong_types_are_refused_by_field(api: Api, body: Any, code: int) -> None:
    status, answer = await api.call("POST", api.at("/messages"), body)
    assert (status, answer["code"]) == (400, code)


async def test_a_body_that_is_no_json(api: Api) -> None:
    headers = {"Authorization": f"Bot {api.bot.token}", "Content-Type": "application/json"}
    url = api.discord.api_base + api.at("/messages")
    async with api.http.post(url, data=b"{", headers=headers) as reply:
        assert (await reply.json())["code"] == 50109


async def test_what_an_edit_leaves_and_takes(api: Api) -> None:
    body = {"content": "x", "embeds": [{"title": "t"}], "flags": 1 << 12}
    made = (await api.call("POST", api.at("/messages"), body))[1]
    path = api.at(f"/messages/{made['id']}")
    assert (await api.call("PATCH", path, {"content": None}))[1]["content"] == ""
    assert (await api.call("PATCH", path, {"embeds": []}))[1]["code"] == 50006
    flagged = (await api.call("PATCH", path, {"flags": (1 << 2) | (1 << 12)}))[1]
    assert flagged["flags"] == (1 << 2) | (1 << 12)
    unflagged = (await api.call("PATCH", path, {"flags": 0}))[1]
    assert unflagged["flags"] == 1 << 12
    said = await api.person.say(api.channel.id, "y")
    await api.person.unreact(await _reacted(api, said), "👍")
    with pytest.raises(KeyError):
        api.discord.messages("5")


async def _reacted(api: Api, said: Any) -> Any:
    await api.person.react(said, "👍")
    return said


async def test_commands_are_added_replaced_and_scoped(api: Api) -> None:
    path = f"/applications/{api.bot.id}/commands"
    guild = f"/applications/{api.bot.id}/guilds/{api.discord.guild.id}/commands"
    first = (await api.call("POST", path, {"name": "go", "description": "a"}))[1]
    assert (await api.call("POST", path, {"name": "go", "description": "b"}))[0] == 201
    assert [one["description"] for one in (await api.call("GET", path))[1]] == ["b"]
    kept = (await api.call("PUT", guild, [{"name": "here", "description": "c"}]))[1]
    again = (await api.call("PUT", guild, [{"name": "here", "description": "d"}]))[1]
    assert kept[0]["id"] == again[0]["id"] != first["id"]
    pending = await api.person.slash(api.channel.id, "here", api.bot, count=3)
    assert pending.callback is None
    assert (await api.call("PUT", path, {"name": "go"}))[1]["code"] == 50035
    assert (await api.call("POST", path, {"name": ""}))[1]["code"] == 50035
    many = [{"name": f"c{n}", "description": "x"} for n in range(101)]
    assert (await api.call("PUT", path, many))[1]["code"] == 50035
    assert (await api.call("GET", "/applications/5/commands"))[1]["code"] == 50001


async def test_webhooks_live_in_their_channel_and_its_threads(api: Api) -> None:
    api.discord.grant(api.bot.id, api.channel.id, "manage_webhooks")
    hook = (await api.call("POST", api.at("/webhooks"), {"name": "hook"}))[1]
    assert [one["id"] for one in (await api.call("GET", api.at("/webhooks")))[1]] == [hook["id"]]
    path = f"/webhooks/{hook['id']}/{hook['token']}"
    assert (await api.call("GET", path))[1]["name"] == "hook"
    said = await api.person.say(api.channel.id, "start")
    await api.person.open_thread(said, "t")
    into = f"{path}?wait=true&thread_id={said.id}"
    posted = (await api.call("POST", into, {"content": "in", "username": "Face"}))[1]
    assert (posted["channel_id"], posted["author"]["username"]) == (said.id, "Face")
    message = f"{path}/messages/{posted['id']}?thread_id={said.id}"
    assert (await api.call("GET", message))[1]["content"] == "in"
    assert (await api.call("DELETE", message))[0] == 204
    assert (await api.call("GET", message))[1]["code"] == 10008
    foreign = f"{path}/messages/{said.id}"
    assert (await api.call("PATCH", foreign, {"content": "x"}))[1]["code"] == 50005
    other = api.discord.add_channel("other")
    wrong = f"{path}?thread_id={other.id}"
    assert (await api.call("POST", wrong, {"content": "x"}))[1]["code"] == 10003
    assert (await api.call("DELETE", path))[0] == 204
    assert (await api.call("POST", path, {"content": "x"}))[1]["code"] == 10015
    for _ in range(15):
        await api.call("POST", api.at("/webhooks"), {"name": "hook"})
    assert (await api.call("POST", api.at("/webhooks"), {"name": "hook"}))[1]["code"] == 30007


async def test_a_scripted_webhook_speaks_as_itself(api: Api) -> None:
    hook = api.discord.add_webhook(api.channel.id, "ci")
    said = await hook.say(f"{api.bot.mention} @everyone", username="build")
    assert (said.author.name, said.webhook_id) == ("build", hook.webhook.id)
    assert said.author.is_bot
    assert (said.pings, said.mention_everyone) == (frozenset({api.bot.id}), False)


async def test_a_button_in_an_archived_thread_never_reaches_its_bot(api: Api) -> None:
    said = await api.person.say(api.channel.id, "start")
    await api.person.open_thread(said, "t")
    row = {"type": 1, "components": [{"type": 2, "style": 4, "label": "s", "custom_id": "s"}]}
    shown = await api.bot.say(said.id, "working", components=[row])
    await api.person.archive(said.id)
    names: list[str] = []
    api.discord.world.subscribe(lambda event: names.append(event.name))
    await api.person.click(shown, "s")
    assert names == []


async def test_a_file_that_is_not_there(api: Api) -> None:
    async with api.http.get(f"{api.discord.world.cdn}/attachments/1/2/x.txt") as reply:
        assert reply.status == 404


@pytest.mark.parametrize(
    ("frames", "code"),
    [
        (["nonsense"], 4002),
        (["[1]"], 4002),
        (['{"op": 99, "d": null}'], 4001),
        (['{"op": 6, "d": {"token": "x", "session_id": "y", "seq": 1}}'], 4004),
    ],
)
async def test_frames_that_close_a_socket(api: Api, frames: list[str], code: int) -> None:
    async with api.http.ws_connect(api.discord.gateway_url) as ws:
        await ws.receive_json()
        for frame in frames:
            await ws.send_str(frame)
        while not ws.closed:
            await ws.receive(timeout=60)
        assert ws.close_code == code


async def test_leaving_the_block_ends_what_hangs() -> None:
    async with aiohttp.ClientSession() as session:
        async with LoopbackDiscord() as discord:
            api = Api(discord, session)
            handle = discord.faults.add(hang(600, commit="never"), route="create_message")
            pending = spawn("hangs", api.call("POST", api.at("/messages"), {"content": "x"}))
            await handle.wait_hits()
        with pytest.raises(aiohttp.ClientError):
            await asyncio.wait_for(pending, 60)
    assert discord.messages(api.channel.id) == []


async def test_a_bot_reads_and_deletes_its_webhook_by_its_id(api: Api) -> None:
    made = api.discord.add_webhook(api.channel.id, "hook").webhook
    path = f"/webhooks/{made.id}"
    assert (await api.call("GET", path))[1]["code"] == 50013
    api.discord.grant(api.bot.id, api.channel.id, "manage_webhooks")
    assert (await api.call("GET", path))[1]["token"] == made.token
    api.discord.rotate_webhook(made.id)
    assert (await api.call("GET", path))[1]["token"] == made.token
    assert (await api.call("DELETE", path))[0] == 204
    assert (await api.call("GET", path))[1]["code"] == 10015
    assert (await api.call("GET", "/webhooks/5"))[1]["code"] == 10015


async def test_the_secret_of_another_bots_webhook_is_not_shown(api: Api) -> None:
    api.discord.grant(api.bot.id, api.channel.id, "manage_webhooks")
    mine = (await api.call("POST", api.at("/webhooks"), {"name": "mine"}))[1]
    assert (mine["application_id"], mine["user"]["id"]) == (api.bot.id, api.bot.id)
    api.discord.world.webhooks[mine["id"]].application_id = "5"
    (listed,) = (await api.call("GET", api.at("/webhooks")))[1]
    assert "token" in mine
    assert "token" not in listed


async def test_a_rotated_secret_and_a_refused_name(api: Api) -> None:
    api.discord.grant(api.bot.id, api.channel.id, "manage_webhooks")
    hook = (await api.call("POST", api.at("/webhooks"), {"name": "hook"}))[1]
    path = f"/webhooks/{hook['id']}/{hook['token']}"
    for name in ("Clyde", "my discord", "", "x" * 81):
        assert (await api.call("POST", api.at("/webhooks"), {"name": name}))[1]["code"] == 50035
    for name in ("Clyde", "x" * 81):
        body = {"content": "x", "username": name}
        assert (await api.call("POST", path, body))[1]["code"] == 50035
    api.discord.rotate_webhook(hook["id"])
    assert (await api.call("POST", path, {"content": "x"}))[1]["code"] == 50027
    assert hook["token"] not in str(api.discord.journal.requests)


async def test_a_moderator_locks_and_reopens_a_thread(api: Api) -> None:
    said = await api.person.say(api.channel.id, "start")
    thread = (await api.person.open_thread(said, "t")).thread
    assert thread is not None
    await api.person.lock(said.id)
    assert (thread.archived, thread.locked) == (False, True)
    await api.person.archive(said.id, locked=True)
    await api.person.unarchive(said.id)
    assert (thread.archived, thread.locked) == (False, False)
