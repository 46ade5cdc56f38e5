"""What openab says: the one place where message bodies are made.

A body names at most one user who may be pinged; everything else in its text is inert because the
adapter sends an explicit `allowed_mentions` with every body. Presentation messages (placeholder,
notices) are silent and begin with `-# `, which marks them as never being input for a bot.
"""

import hashlib
from dataclasses import dataclass, replace

from openab.domain.ids import PlatformId

#: Discord's small-text marker; with the silent flag it marks a presentation message.
PRESENTATION_PREFIX = "-# "


@dataclass(frozen=True, slots=True)
class Button:
    """A button under a message; `custom_id` is at most 100 characters."""

    custom_id: str
    label: str
    #: secondary | primary | success | danger
    style: str = "secondary"


@dataclass(frozen=True, slots=True)
class MenuItem:
    """A line of a menu; `value` comes back when it is picked. Texts are at most 100 characters."""

    value: str
    label: str
    description: str = ""
    is_current: bool = False


@dataclass(frozen=True, slots=True)
class Menu:
    """One page of a select menu, at most 25 items. `turners` are the ◀ and ▶ that lead somewhere."""

    custom_id: str
    placeholder: str
    items: tuple[MenuItem, ...]
    page: int
    pages: int
    turners: tuple[Button, ...] = ()


@dataclass(frozen=True, slots=True)
class CommandAnswer:
    """What the author of a command is told; nobody else sees it, and it is never stored."""

    text: str
    menu: Menu | None = None
    buttons: tuple[Button, ...] = ()


@dataclass(frozen=True, slots=True)
class MessageBody:
    """A complete message as it is owed. Equal bodies under one nonce are the same message."""

    content: str
    #: The only user whom this body may ping.
    mention: PlatformId | None = None
    #: The message this one replies to; it pings its author only if `mention` names them.
    reply_to: PlatformId | None = None
    #: SUPPRESS_NOTIFICATIONS: it makes no sound (create only).
    silent: bool = False
    buttons: tuple[Button, ...] = ()
    #: A reply pings the author of the message replied to; they are not always the one in `mention`.
    pings_author: bool = True
    #: SUPPRESS_EMBEDS: no link in it is shown as a card.
    is_bare: bool = False
    #: The name under which it is shown, where the network can show another than the account's.
    persona: str = ""

    @property
    def digest(self) -> str:
        """The normalised digest: how a message is recognised though Discord trims its text."""
        return content_digest(self.content)


def content_digest(content: str) -> str:
    """A digest that survives what Discord does to a text: white space at line and text ends is trimmed."""
    lines = (line.rstrip() for line in content.replace("\r\n", "\n").strip().split("\n"))
    return hashlib.sha256("\n".join(lines).encode("utf-8", "replace")).hexdigest()[:32]


def presentation_body(text: str, buttons: tuple[Button, ...] = ()) -> MessageBody:
    """A placeholder or a notice: silent, pings nobody, marked with the presentation prefix."""
    marked = text if text.startswith(PRESENTATION_PREFIX) else PRESENTATION_PREFIX + text
    return MessageBody(content=marked, silent=True, buttons=buttons)


def answer_body(
    text: str,
    *,
    mention: PlatformId | None = None,
    reply_to: PlatformId | None = None,
    pings_author: bool = True,
) -> MessageBody:
    """A part of a final answer; `text` is neutralised already, so that only `mention` can ping."""
    return MessageBody(content=text, mention=mention, reply_to=reply_to, pings_author=pings_author)


def persona_body(text: str, persona: str) -> MessageBody:
    """Something shown under a sub-agent's name: `text` is neutralised already, and nobody is pinged.

    It is a presentation message, since other bots in the thread see it as a bot's.
    """
    return replace(presentation_body(text), is_bare=True, persona=persona)


def handoff_body(envelope: str, target: PlatformId) -> MessageBody:
    """A hand-off as it is written: inert by its own escaping, so that only its target can be pinged."""
    return MessageBody(content=envelope, mention=target, is_bare=True)


def is_presentation(content: str, *, silent: bool) -> bool:
    """Whether a bot's message is a presentation message of an openab, and so never input."""
    return silent and content.startswith(PRESENTATION_PREFIX)
