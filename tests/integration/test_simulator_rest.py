"""The loopback Discord's REST answers: codes, bodies, limits, nonces and scripted faults."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest

from openab.simulator.discord import (
    LoopbackDiscord,
    commit_then,
    commit_then_drop,
    drop_before_commit,
    hang,
    rate_limited,
    refuse,
    server_error,
)


class Api:
    """A plain HTTP client with a bot's token."""

    def __init__(self, discord: LoopbackDiscord, session: aiohttp.ClientSession) -> None:
        self.discord, self._session = discord, session
        self.bot = discord.add_bot("Sol", token="sol-token")
        self.person = discord.add_person("alice")
        self.channel = discord.add_channel("general")
        self.token = "sol-token"

    async def call(self, method: str, path: str, body: Any = None) -> tuple[int, Any, Any]:
        headers = {"Authorization": f"Bot {self.token}"}
        url = self.discord.api_base + path
        async with self._session.request(method, url, json=body, headers=headers) as reply:
            shape = await reply.json() if reply.status != 204 else None
            return reply.status, shape, reply.headers

    async def post(self, body: Any, channel_id: str = "") -> tuple[int, Any, Any]:
        home = channel_id or self.channel.id
        return await self.call("POST", f"/channels/{home}/messages", body)


@pytest.fixture
async def api() -> AsyncIterator[Api]:
    async with LoopbackDiscord() as discord, aiohttp.ClientSession() as session:
        yield Api(discord, session)


async def test_a_strange_token_and_a_strange_path(api: Api) -> None:
    status, body, headers = await api.call("GET", "/users/@me")
    assert (status, body["id"]) == (200, api.bot.id)
    assert headers["Content-Type"] == "application/json"
    assert headers["Date"].endswith("GMT")
    assert (await api.call("GET", "/no/such"))[0] == 404
    api.token = "wrong"
    status, body, _ = await api.call("GET", "/users/@me")
    assert (status, body) == (401, {"message": "401: Unauthorized", "code": 0})
    assert api.discord.journal.requests[-1].bot_id is None


@pytest.mark.parametrize(
    ("body", "code", "path", "text"),
    [
        ({"content": "a" * 2001}, 50035, "content", "Must be 2000 or fewer in length."),
        ({"content": "𝄞" * 2001}, 50035, "content", "Must be 2000 or fewer in length."),
        ({"content": "a" * 4001}, 50035, "content", "Must be 4000 or fewer in length."),
        ({"content": "x", "nonce": "n" * 26}, 50035, "nonce", "Must be 25 or fewer in length."),
        ({"content": " \n "}, 50006, "", ""),
        ({"content": "x", "allowed_mentions": {"parse": ["users"], "users": ["5"]}}, 50035, "", ""),
        ({"content": "x", "message_reference": {"message_id": "5"}}, 50035, "", "Unknown message"),
    ],
)
async def test_wrong_forms(api: Api, body: Any, code: int, path: str, text: str) -> None:
    status, answer, _ = await api.post(body)
    assert (status, answer["code"]) == (400, code)
    if path:
        assert answer["errors"][path]["_errors"][0]["message"] == text
    assert api.discord.messages(api.channel.id) == []


async def test_two_thousand_astral_characters_fit_and_ends_are_trimmed(api: Api) -> None:
    status, answer, _ = await api.post({"content": "  " + "𝄞" * 1996 + "\n "})
    assert status == 200
    assert answer["content"] == "𝄞" * 1996
    assert (await api.post({"content": "𝄞" * 2000}))[0] == 200


async def test_a_dangling_reply_is_sent_without_its_reference_when_asked_to(api: Api) -> None:
    reference = {"message_id": "5", "fail_if_not_exists": False}
    status, answer, _ = await api.post({"content": "x", "message_reference": reference})
    assert (status, answer["type"]) == (200, 0)
    assert "message_reference" not in answer


async def test_a_reply_into_another_channel_is_refused(api: Api) -> None:
    other = api.discord.add_channel("other")
    said = await api.person.say(other.id, "there")
    reference = {"message_id": said.id, "channel_id": other.id}
    _, answer, _ = await api.post({"content": "x", "message_reference": reference})
    error = answer["errors"]["message_reference"]["_errors"][0]
    assert error["code"] == "REPLIES_CANNOT_REFERENCE_OTHER_CHANNEL"


