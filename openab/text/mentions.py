"""Mentions in what people write: who is named, and the prompt without the address on it."""

import re
from collections.abc import Collection
from dataclasses import dataclass

from openab.domain.ids import PlatformId

_USER = re.compile(r"<@!?([0-9]{1,20})>")
_CHANNEL = re.compile(
    r"(?:<#)?(?P<mentioned>[0-9]{1,20})>?"
    r"|<?https?://(?:\w+\.)?discord(?:app)?\.com/channels/(?:@me|[0-9]{1,20})/(?P<linked>[0-9]{1,20})"
    r"(?:/[0-9]{1,20})?/?(?:\?\S*)?>?"
)
_ROLE = re.compile(r"<@&([0-9]{1,20})>")


@dataclass(frozen=True, slots=True)
class MentionedIds:
    """The ids that stand literally in a text."""

    users: frozenset[PlatformId]
    roles: frozenset[PlatformId]


def mentioned_ids(text: str) -> MentionedIds:
    """Who is written in the text as a mention; code blocks count, as they do for OpenAB."""
    return MentionedIds(
        users=frozenset(PlatformId(found) for found in _USER.findall(text)),
        roles=frozenset(PlatformId(found) for found in _ROLE.findall(text)),
    )


def conversation_named(text: str) -> PlatformId | None:
    """The conversation whose id, mention or link (or that of a message in it) a text is."""
    found = _CHANNEL.fullmatch(text.strip())
    return PlatformId(found["mentioned"] or found["linked"]) if found else None


def prompt_text(
    text: str, account: PlatformId | str, own_roles: Collection[PlatformId | str] = ()
) -> str:
    """What the agent reads: our own mentions and our roles' taken out, ends trimmed.

    Other roles become `@(role)`; other users stay as they are, so that the agent can name them.
    """
    without_us = _USER.sub(lambda found: "" if found[1] == account else found[0], text)
    return _ROLE.sub(lambda found: "" if found[1] in own_roles else "@(role)", without_us).strip()
