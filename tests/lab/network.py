"""What of the loopback Discord is judged: what our bot shows and marks, and what is on the wire between bots."""

from collections.abc import Iterator

from openab.simulator.discord import LoopbackDiscord
from openab.simulator.discord.records import Channel, Message
from tests.lab.observation import EnvelopeSeen, MessageSeen


class Network:
    """One bot's traces in it."""

    def __init__(self, discord: LoopbackDiscord, bot_id: str) -> None:
        self._discord, self._bot = discord, bot_id

    def messages(self) -> list[MessageSeen]:
        """All that the bot shows, under whatever name, in the order of each conversation."""
        mine = {self._bot, *self._webhooks()}
        return [
            MessageSeen(one.id, channel.id, one.content, has_buttons=bool(one.components))
            for channel in self._channels()
            for one in self._listed(channel)
            if one.author.id in mine or one.webhook_id in mine
        ]

    def threads(self) -> dict[str, str]:
        """Thread → the channel above."""
        return {one.id: one.parent_id or "" for one in self._channels() if one.thread}

    def faces(self, message_id: str) -> list[str]:
        """The bot's reactions on a message."""
        for channel in self._channels():
            if message := channel.messages.get(message_id):
                return self._marks(message)
        return []

    def envelopes(self) -> list[EnvelopeSeen]:
        """Every hand-off's message."""
        seen = [
            (one, MessageSeen(one.id, channel.id, one.content))
            for channel in self._channels()
            for one in self._listed(channel)
        ]
        return [
            EnvelopeSeen(
                one.id, told.event_id, one.author.id == self._bot, one.channel_id, self._marks(one)
            )
            for one, told in seen
            if told.event_id
        ]

    def starter(self, room: str) -> Message | None:
        """The message in a channel on which a sub-agent's thread hangs."""
        starters = (one for one in self._discord.messages(room) if one.content.startswith("-# 🧵"))
        return next(starters, None)

    def _channels(self) -> Iterator[Channel]:
        yield from list(self._discord.world.channels.values())

    def _listed(self, channel: Channel) -> list[Message]:
        return sorted(self._discord.messages(channel.id), key=lambda one: int(one.id))

    def _marks(self, message: Message) -> list[str]:
        return [face for face, who in message.reactions.items() if self._bot in who]

    def _webhooks(self) -> set[str]:
        rooms = [one.id for one in self._channels() if not one.thread and not one.is_dm]
        mine = (hook for room in rooms for hook in self._discord.webhooks(room))
        return {hook.id for hook in mine if hook.creator_id == self._bot}
