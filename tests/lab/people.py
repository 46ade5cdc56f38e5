"""Ann and the bot Luna: what they say and press, what agents are to answer, and what they wait for."""

import asyncio
import json
import time
from collections.abc import Coroutine, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

from openab.domain.handoff import draft, written
from openab.domain.ids import AccountId, ChannelName, ConversationRef, PlatformId
from openab.domain.message import Place
from openab.ports.tasks import end, spawn
from openab.simulator.discord import LoopbackDiscord, Message, forms
from openab.simulator.discord.people import PendingInteraction
from tests.lab.brood import Life
from tests.lab.network import Network
from tests.lab.observation import RESULT, Said
from tests.lab.rows import Rows

_CONNECT_SECONDS = 60.0
#: How the questions begin that have buttons: for a permission, and whether to go on.
_QUESTIONS = ("-# 🔐", "-# ❓")
#: How long Ann waits until she presses a button again that still stands.
_PRESS_SECONDS = 0.5
#: The named agent that other agents give tasks to.
HELPER = "helper"
ENDED = frozenset({"done", "failed", "interrupted", "cancelled"})
#: The rows of another process give no sign when they change.
LOOK_SECONDS = 0.1


class NoPlace(Exception):
    """The thread in which somebody wants to speak was never opened."""


@dataclass(eq=False)
class Answers:
    """Which messages are ended, looked up for all who wait in one go."""

    rows: Rows
    seen: dict[str, str] = field(default_factory=dict)
    _looking: asyncio.Lock = field(default_factory=asyncio.Lock)
    _at: float = 0.0

    async def look(self) -> None:
        """Have them be no older than a moment."""
        async with self._looking:
            wait = self._at + LOOK_SECONDS - time.monotonic()
            if wait > 0:
                await asyncio.sleep(wait)
            self.seen = await self.rows.ends()
            self._at = time.monotonic()


