"""Permission bits and who has them by default (Discord API documentation)."""

from collections.abc import Iterable

BITS: dict[str, int] = {
    "manage_channels": 1 << 4,
    "add_reactions": 1 << 6,
    "view_channel": 1 << 10,
    "send_messages": 1 << 11,
    "manage_messages": 1 << 13,
    "embed_links": 1 << 14,
    "attach_files": 1 << 15,
    "read_message_history": 1 << 16,
    "mention_everyone": 1 << 17,
    "manage_webhooks": 1 << 29,
    "use_application_commands": 1 << 31,
    "manage_threads": 1 << 34,
    "create_public_threads": 1 << 35,
    "send_messages_in_threads": 1 << 38,
}

#: What a fresh guild's @everyone has, and so every bot; mention_everyone is on in a fresh guild.
DEFAULT = frozenset(BITS) - {
    "manage_channels",
    "manage_messages",
    "manage_webhooks",
    "manage_threads",
}


def bits(names: Iterable[str]) -> int:
    """The names as one number."""
    return sum(BITS[name] for name in set(names))


def known(names: Iterable[str]) -> set[str]:
    """The names, checked: a misspelt permission is a mistake of the test, told at once."""
    wanted = set(names)
    if unknown := wanted - set(BITS):
        raise ValueError(f"no such permission: {', '.join(sorted(unknown))}")
    return wanted
