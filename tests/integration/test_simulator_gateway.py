"""The loopback Discord's gateway: sessions, scripted deliveries, closes and deafness, at the frames."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest

from openab.simulator.discord import Bot, LoopbackDiscord

ALL_INTENTS = (1 << 0) | (1 << 9) | (1 << 10) | (1 << 12) | (1 << 15)


class Wire:
    """A gateway client that sees every frame."""

    def __init__(self, ws: aiohttp.ClientWebSocketResponse) -> None:
        self.ws = ws
        self.sequence = 0
        self.session_id = ""

    async def frame(self) -> Any:
        message = await self.ws.receive(timeout=60)
        if message.type is not aiohttp.WSMsgType.TEXT:
            return {"closed": self.ws.close_code}
        frame = json.loads(message.data)
        self.sequence = frame.get("s") or self.sequence
        return frame

    async def event(self, name: str) -> Any:
        while True:
            frame = await self.frame()
            assert "closed" not in frame, frame
            if frame.get("t") == name:
                return frame["d"]

    async def send(self, op: int, given: Any) -> None:
        await self.ws.send_json({"op": op, "d": given})

    async def identify(self, token: str, intents: int = ALL_INTENTS) -> Any:
        assert (await self.frame())["op"] == 10
        await self.send(2, {"token": token, "intents": intents, "properties": {}})
        ready = await self.event("READY")
        self.session_id = ready["session_id"]
        await self.event("GUILD_CREATE")
        return ready


class Stage:
    def __init__(self, discord: LoopbackDiscord, http: aiohttp.ClientSession) -> None:
        self.discord, self._http = discord, http
        self.bot = discord.add_bot("Sol")
        self.person = discord.add_person("alice")
        self.channel = discord.add_channel("general")

    async def wire(self) -> Wire:
        url = self.discord.gateway_url + "?v=10&encoding=json&compress=zlib-stream"
        return Wire(await self._http.ws_connect(url))

    async def online(self, bot: Bot | None = None, intents: int = ALL_INTENTS) -> Wire:
        wire = await self.wire()
        await wire.identify((bot or self.bot).token, intents)
        return wire

    async def contents(self, wire: Wire, count: int) -> list[str]:
        return [(await wire.event("MESSAGE_CREATE"))["content"] for _ in range(count)]


@pytest.fixture
async def stage() -> AsyncIterator[Stage]:
    async with LoopbackDiscord() as discord, aiohttp.ClientSession() as http:
        yield Stage(discord, http)


async def test_heartbeats_are_acknowledged_unless_scripted(stage: Stage) -> None:
    wire = await stage.online()
    await wire.send(1, wire.sequence)
    assert (await wire.frame())["op"] == 11
    stage.discord.faults.unacknowledged.add(stage.bot.id)
    await wire.send(1, wire.sequence)
    await stage.person.say(stage.channel.id, "next frame")
    assert (await wire.frame())["t"] == "MESSAGE_CREATE"


async def test_a_resume_replays_what_was_missed_even_after_a_kill(stage: Stage) -> None:
    wire = await stage.online()
    transport = wire.ws._writer.transport  # a killed process closes nothing politely
    assert transport is not None
    transport.abort()
    await stage.discord.wait_until(lambda: not stage.discord.gateway.of_bot(stage.bot.id))
    await stage.person.say(stage.channel.id, "missed")
    again = await stage.wire()
    assert (await again.frame())["op"] == 10
    resume = {"token": stage.bot.token, "session_id": wire.session_id, "seq": wire.sequence}
    await again.send(6, resume)
    assert (await again.event("MESSAGE_CREATE"))["content"] == "missed"
    await again.event("RESUMED")


async def test_a_late_resume_and_a_session_ended_by_1000_are_invalid(stage: Stage) -> None:
    wire = await stage.online()
    await wire.ws.close(code=1000)
    assert await _resume_answer(stage, wire) == {"op": 9, "d": False}
    wire = await stage.online()
    await wire.ws.close(code=4000)
    await stage.discord.wait_until(lambda: not stage.discord.gateway.of_bot(stage.bot.id))
    stage.discord.clock.advance(stage.discord.gateway.resume_seconds + 1)
    assert await _resume_answer(stage, wire) == {"op": 9, "d": False}


async def _resume_answer(stage: Stage, lost: Wire) -> Any:
    again = await stage.wire()
    await again.frame()
    given = {"token": stage.bot.token, "session_id": lost.session_id, "seq": lost.sequence}
    await again.send(6, given)
    return await again.frame()


@pytest.mark.parametrize("code", [1000, 4000, 4004, 4009, 4014])
async def test_a_scripted_close(stage: Stage, code: int) -> None:
    wire = await stage.online()
    stage.discord.gateway.close(stage.bot.id, code)
    assert await wire.frame() == {"closed": code}
    stage.discord.faults.close_on_identify(code)
    again = await stage.wire()
    await again.frame()
    await again.send(2, {"token": stage.bot.token, "intents": 0})
    assert await again.frame() == {"closed": code}


async def test_an_unknown_token_closes_4004(stage: Stage) -> None:
    wire = await stage.wire()
    await wire.frame()
    await wire.send(2, {"token": "nobody", "intents": 0})
    assert await wire.frame() == {"closed": 4004}


@pytest.mark.parametrize("status", [503, 0])
async def test_connections_can_be_refused(stage: Stage, status: int) -> None:
    # aiohttp's client tries an idempotent request once more when its connection is cut.
    tries = 2 if status else 4
    stage.discord.faults.refuse_connections(tries, status)
    for _ in range(2):
        with pytest.raises(aiohttp.ClientError):
            await stage.wire()
    await stage.online()
    assert len(stage.discord.journal.steps("connection_refused")) == tries


async def test_op7_and_op9(stage: Stage) -> None:
    wire = await stage.online()
    stage.discord.gateway.reconnect(stage.bot.id)
    assert (await wire.frame())["op"] == 7
    stage.discord.gateway.invalidate(stage.bot.id, resumable=True)
    assert await wire.frame() == {"op": 9, "d": True}
    stage.discord.gateway.invalidate(stage.bot.id, resumable=False)
    assert await wire.frame() == {"op": 9, "d": False}
    assert stage.discord.gateway.of_bot(stage.bot.id) == []


async def test_events_twice_late_and_never_with_history_intact(stage: Stage) -> None:
    wire = await stage.online()
    faults = stage.discord.faults
    faults.deliver("twice", event="MESSAGE_CREATE", when=lambda body: body["content"] == "a")
    faults.deliver("late", when=lambda body: body.get("content") == "b")
    never = faults.deliver("never", when=lambda body: body.get("content") == "c")
    for text in "abcd":
        await stage.person.say(stage.channel.id, text)
    assert await stage.contents(wire, 4) == ["a", "a", "d", "b"]
    assert never.hits == 1
    assert [one.content for one in stage.discord.messages(stage.channel.id)] == list("abcd")


async def test_a_silent_gateway_sends_nothing_more(stage: Stage) -> None:
    wire = await stage.online()
    stage.discord.gateway.silence(stage.bot.id)
    await stage.person.say(stage.channel.id, "unheard")
    await wire.send(1, wire.sequence)
    with pytest.raises(asyncio.TimeoutError):
        await wire.ws.receive(timeout=0.1)


async def test_intents_and_visibility_decide_who_hears(stage: Stage) -> None:
    hidden = stage.discord.add_channel("hidden")
    stage.discord.deny(stage.bot.id, hidden.id, "view_channel")
    wire = await stage.online()
    await stage.person.say(hidden.id, "secret")
    said = await stage.person.say(stage.channel.id, "open")
    assert await stage.contents(wire, 1) == ["open"]
    narrow = await stage.online(intents=1 << 9)
    await stage.person.react(said, "👍")
    await stage.person.say(stage.channel.id, stage.bot.mention)
    assert (await narrow.frame())["d"]["content"] == stage.bot.mention


async def test_threads_reach_bots_by_sight_or_with_the_switch_by_membership(stage: Stage) -> None:
    said = await stage.person.say(stage.channel.id, "start")
    await stage.person.open_thread(said, "t")
    luna = stage.discord.add_bot("Luna")
    wire = await stage.online()
    await luna.say(said.id, "for all")
    assert await stage.contents(wire, 1) == ["for all"]
    stage.discord.world.threads_need_membership = True
    await luna.say(said.id, f"{stage.bot.mention} a bot's mention adds nobody")
    await stage.person.say(said.id, f"{stage.bot.mention} a person's does")
    assert await stage.contents(wire, 1) == [f"{stage.bot.mention} a person's does"]


async def test_the_nonce_comes_back_to_its_author_only(stage: Stage) -> None:
    luna = stage.discord.add_bot("Luna")
    own, other = await stage.online(), await stage.online(luna)
    headers = {"Authorization": f"Bot {stage.bot.token}"}
    url = f"{stage.discord.api_base}/channels/{stage.channel.id}/messages"
    async with stage._http.post(url, json={"content": "x", "nonce": "7"}, headers=headers):
        pass
    assert (await own.event("MESSAGE_CREATE"))["nonce"] == "7"
    assert "nonce" not in await other.event("MESSAGE_CREATE")


async def test_every_event_is_in_the_journal(stage: Stage) -> None:
    await stage.online()
    await stage.person.say(stage.channel.id, "x")
    names = [one.name for one in stage.discord.journal.events]
    assert names == ["READY", "GUILD_CREATE", "MESSAGE_CREATE"]
    assert len(stage.discord.journal.steps("identify", bot_id=stage.bot.id)) == 1