class People:
    """All who talk in one laboratory."""

    def __init__(self, discord: LoopbackDiscord, folder: Path, rows: Rows) -> None:
        self.discord, self._folder, self.rows = discord, folder, rows
        self.bot, self.ann = discord.add_bot("sol"), discord.add_person("ann")
        #: Another bot: it gives work to ours, and takes some.
        self.luna = discord.add_bot("luna")
        self.network = Network(discord, self.bot.id)
        self.answers = Answers(rows)
        self.said: list[Said] = []
        #: The broker that was begun last.
        self.living: Life | None = None
        self._plays: list[tuple[str, ...]] = []
        self._rooms, self._tags = 0, 0
        self._play()

    # ------------------------------------------------------------------ what agents say

    def gate(self, name: str) -> Path:
        """A file that is not there yet, for an agent to wait for."""
        return self._folder / f"gate-{name}"

    def script(self, words: int, tag: str, delay: float = 0.0, before: str = "") -> str:
        """Steps that say so many words of this tag, in chunks of ten."""
        chunks = [range(n, min(n + 10, words + 1)) for n in range(1, words + 1, 10)]
        told = ["".join(f"{tag}.{n} " for n in chunk) for chunk in chunks]
        steps = "".join(f"[[say={text}]]" for text in told)
        return f"{before}[[delay={delay or 0.02}]]{steps}"

    def _tag(self) -> str:
        self._tags += 1
        return f"m{self._tags}"

    def _play(self, *play: str) -> None:
        """From now on agents play the steps (the second part) for a prompt that holds the first."""
        self._plays += [play] if play else []
        made = self._folder / "plays.new"
        made.write_text(json.dumps(self._plays))
        made.rename(self._folder / "plays.json")

    # ------------------------------------------------------------------ what people do

    def room(self) -> str:
        """A new channel."""
        self._rooms += 1
        return self.discord.add_channel(f"room-{self._rooms}").id

    async def mention(self, words: int, delay: float = 0.0, before: str = "") -> Message:
        """Ann asks in a channel of its own; the answer opens a thread with the message's id."""
        tag = self._tag()
        return await self._ask(self.room(), tag, self.script(words, tag, delay, before))

    async def say(self, place: str, words: int, delay: float = 0.0, before: str = "") -> Message:
        """Ann says something in a thread that an agent answers with so many words. Raises NoPlace."""
        await self._place(place)
        tag = self._tag()
        self._play(f"tag={tag};", self.script(words, tag, delay, before))
        return self._said(await self.ann.say(place, f"tag={tag}; please"), tag, place)

    async def _ask(self, room: str, tag: str, script: str) -> Message:
        self._play(f"tag={tag};", script)
        message = await self.ann.say(room, f"{self.bot.mention} tag={tag}; please")
        return self._said(message, tag, message.id)

    def _said(self, message: Message, tag: str, conversation: str) -> Message:
        self.said.append(Said(message.id, tag, conversation))
        return message

    async def delegate(
        self, words: int, delay: float = 0.0, *, has_persona: bool = True
    ) -> Message:
        """Ann asks, and the agent gives the task to a sub-agent, which says so many words.

        Without a persona the bot may make no webhook there.
        """
        tag, task, room = self._tag(), self._tag(), self.room()
        if has_persona:
            self.discord.grant(self.bot.id, room, "manage_webhooks")
        self._play(f"tag={task};", self.script(words, task, delay))
        told = [["say", f"[[spawn:{HELPER}]]\ntag={task}; "], ["say", "please"]]
        message = await self._ask(room, tag, f"[[script={json.dumps(told)}]]")
        steps = self.script(8, f"t{message.id}")
        self._play(RESULT, steps, f'"thread_id":"{message.id}"')
        return message

    async def hand_over(self) -> Message:
        """Ann asks, and the agent hands the work to Luna."""
        told = [["say", f"[[handoff:{self.luna.id}]]\nyours "], ["say", "now"]]
        return await self._ask(self.room(), self._tag(), f"[[script={json.dumps(told)}]]")

    async def handed(self, place: str, words: int) -> list[Message]:
        """Luna hands work to the bot in a thread, twice the same. Raises NoPlace."""
        await self._place(place)
        tag = self._tag()
        self._play(f"tag={tag};", self.script(words, tag))
        ref = ConversationRef(ChannelName("discord"), AccountId(self.luna.id), PlatformId(place))
        target, now = PlatformId(self.bot.id), datetime.now(UTC)
        text = f"tag={tag}; please"
        work = written(draft(ref.account, target, ref, Place.THREAD, None, uuid4(), now, text))
        first = self._said(await self.luna.say(place, work), tag, place)
        return [first, await self.luna.say(place, work)]

    async def command(self, place: str, name: str) -> PendingInteraction | None:
        """Ann uses a slash command until it is answered, three times at most. Raises NoPlace."""
        await self._place(place)
        for _ in range(3):
            try:
                await self._connected()
                pending = await self.ann.slash(place, name, self.bot)
                if self.living and await self.while_it_lives(self.living, _answered(pending)):
                    return pending
            except (LookupError, TimeoutError):
                continue
        return None

    async def answer_questions(self) -> None:
        """Ann says yes to every question with buttons, again and again as long as it stands."""
        while True:
            for asked, button in [*self._questions()]:
                # The question may be gone meanwhile. Whoever asked may have died, so nobody waits
                # for an answer: one question that stands for nothing would hold up all the others.
                with suppress(LookupError):
                    await self.ann.click(asked, button)
            await asyncio.sleep(_PRESS_SECONDS)

    def _questions(self) -> Iterator[tuple[Message, str]]:
        for thread in self.network.threads():
            for message in self.discord.messages(thread):
                buttons = forms.buttons(message.components)
                if buttons and message.content.startswith(_QUESTIONS):
                    yield message, str(buttons[0]["custom_id"])

    # ------------------------------------------------------------------ what they wait for

    async def _place(self, place: str) -> None:
        channels = self.discord.world.channels
        try:
            await self.discord.wait_until(lambda: place in channels, _CONNECT_SECONDS)
        except TimeoutError as error:
            raise NoPlace(place) from error

    async def ended(self, what: Message | str, seconds: float = 60.0) -> bool:
        """Wait until the turn of a message (or of a key as `Rows.ends` has it) has ended; False: it has not."""
        key = what if isinstance(what, str) else what.id
        deadline = time.monotonic() + seconds
        while self.answers.seen.get(key) not in ENDED:
            if time.monotonic() > deadline:
                return False
            await self.answers.look()
        return True

    async def shows(self, place: str, holding: str, of: Message | str) -> Message | None:
        """Wait until a message of the bot shows this text; None: the turn of `of` has ended without."""
        showing = spawn("shows", self._shows(place, holding))
        ending = spawn("ended", self.ended(of))
        try:
            await asyncio.wait({showing, ending}, return_when=asyncio.FIRST_COMPLETED)
            return showing.result() if showing.done() else None
        finally:
            await end(showing)
            await end(ending)

    async def _shows(self, place: str, holding: str) -> Message | None:
        def fits(one: Message) -> bool:
            return one.author.id == self.bot.id and holding in one.content

        with suppress(TimeoutError):
            return await self.discord.wait_message(place, fits, _CONNECT_SECONDS)
        return None

    async def child_of(self, asked: Message) -> str | None:
        """Wait for the thread in which a sub-agent works for this request; None: there will be none."""
        await self.ended(asked)
        if self.answers.seen.get(asked.id) != "done":
            return None
        starting = self.discord.wait_until(
            lambda: self.network.starter(asked.channel_id), _CONNECT_SECONDS
        )
        with suppress(TimeoutError):
            child = (await starting).id
            await self._place(child)
            return child
        return None

    async def connected(self, life: Life) -> bool:
        """Wait until it has a gateway session; False: it died before."""
        return await self.while_it_lives(life, self._connected())

    async def while_it_lives(self, life: Life, step: Coroutine[Any, Any, object]) -> bool:
        """Whether a step came to its end before the broker did; raises what the step raises."""
        going, dying = spawn("step", step), spawn("dying", life.ended.wait())
        try:
            await asyncio.wait({going, dying}, return_when=asyncio.FIRST_COMPLETED)
            if going.done():
                await going
            return going.done() and not life.ended.is_set()
        finally:
            await end(going)
            await end(dying)

    async def _connected(self) -> None:
        await self.discord.wait_connected(self.bot, _CONNECT_SECONDS)


async def _answered(pending: PendingInteraction) -> None:
    await pending.answer()
