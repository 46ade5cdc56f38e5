"""What the control plane itself says: placeholders and notices as message bodies."""

from openab.domain.ids import TurnId
from openab.domain.outbound import MessageBody, presentation_body
from openab.text.buttons import stop_button
from openab.text.notices import queued_behind


def first_placeholder(turn: TurnId) -> MessageBody:
    """What is shown before anything is known."""
    return presentation_body("⏳ starting", buttons=(stop_button(turn),))


def queued_placeholder(turn: TurnId, before: int) -> MessageBody:
    """What is shown of a turn that has to wait."""
    return presentation_body(queued_behind(before), buttons=(stop_button(turn),))