async def test_gone_channels_and_messages(api: Api) -> None:
    assert (await api.post({"content": "x"}, channel_id="77"))[1]["code"] == 10003
    path = f"/channels/{api.channel.id}/messages/77"
    assert (await api.call("PATCH", path, {"content": "x"}))[1]["code"] == 10008
    assert (await api.call("DELETE", path))[1]["code"] == 10008
    assert (await api.call("GET", "/channels/nonsense"))[1]["code"] == 50035


async def test_missing_access_and_missing_permissions(api: Api) -> None:
    api.discord.deny(api.bot.id, api.channel.id, "send_messages")
    status, answer, _ = await api.post({"content": "x"})
    assert (status, answer["code"]) == (403, 50013)
    api.discord.deny(api.bot.id, api.channel.id, "view_channel")
    assert (await api.post({"content": "x"}))[1]["code"] == 50001
    said = await api.person.say(api.channel.id, "mine")
    api.discord.grant(api.bot.id, api.channel.id, "view_channel")
    path = f"/channels/{api.channel.id}/messages/{said.id}"
    assert (await api.call("PATCH", path, {"content": "x"}))[1]["code"] == 50005
    assert (await api.call("DELETE", path))[1]["code"] == 50013


async def test_a_thread_shares_its_starters_id_and_there_is_only_one(api: Api) -> None:
    said = await api.person.say(api.channel.id, "start")
    path = f"/channels/{api.channel.id}/messages/{said.id}/threads"
    status, thread, _ = await api.call("POST", path, {"name": "t"})
    assert (status, thread["id"], thread["parent_id"]) == (201, said.id, api.channel.id)
    assert (await api.call("POST", path, {"name": "t"}))[1]["code"] == 160004
    wrong = {"name": "t", "auto_archive_duration": 5}
    assert (await api.call("POST", path, wrong))[1]["code"] == 50035


async def test_archived_and_locked_threads(api: Api) -> None:
    said = await api.person.say(api.channel.id, "start")
    await api.person.open_thread(said, "t")
    _, mine, _ = await api.post({"content": "x"}, said.id)
    await api.person.archive(said.id)
    edit = f"/channels/{said.id}/messages/{mine['id']}"
    assert (await api.call("PATCH", edit, {"content": "y"}))[1]["code"] == 50083
    assert (await api.call("PUT", edit + "/reactions/✅/@me"))[1]["code"] == 50083
    guild = api.discord.guild.id
    assert (await api.call("GET", f"/guilds/{guild}/threads/active"))[1]["threads"] == []
    archived = (await api.call("GET", f"/channels/{api.channel.id}/threads/archived/public"))[1]
    assert [one["id"] for one in archived["threads"]] == [said.id]
    assert (await api.call("PATCH", f"/channels/{said.id}", {"archived": False}))[0] == 200
    assert (await api.call("PATCH", edit, {"content": "y"}))[0] == 200
    await api.person.archive(said.id)
    assert (await api.post({"content": "wakes it"}, said.id))[0] == 200
    assert (await api.call("GET", f"/channels/{said.id}"))[1]["thread_metadata"][
        "archived"
    ] is False
    await api.person.archive(said.id, locked=True)
    assert (await api.post({"content": "x"}, said.id))[1]["code"] == 160005
    refusal = (await api.call("PATCH", f"/channels/{said.id}", {"archived": False}))[1]
    assert refusal["code"] == 50013


async def test_five_writes_in_five_seconds_then_an_honest_429(api: Api) -> None:
    _, made, headers = await api.post({"content": "0"})
    assert (headers["X-RateLimit-Limit"], headers["X-RateLimit-Remaining"]) == ("5", "4")
    path = f"/channels/{api.channel.id}/messages/{made['id']}"
    for number in range(4):
        assert (await api.call("PATCH", path, {"content": str(number)}))[0] == 200
    status, body, headers = await api.post({"content": "6"})
    assert (status, body["global"]) == (429, False)
    assert 0 < body["retry_after"] <= 5.01
    assert headers["Via"]
    api.discord.clock.advance(5.1)
    assert (await api.post({"content": "6"}))[0] == 200
    api.discord.limits.enabled = False
    assert {(await api.post({"content": "x"}))[0] for _ in range(8)} == {200}


