"""People and foreign bots: what they do in the loopback Discord, as plain methods."""

from collections.abc import Awaitable, Iterable

from openab.simulator.discord import forms, happenings, posting, threads
from openab.simulator.discord.errors import Json
from openab.simulator.discord.interactions import Callback, Interaction, Interactions
from openab.simulator.discord.posting import Draft
from openab.simulator.discord.records import Attachment, Channel, Message, User, Webhook
from openab.simulator.discord.signals import PATIENCE
from openab.simulator.discord.world import World

_OPTION_TYPES: dict[type, int] = {str: 3, int: 4, bool: 5, float: 10}


class PendingInteraction:
    """A command or press that waits for its answer."""

    def __init__(self, world: World, made: Interaction) -> None:
        self._world, self._made = world, made

    @property
    def id(self) -> str:
        """The interaction's id."""
        return self._made.id

    @property
    def token(self) -> str:
        """Its token."""
        return self._made.token

    @property
    def callback(self) -> Callback | None:
        """The first answer, if it has come."""
        return self._made.callback

    @property
    def original(self) -> Message | None:
        """The message the first answer made (or will fill), if any."""
        return self._made.original

    @property
    def followups(self) -> list[Message]:
        """The messages sent after the first answer."""
        return self._made.followups

    def answer(self, timeout: float = 3.0) -> Awaitable[Callback]:
        """Wait for the first answer; people see 'did not respond' after 3 s: TimeoutError."""
        return self._world.changed.until(
            lambda: self._made.callback, within=timeout, picture=lambda: "no answer"
        )

    def text(self, timeout: float = PATIENCE) -> Awaitable[str]:
        """Wait until the answer shows a text (a deferred one is filled in later)."""
        return self._world.changed.until(
            lambda: self._made.original.content if self._made.original else None,
            within=timeout,
            picture=lambda: f"callback {self._made.callback}",
        )


class Actor:
    """Somebody who can speak: the actions that people and foreign bots share."""

    def __init__(self, world: World, interactions: Interactions, user: User) -> None:
        self._world, self._interactions, self.user = world, interactions, user

    @property
    def id(self) -> str:
        """The account's id."""
        return self.user.id

    @property
    def name(self) -> str:
        """The account's name."""
        return self.user.name

    @property
    def mention(self) -> str:
        """How a message mentions this account."""
        return f"<@{self.user.id}>"

    async def say(
        self,
        channel_id: str,
        text: str,
        *,
        reply_to: Message | None = None,
        attachments: Iterable[Attachment] = (),
        allowed_mentions: Json | None = None,
        flags: int = 0,
        components: list[Json] | None = None,
    ) -> Message:
        """Post a message; mentions are parsed as Discord's default unless told otherwise."""
        draft = Draft(
            text,
            flags=flags,
            allowed_mentions=allowed_mentions,
            reference={"message_id": reply_to.id} if reply_to else None,
            attachments=list(attachments),
            components=components or [],
        )
        return posting.create(self._world, self._world.channel(channel_id), self.user, draft)

    async def reply(self, to: Message, text: str) -> Message:
        """Answer a message in its channel."""
        return await self.say(to.channel_id, text, reply_to=to)

    def attach(self, filename: str, content: bytes, content_type: str = "text/plain") -> Attachment:
        """A file to give to `say`."""
        return forms.file(self._world, forms.Upload("0", filename, content, content_type))

    async def edit(
        self, message: Message, text: str, *, allowed_mentions: Json | None = None
    ) -> Message:
        """Change one's own message."""
        posting.edit(self._world, message, {"content": text, "allowed_mentions": allowed_mentions})
        return message

    async def delete(self, message: Message) -> None:
        """Delete a message (people here may delete any)."""
        posting.delete(self._world, message)

    async def react(self, message: Message, emoji: str) -> None:
        """Add a reaction."""
        posting.react(self._world, message, self.id, emoji)

    async def unreact(self, message: Message, emoji: str) -> None:
        """Take one's reaction away."""
        posting.unreact(self._world, message, self.id, emoji)

    async def open_thread(self, message: Message, name: str) -> Channel:
        """Open a thread from a message."""
        parent = self._world.channel(message.channel_id)
        return threads.start(self._world, parent, self.user, name, starter=message, minutes=1440)

    async def unarchive(self, thread_id: str) -> None:
        """Take a thread out of the archive as a moderator, unlocked."""
        thread = self._world.channel(thread_id)
        if thread.thread:
            thread.thread.locked = False
        threads.archive(self._world, thread, archived=False)

    async def lock(self, thread_id: str, *, locked: bool = True) -> None:
        """Lock an open thread as a moderator, or unlock it."""
        thread = self._world.channel(thread_id)
        if thread.thread:
            thread.thread.locked = locked
        happenings.channel_changed(self._world, "THREAD_UPDATE", thread)

    async def archive(self, thread_id: str, *, locked: bool = False) -> None:
        """Archive a thread as a moderator, maybe locking it."""
        thread = self._world.channel(thread_id)
        if thread.thread:
            thread.thread.locked = locked
        threads.archive(self._world, thread, archived=True)


