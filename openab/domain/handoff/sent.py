"""Reads a message of our own back: the hand-off that we wrote into it."""

from openab.domain.handoff.candidates import candidate
from openab.domain.handoff.checks import envelope_in
from openab.domain.handoff.envelope import Envelope
from openab.domain.message import AuthorKind


def sent_in(content: str) -> Envelope | None:
    """The hand-off that a message as we write them carries; None: it carries none."""
    claim = candidate(content, AuthorKind.SELF)
    if claim is None or not claim.document or claim.event_id is None:
        return None
    return envelope_in(claim.document, claim.event_id)


def event_in(content: str) -> str | None:
    """Only the event that a message of ours names, whatever else stands in it."""
    claim = candidate(content, AuthorKind.SELF)
    return claim.event_id if claim else None
