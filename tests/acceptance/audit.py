"""What is looked for in everything a broker sent, showed and logged."""

import json
import re
from collections.abc import Collection
from datetime import datetime
from itertools import pairwise

from openab.simulator.discord import LoopbackDiscord, Message

#: Written anew on purpose: a mistake in the product's own pattern must not hide itself.
_MENTION = re.compile(r"<@[!&]?\d+>|@(?:everyone|here)")
#: A message that gives work to another bot; it alone pings one.
_HANDOFF = re.compile(r'<@(\d+)>\n\{"schema":"openab\.multibot\.handoff\.v1",')
#: Events that only a mistake in the code brings about.
_BUGS = {"broker_failed", "intake_event_failed"}
_LEVELS = {"debug", "info", "warning", "error", "critical"}


def check_bodies(
    discord: LoopbackDiscord, people: Collection[str], foreign: Collection[str] = ()
) -> None:
    """Every body with shown text says whom it may mention: nobody, a human it answers, a hand-off's target.

    What `foreign` bots write, and the webhooks that they made, is nobody's promise.
    """
    hooks = discord.world.webhooks.values()
    not_ours = {*foreign, *(hook.id for hook in hooks if hook.creator_id in foreign)}
    for request, body in discord.journal.content_bodies():
        if request.bot_id in not_ours:
            continue
        allowed = body.get("allowed_mentions")
        told = f"{request.method} {request.path}: {allowed} {body['content'][:120]!r}"
        assert isinstance(allowed, dict), f"no allowed_mentions: {told}"
        assert allowed.get("parse") == [], f"something is parsed: {told}"
        assert not allowed.get("roles"), f"a role is allowed: {told}"
        users = set(allowed.get("users") or ())
        handoff = _HANDOFF.match(body["content"])
        may = {handoff[1]} if handoff else set(people)
        assert users <= may, f"somebody else is allowed: {told}"
        live = set(_MENTION.findall(body["content"])) - {f"<@{user}>" for user in users}
        assert not live, f"live mentions {live}: {told}"


def check_log(text: str, token: str) -> None:
    """Every line is one JSON object with an event and a level, and the token is in none."""
    assert token not in text, "the token was logged"
    for line in text.splitlines():
        entry = json.loads(line)
        assert entry["event"], line
        assert entry["level"] in _LEVELS, line
        assert entry["event"] not in _BUGS, line


def shown_changes(message: Message, until: datetime | None = None) -> list[datetime]:
    """When people saw this message become another, its posting first."""
    changes = [(message.created_at, message.contents[0])]
    for edit in message.edits:
        if edit.content != changes[-1][1] and (until is None or edit.at <= until):
            changes.append((edit.at, edit.content))
    return [at for at, _ in changes]


def longest_gap(moments: list[datetime]) -> float:
    """The longest span between two neighbours, in seconds."""
    ordered = sorted(moments)
    pairs = pairwise(ordered)
    return max(((later - earlier).total_seconds() for earlier, later in pairs), default=0.0)


def fences_are_balanced(text: str) -> bool:
    """Whether every code fence that a message opens is closed in it."""
    return sum(line.startswith("```") for line in text.split("\n")) % 2 == 0
