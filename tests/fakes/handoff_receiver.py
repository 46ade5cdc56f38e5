"""A small bot that receives hand-offs by its own reading of the rules, and can be told to break one."""

import asyncio
import json
import re
import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

from openab.cli.conformance.echo_agent import answer
from openab.ports.tasks import end, spawn
from openab.simulator.discord import Bot, LoopbackDiscord
from openab.simulator.discord.world import Viewer, WorldEvent

_FIRST = re.compile(r"<@(!?)(\d+)>\s*")
_FAMILY = "openab.multibot.handoff"
_MOST, _WINDOW = 10, 60.0

Json = dict[str, Any]


class ModelReceiver:
    """Hears the world directly, answers as the echo agent would; `broken` names what it gets wrong."""

    def __init__(self, discord: LoopbackDiscord, bot: Bot, trusted: set[str], broken: str) -> None:
        self._discord, self._bot, self._trusted, self.broken = discord, bot, trusted, broken
        self._events: set[str] = set()
        self._accepted: list[float] = []
        self._queue: asyncio.Queue[Json] = asyncio.Queue()
        self._said: list[str] = []
        self._in_window = 0
        discord.world.subscribe(self._hear)

    def _hear(self, event: WorldEvent) -> None:
        names = {"MESSAGE_CREATE"} | ({"MESSAGE_UPDATE"} if self.broken == "edits" else set())
        if event.name in names:
            body = event.render(Viewer(self._bot.id))
            if body["author"]["id"] != self._bot.id:
                self._queue.put_nowait(body)

    async def serve(self) -> None:
        """Until cancelled."""
        while True:
            body = await self._queue.get()
            await self._take(body)

    async def _take(self, body: Json) -> None:
        if self.broken == "deaf":
            return
        text, verdict = self._judged(body)
        if verdict in {"accepted", "ordinary"}:
            await self._turn(body, text, verdict)
        if verdict in {"accepted", "refused"}:
            is_right = self.broken != "wrong receipts"
            await self._receipt(body, "📥" if (verdict == "accepted") is is_right else "⛔")

    async def _receipt(self, body: Json, emoji: str) -> None:
        if self.broken != "no receipts":
            message = self._discord.world.channels[body["channel_id"]].messages[body["id"]]
            await self._bot.react(message, emoji)

    async def _turn(self, body: Json, text: str, verdict: str) -> None:
        if self.broken == "changes the text" and verdict == "accepted":
            text = text.strip()
        said = answer([{"type": "text", "text": text}])
        if verdict == "accepted":
            self._said.append(said)
            if self.broken == "bundles" and self._in_window == _MOST:
                said = "\n".join(self._said[-2:])
        live = await self._bot.say(body["channel_id"], f"-# working\n{said}")
        await self._bot.say(body["channel_id"], said)
        if self.broken == "answers twice":
            await self._bot.say(body["channel_id"], said)
        await self._bot.delete(live)

    def _judged(self, body: Json) -> tuple[str, str]:
        text = body["content"]
        if self.broken == "finds quoted ones":
            text = re.sub(r"^(> |```\n|Look:\n)", "", text.replace("\n> ", "\n")).replace(
                "\n```", ""
            )
        if self.broken == "first line may go on":
            text = text.replace("> please\n", ">\n")
        first, _, rest = text.partition("\n")
        mention = _FIRST.fullmatch(first)
        if body.get("webhook_id") and self.broken != "webhooks":
            return "", "ignored"
        document = self._document(rest) if mention else None
        if mention is None or document is None:
            return text, "ordinary" if f"<@{self._bot.id}>" in text else "ignored"
        if mention[2] != self._bot.id and self.broken != "hears what is for others":
            return "", "ignored"
        if self.broken == "takes them for text":
            return text, "ordinary"
        if any(
            self.broken != word and not holds for word, holds in self._checks(body, first, document)
        ):
            if self.broken == "refusals spend":
                self._events.add(str(document.get("event_id")))
            return "", "refused"
        return self._decided(body, document)

    def _document(self, rest: str) -> Json | None:
        """None: it does not claim to be a hand-off."""
        if not rest.startswith("{"):
            return None
        keys: list[str] = []

        def read(pairs: list[tuple[str, Any]]) -> Json:
            keys.extend(f"{len(pairs)}{key}" for key, _ in pairs)
            return dict(pairs)

        def no_constant(word: str) -> float:
            raise ValueError(word)

        try:
            found = json.loads(rest, object_pairs_hook=read, parse_constant=no_constant)
        except ValueError:
            if _FAMILY not in rest:
                return None
            found = {**self._lenient(rest), "no json": True}
        if not str(found.get("schema", "")).startswith(_FAMILY):
            return {"twice": False} if self.broken == "other JSON" else None
        found["twice"] = len(keys) > len(set(keys))
        return dict(found)

    @staticmethod
    def _lenient(rest: str) -> Json:
        for written in (rest, f"{rest}}}"):
            try:
                return dict(json.JSONDecoder().raw_decode(written)[0])
            except ValueError:
                continue
        return {}

    def _checks(self, body: Json, first: str, told: Json) -> Iterator[tuple[str, bool]]:
        """Each rule's word, and whether it holds; unlike in openab none builds on an earlier one."""
        author, here = body["author"]["id"], body["channel_id"]
        if body.get("webhook_id"):
            author = told.get("source_bot_id")
        expiry, text = told.get("expires_at"), told.get("payload", {}).get("text")
        ahead = (
            expiry - self._discord.clock.wall().timestamp()
            if isinstance(expiry, int | float)
            else None
        )
        yield "not JSON", "no json" not in told
        yield "key twice", not told["twice"]
        yield "schema", told.get("schema") == f"{_FAMILY}.v1"
        yield "source", told.get("source_bot_id") == author
        yield "trust", author in self._trusted
        yield "target", told.get("target_bot_id") == self._bot.id
        yield "first line", first == f"<@{self._bot.id}>"
        yield "event id", _is_uuid(told.get("event_id"))
        yield "expiry's type", type(expiry) is int
        yield "expired", ahead is None or ahead > 0
        yield "expires late", ahead is None or ahead <= 3600
        yield "hops", type(told.get("hop_count")) is int and told.get("hop_count") == 0
        yield "origin", told.get("origin_channel_id") == here
        yield "origin thread", told.get("origin_thread_id") in {None, here}
        message = told.get("origin_message_id")
        yield "origin message", message is None or (isinstance(message, str) and message.isdigit())
        yield "text", isinstance(text, str) and bool(text.strip())
        yield "half characters", not re.search("[\ud800-\udfff]", str(text))
        if self.broken == "strict keys":
            yield "", not {"x", "note"} & set(told)
        if self.broken == "optional ids":
            yield "", "origin_thread_id" in told
        if self.broken == "short lives only":
            yield "", ahead is not None and ahead <= 400
        if self.broken == "long lives only":
            yield "", ahead is not None and ahead >= 60

    def _decided(self, body: Json, told: Json) -> tuple[str, str]:
        event = str(told.get("event_id"))
        if self.broken != "spelling" and _is_uuid(event):
            event = str(uuid.UUID(event))
        payload = told.get("payload", {}).get("text")
        if event in self._events and self.broken != "replay":
            return "", "refused"
        now = self._discord.world.channels[body["channel_id"]].messages[body["id"]].created_at
        recent = [at for at in self._accepted if now.timestamp() - at < _WINDOW]
        if len(recent) >= _MOST and self.broken != "rate":
            if self.broken == "rate spends":
                self._events.add(event)
            return "", "refused"
        self._events.add(event)
        self._accepted.append(now.timestamp())
        self._in_window = len(recent) + 1
        return str("" if payload is None else payload), "accepted"


def _is_uuid(value: object) -> bool:
    try:
        return isinstance(value, str) and bool(uuid.UUID(value))
    except ValueError:
        return False


@asynccontextmanager
async def receiving(
    discord: LoopbackDiscord, bot: Bot, trusted: set[str], broken: str = ""
) -> AsyncIterator[ModelReceiver]:
    """The bot at work."""
    model = ModelReceiver(discord, bot, trusted, broken)
    serving = spawn("model receiver", model.serve())
    try:
        yield model
    finally:
        await end(serving)
