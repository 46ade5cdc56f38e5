"""Slash commands and buttons: made by people, answered by one application (Discord API documentation)."""

import secrets
from dataclasses import dataclass, field

from openab.simulator.discord import happenings, message_shapes, permissions, posting, shapes
from openab.simulator.discord.errors import Json, refused
from openab.simulator.discord.posting import USERS_ONLY, Draft
from openab.simulator.discord.records import CHAT_INPUT, EPHEMERAL, Channel, Message, User
from openab.simulator.discord.world import Viewer, World

COMMAND, COMPONENT = 2, 3
MESSAGE, DEFERRED_MESSAGE, DEFERRED_UPDATE, UPDATE = 4, 5, 6, 7


@dataclass(frozen=True)
class Callback:
    """The first answer to an interaction: its type and its data."""

    type: int
    data: Json


@dataclass(eq=False)
class Interaction:
    """One press or command, with the token that lives 15 minutes."""

    id: str
    token: str
    application_id: str
    kind: int
    user: User
    channel: Channel
    made_at: float
    data: Json
    source: Message | None = None
    callback: Callback | None = None
    original: Message | None = None
    followups: list[Message] = field(default_factory=list)


class Interactions:
    """All interactions; the first answer is due in 3 s, once; the token dies after 15 minutes."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._by_token: dict[str, Interaction] = {}
        self.first_answer_seconds = 3.0
        self.token_seconds = 900.0

    def command(self, user: User, channel: Channel, bot: User, data: Json) -> Interaction:
        """Somebody used a slash command."""
        return self._make(user, channel, bot.id, COMMAND, data, None)

    def component(self, user: User, message: Message, custom_id: str) -> Interaction:
        """Somebody pressed a button; in an archived thread it never reaches the bot (docs #8474)."""
        channel = self._world.channels[message.channel_id]
        data: Json = {"component_type": 2, "custom_id": custom_id, "id": 1}
        owner = message.application_id or message.author.id
        return self._make(user, channel, owner, COMPONENT, data, message)

    def choice(
        self, user: User, message: Message, custom_id: str, values: list[str]
    ) -> Interaction:
        """Somebody picked from a select menu."""
        channel = self._world.channels[message.channel_id]
        data: Json = {"component_type": 3, "custom_id": custom_id, "id": 1, "values": values}
        owner = message.application_id or message.author.id
        return self._make(user, channel, owner, COMPONENT, data, message)

    def _make(
        self,
        user: User,
        channel: Channel,
        application_id: str,
        kind: int,
        data: Json,
        source: Message | None,
    ) -> Interaction:
        made = Interaction(
            self._world.snowflakes.next(),
            secrets.token_urlsafe(32),
            application_id,
            kind,
            user,
            channel,
            self._world.clock.monotonic(),
            data,
            source,
        )
        self._by_token[made.token] = made
        if not (channel.thread and channel.thread.archived and kind == COMPONENT):
            happenings.interaction_made(self._world, application_id, self._shape(made))
        return made

    def _shape(self, made: Interaction) -> Json:
        world, channel = self._world, made.channel
        shape: Json = {
            "id": made.id,
            "application_id": made.application_id,
            "type": made.kind,
            "token": made.token,
            "version": 1,
            "data": made.data,
            "channel_id": channel.id,
            "channel": shapes.channel(world, channel)
            | {"permissions": str(permissions.bits(world.permissions(made.user.id, channel)))},
            "locale": "en-US",
            "entitlements": [],
            "authorizing_integration_owners": {"0": channel.guild_id or "0"},
            "context": 0 if channel.guild_id else 1,
            "attachment_size_limit": 10 * 1024 * 1024,
            "app_permissions": str(
                permissions.bits(world.permissions(made.application_id, channel))
            ),
        }
        return shape | self._who(made) | self._source(made)

    def _who(self, made: Interaction) -> Json:
        if made.channel.guild_id is None:
            return {"user": shapes.user(made.user)}
        guild = self._world.guilds[made.channel.guild_id]
        member = shapes.member(guild, made.user, with_user=True)
        member["permissions"] = str(
            permissions.bits(self._world.permissions(made.user.id, made.channel))
        )
        return {
            "guild_id": guild.id,
            "guild_locale": "en-US",
            "guild": {"id": guild.id, "locale": "en-US", "features": []},
            "member": member,
        }

    def _source(self, made: Interaction) -> Json:
        if made.source is None:
            return {}
        viewer = Viewer(made.application_id)
        return {"message": message_shapes.message(self._world, made.source, viewer)}

    def answer(self, interaction_id: str, token: str, kind: int, draft: Draft) -> Interaction:
        """The first answer. Too late or unknown is 10062, a second one 40060."""
        made = self._by_token.get(token)
        if made is None or made.id != interaction_id:
            raise refused(10062)
        if made.callback is not None:
            raise refused(40060)
        if self._world.clock.monotonic() - made.made_at > self.first_answer_seconds:
            raise refused(10062)
        self._apply(made, kind, draft)
        return made

    def owner(self, token: str) -> Interaction | None:
        """The interaction a token belongs to, whatever its state."""
        return self._by_token.get(token)

    def record(self, made: Interaction, callback: Callback) -> None:
        """Keep the answer and wake whoever waits for it."""
        made.callback = callback
        self._world.changed.notify()

    def _apply(self, made: Interaction, kind: int, draft: Draft) -> None:
        if kind == MESSAGE:
            made.original = self._post(made, draft, draft.flags)
        elif kind == DEFERRED_MESSAGE:
            draft.is_loading = True
            made.original = self._post(made, draft, draft.flags)
        elif kind in {DEFERRED_UPDATE, UPDATE}:
            made.original = made.source

    def _post(self, made: Interaction, draft: Draft, flags: int) -> Message:
        draft.default_parse = USERS_ONLY
        draft.type = CHAT_INPUT if made.kind == COMMAND else draft.type
        draft.application_id = made.application_id
        draft.interaction = {
            "id": made.id,
            "type": made.kind,
            "user": shapes.user(made.user),
            "authorizing_integration_owners": {},
        }
        draft.ephemeral_for = made.user.id if flags & EPHEMERAL else None
        author = self._world.users[made.application_id]
        return posting.create(self._world, made.channel, author, draft)

    def of_token(self, application_id: str, token: str) -> Interaction:
        """The interaction behind a follow-up address; unanswered is 10015, after 15 min 50027."""
        made = self._by_token.get(token)
        if made is None or made.application_id != application_id or made.callback is None:
            raise refused(10015)
        if self._world.clock.monotonic() - made.made_at > self.token_seconds:
            raise refused(50027)
        return made

    def followup(self, made: Interaction, draft: Draft) -> Message:
        """One more message; it does not resolve a deferred answer."""
        message = self._post(made, draft, draft.flags)
        made.followups.append(message)
        return message

    def message(self, made: Interaction, message_id: str) -> Message:
        """`@original` or one of the follow-ups, or 10008."""
        known = [*made.followups, *([made.original] if made.original else [])]
        if message_id == "@original":
            known = [made.original] if made.original else []
        else:
            known = [one for one in known if one.id == message_id]
        if not known or known[0].deleted:
            raise refused(10008)
        return known[0]
