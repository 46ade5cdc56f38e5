"""Focus, unfocus and session: what a conversation is bound to, for whoever bound it or an operator."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta

import structlog

from openab.control.binding_rights import may_change_binding
from openab.control.commands_focus import focus
from openab.control.settings import Settings
from openab.domain.binding import EndReason, SessionBinding
from openab.domain.durations import LONGEST, SHORTEST, duration
from openab.domain.message import Author, CommandKind, Place
from openab.storage import bindings, conversations
from openab.storage.conversations import Conversation
from openab.storage.engine import Transaction
from openab.text import binding_replies as replies

log = structlog.get_logger()
ABOUT_BINDINGS = frozenset({CommandKind.FOCUS, CommandKind.UNFOCUS, CommandKind.SESSION})
#: The options' names, as people see them.
SESSION, IDLE, MAX_AGE = "session", "idle", "max-age"
_OFF = frozenset({"off", "never", "none", "0"})


class _NoDuration(ValueError):
    """A limit that is none."""


async def about_binding(
    tx: Transaction,
    settings: Settings,
    here: Conversation,
    author: Author,
    kind: CommandKind,
    asked: Mapping[str, str],
) -> str:
    """Do one of the three, with the options that were filled in. Returns what the author is told."""
    if not settings.binding.enabled:
        return replies.switched_off()
    if author.is_other_bot:
        return replies.for_people()
    if here.place is Place.CHANNEL:
        return replies.not_in_a_channel()
    if kind is CommandKind.FOCUS:
        return await focus(tx, settings, here, author, asked.get(SESSION, ""))
    await conversations.hold(tx, here.id)
    binding = await settings.bindings.resolve_by_conversation(tx, here.id)
    if binding is None:
        return replies.nothing_bound()
    if kind is CommandKind.SESSION and not asked:
        return replies.bound(binding)
    if not await may_change_binding(tx, settings, binding, author):
        return replies.binding_not_yours()
    if kind is CommandKind.UNFOCUS:
        await settings.bindings.unbind(tx, binding.binding_id, EndReason.UNFOCUSED)
        return replies.unfocused()
    return await _limit(tx, settings, here, binding, asked)


async def _limit(
    tx: Transaction,
    settings: Settings,
    here: Conversation,
    binding: SessionBinding,
    asked: Mapping[str, str],
) -> str:
    limits = binding.limits
    try:
        if IDLE in asked:
            limits = replace(limits, idle=_limit_of(asked[IDLE]))
        if MAX_AGE in asked:
            limits = replace(limits, max_age=_limit_of(asked[MAX_AGE]))
    except _NoDuration as error:
        return replies.no_duration(str(error))
    # Whoever sets its limits uses it: a shorter silence begins now.
    await settings.bindings.touch(tx, binding.binding_id)
    await bindings.limit(tx, binding.binding_id, limits)
    after = await settings.bindings.resolve_by_conversation(tx, here.id)
    tx.after_commit(lambda: log.info("binding_limited", binding=binding.binding_id))
    return replies.limits_changed(after) if after else replies.over_at_once()


def _limit_of(typed: str) -> timedelta | None:
    if typed.strip().lower() in _OFF:
        return None
    limit = duration(typed)
    if limit is None or not SHORTEST <= limit <= LONGEST:
        raise _NoDuration(typed)
    return limit
