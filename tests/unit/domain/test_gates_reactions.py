"""May somebody's reaction start a turn: the mapping, and the checks in their order."""

from dataclasses import replace

import pytest

from openab.domain.gates import (
    ConversationFacts,
    Disposition,
    GatePolicy,
    UserMode,
    Verdict,
    judge_reaction,
    mapped_text,
    plain_emoji,
)
from openab.domain.message import AuthorKind, CommandKind, InboundReaction, Place
from tests.builders import ACCOUNT, a_reaction, an_author

POLICY = GatePolicy(ACCOUNT)
INVOLVED = ConversationFacts(is_involved=True)
AMONG_BOTS = ConversationFacts(is_involved=True, has_other_bot=True)
THEIRS = a_reaction(message_author="31")


def told(
    reaction: InboundReaction,
    facts: ConversationFacts = INVOLVED,
    policy: GatePolicy = POLICY,
    text: str = "go on",
) -> str:
    return judge_reaction(reaction, text, facts, policy).reason


@pytest.mark.parametrize(
    ("reaction", "facts", "changes", "reason"),
    [
        (a_reaction(), INVOLVED, {}, "reaction"),
        (THEIRS, INVOLVED, {}, "reaction"),
        (a_reaction(), ConversationFacts(), {}, "not_involved"),
        (a_reaction(), AMONG_BOTS, {}, "reaction"),
        (THEIRS, AMONG_BOTS, {}, "reaction_among_bots"),
        (a_reaction(message_author=None), AMONG_BOTS, {}, "reaction_among_bots"),
        (a_reaction(), INVOLVED, {"user_mode": UserMode.MENTIONS}, "mention_needed"),
        (a_reaction(place=Place.CHANNEL), INVOLVED, {}, "reaction_outside_thread"),
        (a_reaction(place=Place.DM), INVOLVED, {}, "dm_off"),
        (a_reaction(place=Place.DM), ConversationFacts(), {"allow_dm": True}, "reaction"),
        (a_reaction(), INVOLVED, {"allowed_channels": frozenset({"1"})}, "channel_not_allowed"),
        (a_reaction(), INVOLVED, {"allowed_channels": frozenset({"77"})}, "reaction"),
        (a_reaction(), INVOLVED, {"allowed_users": frozenset({"1"})}, "user_not_allowed"),
        (a_reaction(), replace(INVOLVED, is_closed=True), {}, "conversation_gone"),
        (a_reaction(author=an_author("50", AuthorKind.BOT)), INVOLVED, {}, "bot_reaction"),
        (a_reaction(author=an_author(ACCOUNT, AuthorKind.SELF)), INVOLVED, {}, "own_reaction"),
    ],
)
def test_a_reaction_obeys_modes_places_and_lists(
    reaction: InboundReaction, facts: ConversationFacts, changes: dict[str, object], reason: str
) -> None:
    assert told(reaction, facts, replace(POLICY, **changes)) == reason  # type: ignore[arg-type]


def test_a_stranger_who_reacts_is_not_told_off() -> None:
    policy = replace(POLICY, allowed_users=frozenset({"1"}))
    verdict = judge_reaction(a_reaction(), "go", INVOLVED, policy)
    assert verdict.disposition is Disposition.IGNORED


def test_it_can_stand_for_a_command_and_for_nothing() -> None:
    verdict = judge_reaction(a_reaction(), "!cancel", INVOLVED, POLICY)
    assert verdict == Verdict(Disposition.COMMAND, "text_command", command=CommandKind.CANCEL)
    assert told(a_reaction(), text=" ") == "empty"


def test_only_a_mapped_emoji_says_something() -> None:
    mapping = {plain_emoji("❤\ufe0f"): "love", "party": "never"}
    assert mapped_text(a_reaction("❤\ufe0f"), mapping) == "love"
    assert mapped_text(a_reaction("❤"), mapping) == "love"
    assert mapped_text(a_reaction("👍"), mapping) is None
    assert mapped_text(replace(a_reaction("party"), is_custom=True), mapping) is None
