"""A hand-off: one validated, single-use message by which a bot gives work to another.

Pure: the wire, the claim, the checks and the numbers. What is spent by accepting one is decided in
`openab.storage.handoffs`.
"""

from openab.domain.handoff.candidates import Candidate, candidate, event_id_of
from openab.domain.handoff.checks import Receiver, judged
from openab.domain.handoff.envelope import SCHEMA, SCHEMA_FAMILY, Envelope, draft, reissued
from openab.domain.handoff.lifecycle import (
    LIFECYCLE,
    Abandoned,
    Direction,
    HandoffEvent,
    HandoffState,
    Posted,
)
from openab.domain.handoff.reasons import MEANINGS, REMEDIES, NotSent, Refusal
from openab.domain.handoff.sent import event_in, sent_in
from openab.domain.handoff.wire import NotSendable, TooLarge, refusal_to_send, room, written

__all__ = [
    "LIFECYCLE",
    "MEANINGS",
    "REMEDIES",
    "SCHEMA",
    "SCHEMA_FAMILY",
    "Abandoned",
    "Candidate",
    "Direction",
    "Envelope",
    "HandoffEvent",
    "HandoffState",
    "NotSendable",
    "NotSent",
    "Posted",
    "Receiver",
    "Refusal",
    "TooLarge",
    "candidate",
    "draft",
    "event_id_of",
    "event_in",
    "judged",
    "refusal_to_send",
    "reissued",
    "room",
    "sent_in",
    "written",
]
