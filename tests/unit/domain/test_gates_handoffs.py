"""Which messages are looked at as hand-offs, and in which order the reasons against one speak."""

import json
from dataclasses import replace
from typing import Any

import pytest

from openab.domain.gates import (
    ConversationFacts,
    Disposition,
    GatePolicy,
    Verdict,
    claim_of,
    judge_handoff,
    may_claim,
)
from openab.domain.handoff import Envelope, Refusal
from openab.domain.ids import PlatformId
from openab.domain.message import AuthorKind, InboundMessage, MessageKind, Place
from tests.builders import ACCOUNT, HOME, SENT_AT, a_message, a_ref, an_author

ROLE, MANAGED = PlatformId("7001"), PlatformId("7002")
POLICY = GatePolicy(ACCOUNT, trusted_bots=frozenset({"901"}), own_roles=frozenset({ROLE}))
OPEN = ConversationFacts()


def a_handoff(first: str = "<@900>", target: str = ACCOUNT, **changes: Any) -> InboundMessage:
    document = {
        "schema": "openab.multibot.handoff.v1",
        "source_bot_id": "901",
        "target_bot_id": target,
        "event_id": "0b0d9c4e-7a35-4c6e-9d4f-3f0a5f0d3b11",
        "origin_channel_id": "500",
        "expires_at": int(SENT_AT.timestamp()) + 300,
        "hop_count": 0,
        "payload": {"text": "Do it."},
    }
    plain = a_message(
        f"{first}\n{json.dumps(document)}",
        ref=a_ref("500", HOME),
        place=Place.THREAD,
        author=an_author("901", AuthorKind.BOT),
    )
    return replace(plain, **changes)


def judged(
    message: InboundMessage, facts: ConversationFacts = OPEN, policy: GatePolicy = POLICY
) -> Envelope | Refusal | Verdict:
    claim = claim_of(message)
    assert claim is not None
    return judge_handoff(claim, message, facts, policy, SENT_AT)


def test_a_good_one_is_an_envelope() -> None:
    found = judged(a_handoff())
    assert isinstance(found, Envelope)
    assert found.text == "Do it."
    assert may_claim(a_handoff())


@pytest.mark.parametrize("kind", [AuthorKind.HUMAN, AuthorKind.WEBHOOK])
def test_people_and_webhooks_claim_nothing(kind: AuthorKind) -> None:
    assert claim_of(a_handoff(author=an_author("901", kind))) is None


@pytest.mark.parametrize("changes", [{"edited": True}, {"kind": MessageKind.SYSTEM}])
def test_edits_and_system_messages_claim_nothing(changes: dict[str, Any]) -> None:
    assert claim_of(a_handoff(**changes)) is None


@pytest.mark.parametrize("changes", [{"edited": True}, {"silent": True}])
def test_what_was_edited_or_silent_in_history_is_ignored(changes: dict[str, Any]) -> None:
    found = judged(a_handoff(from_history=True, **changes))
    assert found == Verdict(Disposition.IGNORED, "presentation_history")


def test_a_live_silent_one_counts() -> None:
    assert isinstance(judged(a_handoff(silent=True)), Envelope)


def test_what_names_others_is_ignored_before_anything_is_checked() -> None:
    ignored = Verdict(Disposition.IGNORED, "handoff_for_other_bot")
    assert judged(a_handoff("<@902>")) == ignored
    assert judged(a_handoff("<@902>", target="902")) == ignored
    assert judged(a_handoff("<@&7009>", mentioned_roles=frozenset({PlatformId("7009")}))) == ignored


@pytest.mark.parametrize(
    "changes",
    [
        {"mentioned_roles": frozenset({ROLE})},
        {"mentioned_roles": frozenset({MANAGED}), "managed_roles": frozenset({MANAGED})},
    ],
)
def test_a_role_of_ours_addresses_us_and_is_refused(changes: dict[str, Any]) -> None:
    assert judged(a_handoff("<@&7001>", **changes)) is Refusal.WRONG_FIRST_LINE


def test_our_own_are_echoes_unless_they_name_ourselves() -> None:
    us = an_author(ACCOUNT, AuthorKind.SELF)
    assert claim_of(a_handoff("<@902>", author=us)) is None
    assert judged(a_handoff(author=us)) is Refusal.WRONG_SOURCE


@pytest.mark.parametrize(
    ("facts", "policy", "reason"),
    [
        (ConversationFacts(is_closed=True), POLICY, Refusal.CONVERSATION_GONE),
        (OPEN, replace(POLICY, allowed_channels=frozenset({"1"})), Refusal.CHANNEL_NOT_ALLOWED),
        (ConversationFacts(is_capped=True), POLICY, Refusal.BOT_TURN_CAP),
    ],
)
def test_the_gates_speak_behind_the_checks(
    facts: ConversationFacts, policy: GatePolicy, reason: Refusal
) -> None:
    assert judged(a_handoff(), facts, policy) is reason
    assert judged(a_handoff(target="902"), facts, policy) is Refusal.WRONG_TARGET
    distrusting = replace(policy, trusted_bots=frozenset())
    assert judged(a_handoff(), facts, distrusting) is Refusal.SOURCE_NOT_TRUSTED


def test_direct_messages_are_off_or_not() -> None:
    direct = a_handoff(place=Place.DM)
    assert judged(direct) is Refusal.DM_OFF
    assert isinstance(judged(direct, policy=replace(POLICY, allow_dm=True)), Envelope)