async def test_a_thread_is_renamed_at_most_twice_in_ten_minutes(api: Api) -> None:
    said = await api.person.say(api.channel.id, "start")
    await api.call("POST", f"/channels/{api.channel.id}/messages/{said.id}/threads", {"name": "t"})
    path = f"/channels/{said.id}"
    renames = [(await api.call("PATCH", path, {"name": f"n{n}"}))[0] for n in range(3)]
    assert renames == [200, 200, 429]


async def test_the_fifty_first_request_in_a_second_is_a_global_429(api: Api) -> None:
    answers = [await api.call("GET", "/users/@me") for _ in range(51)]
    assert [status for status, _, _ in answers[:50]] == [200] * 50
    status, body, headers = answers[50]
    assert (status, body["global"], headers["X-RateLimit-Scope"]) == (429, True, "global")


async def test_a_nonce_names_one_message_within_its_window(api: Api) -> None:
    body = {"content": "once", "nonce": "n1", "enforce_nonce": True}
    _, first, _ = await api.post(body)
    _, second, _ = await api.post(body)
    assert first["id"] == second["id"]
    assert first["nonce"] == "n1"
    assert [one.committed for one in api.discord.journal.select("create_message")] == [True, False]
    path = f"/channels/{api.channel.id}/messages/{first['id']}"
    await api.call("DELETE", path)
    assert (await api.post(body))[1]["code"] == 10008
    api.discord.clock.advance(api.discord.nonces.window_seconds + 1)
    assert (await api.post(body))[1]["id"] != first["id"]


async def test_a_nonce_belongs_to_its_author_and_is_enforced_only_when_asked(api: Api) -> None:
    body = {"content": "once", "nonce": "n1", "enforce_nonce": True}
    await api.post(body)
    api.discord.add_bot("Luna", token="luna-token")
    api.token = "luna-token"
    await api.post(body)
    await api.post({"content": "once", "nonce": "n1"})
    assert len(api.discord.messages(api.channel.id)) == 3


async def test_without_the_nonce_rule_the_same_create_makes_two_messages(api: Api) -> None:
    api.discord.nonces.enabled = False
    body = {"content": "once", "nonce": "n1", "enforce_nonce": True}
    assert (await api.post(body))[1]["id"] != (await api.post(body))[1]["id"]


async def test_a_message_in_an_archived_thread_can_be_deleted_and_wakes_nothing(api: Api) -> None:
    said = await api.person.say(api.channel.id, "start")
    thread = await api.person.open_thread(said, "t")
    _, mine, _ = await api.post({"content": "x"}, said.id)
    await api.person.archive(said.id)
    assert (await api.call("DELETE", f"/channels/{said.id}/messages/{mine['id']}"))[0] == 204
    assert thread.thread
    assert thread.thread.archived
    assert api.discord.messages(said.id) == []


async def test_old_messages_are_edited_only_so_often(api: Api) -> None:
    _, made, _ = await api.post({"content": "0"})
    path = f"/channels/{api.channel.id}/messages/{made['id']}"
    api.discord.clock.advance(3700)
    api.discord.limits.old_message_edits = 1
    assert (await api.call("PATCH", path, {"content": "1"}))[0] == 200
    status, body, _ = await api.call("PATCH", path, {"content": "2"})
    assert (status, body["code"]) == (429, 30046)


async def test_history_is_paged_around_before_and_after(api: Api) -> None:
    said = [await api.person.say(api.channel.id, str(n)) for n in range(5)]
    path = f"/channels/{api.channel.id}/messages"

    async def contents(query: str) -> list[str]:
        return [one["content"] for one in (await api.call("GET", path + query))[1]]

    assert await contents("?limit=2") == ["4", "3"]
    assert await contents(f"?before={said[2].id}") == ["1", "0"]
    assert await contents(f"?after={said[1].id}&limit=2") == ["3", "2"]
    assert await contents(f"?around={said[2].id}&limit=3") == ["3", "2", "1"]


@pytest.mark.parametrize(
    ("fault", "status", "stands"),
    [
        (commit_then(502), 502, True),
        (server_error(503), 503, False),
        (server_error(500), 500, False),
        (refuse(50013), 403, False),
        (refuse(160006), 400, False),
        (rate_limited("bucket", 0.2), 429, False),
        (rate_limited("long"), 429, False),
    ],
)
async def test_faults_that_answer(api: Api, fault: Any, status: int, stands: bool) -> None:
    handle = api.discord.faults.add(fault, route="create_message", bot_id=api.bot.id)
    assert (await api.post({"content": "x"}))[0] == status
    assert bool(api.discord.messages(api.channel.id)) is stands
    assert api.discord.journal.requests[-1].committed is stands
    assert handle.hits == 1
    assert (await api.post({"content": "y"}))[0] == 200


