"""The demo's acts, in order; each waits for what people would see."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from openab.cli.demo import scripts
from openab.cli.demo.brokers import DemoBroker
from openab.cli.demo.sightings import live_messages
from openab.simulator.discord import FaultHandle, LoopbackDiscord, Message, Person, Request
from openab.simulator.discord.fault_kinds import commit_then_drop

#: A step that takes longer than this will not come about any more.
_PATIENCE = 30.0
_READING_SECONDS = 4.0
#: So much of an answer is on the screen when its broker is killed.
_SEEN_BEFORE_KILL = "relied on"
DONE = "🆗"
#: A hand-off was accepted.
TAKEN = "📥"
Announce = Callable[[str], None]


@dataclass(frozen=True)
class Cast:
    """Who and what takes part."""

    discord: LoopbackDiscord
    ann: Person
    sol: DemoBroker
    luna: DemoBroker
    channel: str

    @property
    def brokers(self) -> tuple[DemoBroker, DemoBroker]:
        """Both bots."""
        return self.sol, self.luna


@dataclass(frozen=True)
class Asked:
    """One of Ann's messages, and the reaction that each bot which hears it has to end with."""

    cue: str
    message: Message
    endings: dict[str, str]


@dataclass
class Story:
    """What was done, for the proofs."""

    asked: dict[str, Asked] = field(default_factory=dict)
    #: The fault that cut the connection after a part was committed.
    dropped: FaultHandle | None = None
    #: The placeholder that stood when the broker was killed, and how much it said.
    orphan: Message | None = None
    killed_at: float | None = None
    #: The message by which Sol gave Luna work.
    handoff: Message | None = None
    #: Why the play stopped early.
    stuck: str = ""

    @property
    def thread(self) -> str | None:
        """The thread's id: its first message's."""
        first = self.asked.get(scripts.RED_BUILD)
        return first.message.id if first else None


async def perform(cast: Cast, story: Story, announce: Announce) -> None:
    """Play everything once, noting in `story` what was done; it stops at what does not come about."""
    acts: tuple[Callable[[Cast, Story, Announce], Awaitable[None]], ...] = (
        _ask,
        _second_bot,
        _kill,
        _afterwards,
        _hand_off,
    )
    try:
        for act in acts:
            await act(cast, story, announce)
    except TimeoutError as error:
        story.stuck = str(error)


async def _ask(cast: Cast, story: Story, announce: Announce) -> None:
    announce("Ann asks Sol in #general; a part of the long answer will lose its connection")
    story.dropped = cast.discord.faults.add(
        commit_then_drop(), route="create_message", when=_is_later_part
    )
    # Its own echo would tell the bot that the part has arrived: that is lost as well.
    cast.discord.faults.deliver(
        "never",
        bot_id=cast.sol.bot.id,
        event="MESSAGE_CREATE",
        when=lambda body: _goes_on_in_code(body["content"]),
    )
    await _say(cast, story, scripts.RED_BUILD, {cast.sol: DONE}, to=cast.sol)
    await _answered(cast, story, scripts.RED_BUILD)


def _is_later_part(request: Request) -> bool:
    """Neither a placeholder nor the first part."""
    return _goes_on_in_code(str(request.fields.get("content", "")))


def _goes_on_in_code(content: str) -> bool:
    return content.startswith("```python") and "regression suite" in content


async def _second_bot(cast: Cast, story: Story, announce: Announce) -> None:
    announce("Ann asks a second bot, Luna, in the same thread; Sol hears it too")
    both = {cast.sol: DONE, cast.luna: DONE}
    await _say(cast, story, scripts.SECOND_OPINION, both, to=cast.luna)
    await _answered(cast, story, scripts.SECOND_OPINION)


async def _kill(cast: Cast, story: Story, announce: Announce) -> None:
    announce("Ann wants more from Sol; in the middle of its answer its broker is killed")
    endings = {cast.sol: DONE, cast.luna: DONE}
    await _say(cast, story, scripts.MIGRATION, endings, to=cast.sol)
    await _reacted(cast, story.asked[scripts.MIGRATION], cast.luna.bot.id, DONE)
    story.orphan = await _seen(cast, story, lambda one: _SEEN_BEFORE_KILL in one.content)
    await cast.sol.kill(cast.discord)
    story.killed_at = cast.discord.clock.monotonic()
    announce(
        "kill -9: nobody serves Sol now, its live message stands; it is started again and goes on"
    )
    await cast.sol.start(cast.discord)
    await _answered(cast, story, scripts.MIGRATION)


async def _afterwards(cast: Cast, story: Story, announce: Announce) -> None:
    announce("Ann goes on in the thread, without a mention; each bot has a memory of its own")
    both = {cast.sol: DONE, cast.luna: DONE}
    await _say(cast, story, scripts.STILL_THERE, both)
    await _answered(cast, story, scripts.STILL_THERE)


async def _hand_off(cast: Cast, story: Story, announce: Announce) -> None:
    # She reads first; and what bots write within a few seconds is counted by a proof.
    await asyncio.sleep(_READING_SECONDS)
    announce("Ann lets Sol give work to Luna: bots hand it over by one message, nobody in between")
    both = {cast.sol: DONE, cast.luna: DONE}
    await _say(cast, story, scripts.HAND_OVER, both, to=cast.sol)
    story.handoff = await _seen(cast, story, lambda one: is_handoff(one, cast.luna.bot.id))
    await cast.discord.wait_message(
        str(story.thread),
        lambda one: (
            is_handoff(one, cast.luna.bot.id)
            and set(reactions_of(one, cast.luna.bot.id)) == {TAKEN, DONE}
        ),
        _PATIENCE,
    )
    await _answered(cast, story, scripts.HAND_OVER)


async def _say(
    cast: Cast,
    story: Story,
    cue: str,
    endings: dict[DemoBroker, str],
    to: DemoBroker | None = None,
) -> None:
    text = f"{to.bot.mention} {cue}" if to else cue
    message = await cast.ann.say(story.thread or cast.channel, text)
    by_bot = {broker.bot.id: emoji for broker, emoji in endings.items()}
    story.asked[cue] = Asked(cue, message, by_bot)


async def _seen(cast: Cast, story: Story, fits: Callable[[Message], bool]) -> Message:
    return await cast.discord.wait_message(str(story.thread), fits, _PATIENCE)


async def _reacted(cast: Cast, asked: Asked, bot_id: str, emoji: str) -> None:
    def is_so(message: Message) -> bool:
        return message.id == asked.message.id and reactions_of(message, bot_id) == [emoji]

    await cast.discord.wait_message(asked.message.channel_id, is_so, _PATIENCE)


async def _answered(cast: Cast, story: Story, cue: str) -> None:
    """Until every bot's reaction tells the turn's real end, all is said and no live message is left."""
    asked = story.asked[cue]
    for bot_id, emoji in asked.endings.items():
        await _reacted(cast, asked, bot_id, emoji)
    last = scripts.LAST_WORDS.get(cue, "")
    await cast.discord.wait_messages(
        str(story.thread),
        lambda shown: not live_messages(shown) and any(last in one.content for one in shown),
        _PATIENCE,
    )


def is_handoff(message: Message, target: str) -> bool:
    """Whether it hands work to this bot."""
    return message.content.startswith(f"<@{target}>\n{{")


def reactions_of(message: Message, user_id: str) -> list[str]:
    """What somebody has put on a message."""
    return [emoji for emoji, users in message.reactions.items() if user_id in users]