class Person(Actor):
    """A human account."""

    async def slash(
        self, channel_id: str, command: str, bot: "Bot", **options: str | float
    ) -> PendingInteraction:
        """Use a slash command; LookupError when the bot has not registered it."""
        channel = self._world.channel(channel_id)
        registered = self._registered(bot.user, channel, command)
        written = [
            {"name": name, "type": _OPTION_TYPES[type(value)], "value": value}
            for name, value in options.items()
        ]
        body: Json = {"id": registered["id"], "name": command, "type": 1, "options": written}
        if channel.guild_id and "guild_id" in registered:
            body["guild_id"] = channel.guild_id
        made = self._interactions.command(self.user, channel, bot.user, body)
        return PendingInteraction(self._world, made)

    @staticmethod
    def _registered(bot: User, channel: Channel, command: str) -> Json:
        known = bot.application.commands if bot.application else {}
        offered = [*known.get(channel.guild_id or "-", []), *known.get("", [])]
        for one in offered:
            if one["name"] == command:
                return one
        names = ", ".join(one["name"] for one in offered) or "none"
        raise LookupError(f"{bot.name} has no command /{command}; it has: {names}")

    async def click(self, message: Message, custom_id: str) -> PendingInteraction:
        """Press a button; LookupError when the message does not show it (any more)."""
        shown = [str(one.get("custom_id")) for one in forms.buttons(message.components)]
        if custom_id not in shown or message.deleted:
            raise LookupError(f"no button {custom_id}; the message shows: {', '.join(shown)}")
        made = self._interactions.component(self.user, message, custom_id)
        return PendingInteraction(self._world, made)

    async def choose(
        self, message: Message, custom_id: str, values: list[str]
    ) -> PendingInteraction:
        """Pick from a select menu; LookupError when the message does not offer that (any more)."""
        shown = {
            str(one.get("custom_id")): [option["value"] for option in one["options"]]
            for one in forms.buttons(message.components)
            if "options" in one
        }
        if message.deleted or not set(values) <= set(shown.get(custom_id, [])):
            raise LookupError(f"no menu {custom_id} with {values}; the message shows: {shown}")
        made = self._interactions.choice(self.user, message, custom_id, values)
        return PendingInteraction(self._world, made)


class Bot(Actor):
    """A bot's account: its token for a client, and, for a foreign bot, the actions of `Actor`."""

    @property
    def token(self) -> str:
        """What a client logs in with."""
        if self.user.application is None:
            raise LookupError(f"{self.name} is no bot")
        return self.user.application.token


class WebhookActor:
    """A webhook that posts into its channel or one of its threads."""

    def __init__(self, world: World, webhook: Webhook) -> None:
        self._world, self.webhook = world, webhook

    async def say(self, text: str, *, username: str = "", thread_id: str = "") -> Message:
        """Post a message."""
        face = User(self.webhook.id, username or self.webhook.name, webhook=True)
        channel = self._world.channel(thread_id or self.webhook.channel_id)
        draft = Draft(text, webhook_id=self.webhook.id, default_parse=posting.USERS_ONLY)
        return posting.create(self._world, channel, face, draft)