@pytest.mark.parametrize(
    ("kind", "via", "remaining", "is_global"),
    [
        ("bucket", True, "0", False),
        ("sub_limit", True, "3", False),
        ("global", True, None, True),
        ("no_via", False, None, False),
    ],
)
async def test_the_kinds_of_429(
    api: Api, kind: Any, via: bool, remaining: str | None, is_global: bool
) -> None:
    api.discord.faults.add(rate_limited(kind))
    status, body, headers = await api.post({"content": "x"})
    assert (status, body["global"], "Via" in headers) == (429, is_global, via)
    assert headers.get("X-RateLimit-Remaining") == remaining


@pytest.mark.parametrize(("fault", "stands"), [(commit_then_drop(), 1), (drop_before_commit(), 0)])
async def test_faults_that_cut_the_connection(api: Api, fault: Any, stands: int) -> None:
    api.discord.faults.add(fault, method="POST")
    with pytest.raises(aiohttp.ClientError):
        await api.post({"content": "x"})
    assert len(api.discord.messages(api.channel.id)) == stands
    assert api.discord.journal.requests[-1].status == 0


@pytest.mark.parametrize(("commit", "during", "after"), [("before", 1, 1), ("after", 0, 1)])
async def test_faults_that_hang(api: Api, commit: Any, during: int, after: int) -> None:
    handle = api.discord.faults.add(hang(60, commit=commit), route="create_message")
    async with asyncio.TaskGroup() as group:
        pending = group.create_task(api.post({"content": "x"}))
        await handle.wait_hits()
        await api.discord.wait_until(
            lambda: len(api.discord.messages(api.channel.id)) == during or None
        )
        handle.release()
        assert (await pending)[0] == 200
    assert len(api.discord.messages(api.channel.id)) == after


async def test_a_fault_can_skip_choose_by_body_and_count(api: Api) -> None:
    handle = api.discord.faults.add(
        server_error(500), when=lambda request: request.fields["content"] == "b", skip=1, times=2
    )
    answers = [(await api.post({"content": text}))[0] for text in "abbb"]
    assert answers == [200, 200, 500, 500]
    assert handle.hits == 2
    assert handle.is_spent


async def test_the_journal_wakes_its_waiters(api: Api) -> None:
    async with asyncio.TaskGroup() as group:
        waiting = group.create_task(_first_create(api.discord), name="waits for the first create")
        await api.post({"content": "x"})
        assert (await waiting).fields["content"] == "x"
    with pytest.raises(TimeoutError, match="POST /channels"):
        await api.discord.journal.wait_request(lambda one: one.route == "typing", timeout=0.01)


async def _first_create(discord: LoopbackDiscord) -> Any:
    return await discord.journal.wait_request(lambda one: one.route == "create_message")


async def test_a_message_is_waited_for_by_edit_reaction_and_thread(api: Api) -> None:
    said = await api.person.say(api.channel.id, "one")

    async def later() -> None:
        await api.person.edit(said, "two")
        await api.person.react(said, "👍")
        await api.person.open_thread(said, "t")

    async with asyncio.TaskGroup() as group:
        group.create_task(later())
        await api.discord.wait_message(api.channel.id, lambda one: one.content == "two")
        await api.discord.wait_message(api.channel.id, lambda one: "👍" in one.reactions)
        assert (await api.discord.wait_thread(said)).id == said.id


