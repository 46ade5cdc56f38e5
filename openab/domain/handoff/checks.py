"""May this claim be a hand-off to us? Ordered checks, each with its own reason word; nothing is spent."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from openab.domain.handoff.candidates import Candidate
from openab.domain.handoff.envelope import SCHEMA, Envelope
from openab.domain.handoff.limits import LONGEST_LIFE
from openab.domain.handoff.reasons import Refusal
from openab.domain.ids import AccountId, PlatformId

_ID = re.compile(r"[0-9]{1,20}")


@dataclass(frozen=True, slots=True)
class Receiver:
    """Who judges, where and when; `now` is the database's clock."""

    account: AccountId
    conversation: PlatformId
    #: Empty: nobody is trusted.
    trusted: frozenset[str]
    now: datetime


@dataclass(frozen=True, slots=True)
class _Case:
    candidate: Candidate
    author: PlatformId
    receiver: Receiver
    document: Mapping[str, Any]

    @property
    def text(self) -> object:
        payload = self.document.get("payload")
        return payload.get("text") if isinstance(payload, dict) else None


def judged(candidate: Candidate, author: PlatformId, receiver: Receiver) -> Envelope | Refusal:
    """The envelope, if every check lets it pass; else the first reason against it."""
    case = _Case(candidate, author, receiver, candidate.document or {})
    for holds, refusal in _CHECKS:
        if not holds(case):
            return refusal
    return envelope_in(case.document, candidate.event_id or "")


def _has_expiry(case: _Case) -> bool:
    return type(case.document.get("expires_at")) is int


def _lives(case: _Case) -> bool:
    return bool(case.receiver.now.timestamp() < case.document["expires_at"])


def _ends_soon(case: _Case) -> bool:
    latest = case.receiver.now + LONGEST_LIFE
    return bool(case.document["expires_at"] <= latest.timestamp())


def _has_no_hop(case: _Case) -> bool:
    hops = case.document.get("hop_count")
    return type(hops) is int and hops == 0


def _is_from_here(case: _Case) -> bool:
    here, document = case.receiver.conversation, case.document
    message = document.get("origin_message_id")
    return (
        document.get("origin_channel_id") == here
        and document.get("origin_thread_id") in (None, here)
        and (message is None or _is_id(message))
    )


def _is_id(value: object) -> bool:
    return isinstance(value, str) and bool(_ID.fullmatch(value))


def _has_text(case: _Case) -> bool:
    return isinstance(case.text, str) and bool(case.text.strip())


def _is_whole_text(case: _Case) -> bool:
    return not any("\ud800" <= char <= "\udfff" for char in str(case.text))


_CHECKS: tuple[tuple[Callable[[_Case], bool], Refusal], ...] = (
    (lambda case: not case.candidate.is_too_large, Refusal.TOO_LARGE),
    (lambda case: case.candidate.document is not None, Refusal.NOT_JSON),
    (lambda case: not case.candidate.has_duplicate_key, Refusal.DUPLICATE_KEY),
    (lambda case: case.document.get("schema") == SCHEMA, Refusal.WRONG_SCHEMA),
    (lambda case: case.document.get("source_bot_id") == case.author, Refusal.WRONG_SOURCE),
    (lambda case: case.author != str(case.receiver.account), Refusal.OWN_HANDOFF),
    (lambda case: case.author in case.receiver.trusted, Refusal.SOURCE_NOT_TRUSTED),
    (
        lambda case: case.document.get("target_bot_id") == str(case.receiver.account),
        Refusal.WRONG_TARGET,
    ),
    (
        lambda case: case.candidate.first_line == f"<@{case.receiver.account}>",
        Refusal.WRONG_FIRST_LINE,
    ),
    (lambda case: case.candidate.event_id is not None, Refusal.WRONG_EVENT_ID),
    (_has_expiry, Refusal.WRONG_EXPIRY),
    (_lives, Refusal.EXPIRED),
    (_ends_soon, Refusal.EXPIRES_TOO_LATE),
    (_has_no_hop, Refusal.WRONG_HOP_COUNT),
    (_is_from_here, Refusal.WRONG_ORIGIN),
    (_has_text, Refusal.NO_TEXT),
    (_is_whole_text, Refusal.LONE_SURROGATE),
)


def envelope_in(document: Mapping[str, Any], event_id: str) -> Envelope:
    """The envelope that a checked document is, or one of our own."""
    return Envelope(
        source=PlatformId(document["source_bot_id"]),
        target=PlatformId(document["target_bot_id"]),
        event_id=event_id,
        origin_channel=PlatformId(document["origin_channel_id"]),
        origin_thread=document.get("origin_thread_id"),
        origin_message=document.get("origin_message_id"),
        expires_at=document["expires_at"],
        text=document["payload"]["text"],
    )
