"""The `[discord]` section: who the bot is, where and to whom it listens."""

from typing import Annotated
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator

from openab.config.fields import (
    OFF,
    ON,
    Count,
    Flag,
    Hidden,
    HoursOrNever,
    Ids,
    Minutes,
    Section,
    Spelled,
    Text,
    Whole,
    ours,
    theirs,
    wrong,
)
from openab.config.secret import Secret
from openab.config.words import BotMode, DispatchMode, UserMode
from openab.domain.durations import LONGEST, SHORTEST
from openab.domain.ids import PlatformId

DISCORD_API = "https://discord.com/api/v10"


def _token(value: Secret) -> Secret:
    text = value.reveal()
    if not text.strip():
        raise wrong("the token is empty", "set the variable that it is read from")
    if text != text.strip() or any(character.isspace() for character in text):
        raise wrong("the token holds white space", "copy it again, without spaces or line ends")
    return value


def _base(value: str) -> str:
    parts = urlsplit(value)
    if parts.scheme not in ("http", "https") or not parts.netloc:
        raise wrong("this is no web address", f'write something like "{DISCORD_API}"')
    return value.rstrip("/")


def _as_long_as_a_limit(value: object) -> object:
    """As `/session` takes it: short enough to be stored, long enough to be used."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not value:
        return value
    shortest, longest = (span.total_seconds() / 3600 for span in (SHORTEST, LONGEST))
    if not shortest <= value <= longest:
        told = f"{value} hours are not from a minute to ten years"
        remedy = f"write a number from {shortest:.4f} to {longest:.0f}, or 0 for never"
        raise wrong(told, remedy)
    return value


Token = Annotated[Hidden, AfterValidator(_token), Spelled("string, never shown")]
BindingHours = Annotated[
    HoursOrNever,
    BeforeValidator(_as_long_as_a_limit),
    Spelled("number, 0 or from 0.0167 (a minute) to 87600 (ten years)"),
]
BaseAddress = Annotated[Text, AfterValidator(_base), Spelled("web address")]


class ThreadBindings(Section):
    """`[discord.thread_bindings]`: which thread talks to which session, how long, and sub-agents."""

    enabled: Flag = ours(
        ON, "Threads may be bound to another session than their own: `/focus`, sub-agents."
    )
    idle: BindingHours = ours(
        24, "End a binding after so many silent hours; 0: never.", alias="idle_hours"
    )
    max_age: BindingHours = ours(
        0, "End a binding at this age in hours; 0: never.", alias="max_age_hours"
    )
    spawn_subagent_sessions: Flag = ours(
        OFF,
        "Agents (`[[spawn:NAME]]`) and people (`/spawn`) may give a task to one of `[agents.NAME]`, "
        "which works in a thread of its own.",
    )
    max_subagents: Count = ours(5, "Sub-agents at work at once for one session.")
    max_subagent_depth: Count = ours(
        1, "With 2 a sub-agent may start sub-agents itself, and so on."
    )


class Discord(Section):
    """`[discord]`. What the allow-lists come to is in `channels` and `users`."""

    bot_token: Token = theirs(..., "The bot's token.")
    allow_all_channels: Flag | None = theirs(
        None, "Listen everywhere? Absent: yes if `allowed_channels` is empty."
    )
    allowed_channels: Ids = theirs((), "Channels to listen in, threads included.")
    allow_all_users: Flag | None = theirs(
        None, "Listen to everybody? Absent: yes if `allowed_users` is empty."
    )
    allowed_users: Ids = theirs((), "People to listen to.")
    allowed_role_ids: Ids = theirs(
        (), "Mentioning one of these roles counts as mentioning the bot."
    )
    peer_agent_role_ids: Ids = theirs(
        (), "Roles of other bots; mentioning one is not for this bot."
    )
    allow_dm: Flag = theirs(OFF, "Answer direct messages.")
    allow_user_messages: UserMode = theirs(
        "multibot-mentions",
        "When people must mention the bot: only outside threads it takes part in, always, "
        "or also there once another bot has spoken.",
    )
    allow_bot_messages: BotMode = theirs("off", "Which messages of other bots may start a turn.")
    trusted_bot_ids: Ids = theirs(
        (), "Bots to listen to, and to hand work to; empty: see `allow_bot_messages`."
    )
    max_bot_turns: Whole = theirs(100, "Turns that bots may take in a row before a person speaks.")
    message_processing_mode: DispatchMode = theirs(
        "per-message", "One turn per message, or what waits per thread, or per thread and sender."
    )
    max_buffered_messages: Count = theirs(10, "Messages in one turn, at most.")
    max_batch_tokens: Count = theirs(24000, "Estimated tokens in one turn, at most.")
    api_base: BaseAddress = ours(
        DISCORD_API, "Another base for Discord's API, for instance a rate-limiting proxy."
    )
    backfill: Minutes = ours(
        60,
        "Answer what was said while openab was away, at most so many minutes old and 50 messages "
        "in a conversation; 0: nothing of it.",
        alias="backfill_minutes",
    )
    operators: Ids = ours((), "People who may cancel, reset and rebind for others.")
    thread_bindings: ThreadBindings = ours({}, "")

    @property
    def channels(self) -> frozenset[PlatformId] | None:
        """The channels to listen in; None: all."""
        return _allowed(self.allowed_channels, everybody=self.allow_all_channels)

    @property
    def users(self) -> frozenset[PlatformId] | None:
        """The people to listen to; None: everybody."""
        return _allowed(self.allowed_users, everybody=self.allow_all_users)


def _allowed(
    listed: frozenset[PlatformId], *, everybody: bool | None
) -> frozenset[PlatformId] | None:
    is_open = not listed if everybody is None else everybody
    return None if is_open else listed