async def test_webhooks_post_edit_and_parse_users_only(api: Api) -> None:
    made = await api.call("POST", f"/channels/{api.channel.id}/webhooks", {"name": "hook"})
    assert made[1]["code"] == 50013
    api.discord.grant(api.bot.id, api.channel.id, "manage_webhooks")
    hook = (await api.call("POST", f"/channels/{api.channel.id}/webhooks", {"name": "hook"}))[1]
    path = f"/webhooks/{hook['id']}/{hook['token']}"
    text = f"{api.person.mention} @everyone"
    _, posted, _ = await api.call("POST", path + "?wait=true", {"content": text})
    (shown,) = api.discord.messages(api.channel.id)
    assert (shown.mention_ids, shown.mention_everyone) == ([api.person.id], False)
    await api.call("PATCH", f"{path}/messages/{posted['id']}", {"content": "changed"})
    assert shown.content == "changed"
    assert (await api.call("POST", f"/webhooks/{hook['id']}/bad", {"content": "x"}))[0] == 401
    assert (await api.call("POST", "/webhooks/5/bad", {"content": "x"}))[1]["code"] == 10015


async def test_an_interaction_is_answered_once_and_in_time(api: Api) -> None:
    commands = f"/applications/{api.bot.id}/commands"
    await api.call("PUT", commands, [{"name": "go", "description": "d"}])
    assert [one["name"] for one in (await api.call("GET", commands))[1]] == ["go"]
    pending = await api.person.slash(api.channel.id, "go", api.bot)
    path = f"/interactions/{pending.id}/{pending.token}/callback"
    early = await api.call("PATCH", f"/webhooks/{api.bot.id}/{pending.token}/messages/@original")
    assert early[1]["code"] == 10015
    answer = {"type": 4, "data": {"content": "ok"}}
    assert (await api.call("POST", path, answer))[0] == 204
    assert (await api.call("POST", path, answer))[1]["code"] == 40060
    late = await api.person.slash(api.channel.id, "go", api.bot)
    api.discord.clock.advance(3.1)
    path = f"/interactions/{late.id}/{late.token}/callback"
    assert (await api.call("POST", path, answer))[1]["code"] == 10062
    with pytest.raises(TimeoutError):
        await late.answer(0.01)
    api.discord.clock.advance(900)
    original = f"/webhooks/{api.bot.id}/{pending.token}/messages/@original"
    status, body, _ = await api.call("PATCH", original, {"content": "x"})
    assert (status, body["code"]) == (401, 50027)
    with pytest.raises(LookupError, match="it has: go"):
        await api.person.slash(api.channel.id, "stop", api.bot)


async def test_the_journal_finds_every_body_with_text(api: Api) -> None:
    commands = f"/applications/{api.bot.id}/commands"
    await api.call("PUT", commands, [{"name": "go", "description": "d"}])
    pending = await api.person.slash(api.channel.id, "go", api.bot)
    answer = {"type": 4, "data": {"content": "told", "allowed_mentions": {"parse": []}}}
    await api.call("POST", f"/interactions/{pending.id}/{pending.token}/callback", answer)
    _, made, _ = await api.post({"content": "made"})
    path = f"/channels/{api.channel.id}/messages/{made['id']}"
    await api.call("PATCH", path, {"components": []})
    await api.call("PATCH", path, {"content": "changed"})
    await api.call("POST", f"/webhooks/{api.bot.id}/{pending.token}", {"content": "more"})
    found = api.discord.journal.content_bodies(api.bot.id)
    assert [body["content"] for _, body in found] == ["told", "made", "changed", "more"]
    assert {one.channel_id for one, _ in found} == {api.channel.id}
    assert api.discord.journal.busiest(api.channel.id) == 3


async def test_a_deleted_channel_is_gone(api: Api) -> None:
    api.discord.delete_channel(api.channel.id)
    assert (await api.post({"content": "x"}))[1]["code"] == 10003


async def test_a_mistake_of_the_double_is_no_quiet_500() -> None:
    async def broken() -> None:
        async with LoopbackDiscord() as discord, aiohttp.ClientSession() as session:
            api = Api(discord, session)
            discord.world.users.pop(api.person.id)
            said = await api.person.say(api.channel.id, "x")
            said.mention_ids.append(api.person.id)
            async with session.get(
                f"{discord.api_base}/channels/{api.channel.id}/messages",
                headers={"Authorization": "Bot sol-token"},
            ) as reply:
                assert reply.status == 500

    with pytest.raises(ExceptionGroup) as failure:
        await broken()
    assert failure.group_contains(KeyError)


async def test_the_way_to_the_gateway_is_told(api: Api) -> None:
    assert (await api.call("GET", "/gateway"))[1] == {"url": api.discord.gateway_url}
    told = (await api.call("GET", "/gateway/bot"))[1]
    assert told["session_start_limit"]["remaining"] == 1000
