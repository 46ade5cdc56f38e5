"""The placeholders that the control plane owes, as message bodies."""

from openab.domain.ids import TurnId
from openab.domain.outbound import MessageBody, presentation_body
from openab.text import notices
from openab.text.buttons import stop_button


def first_placeholder(turn: TurnId) -> MessageBody:
    """What is shown before anything is known."""
    return presentation_body(notices.starting(), buttons=(stop_button(turn),))


def later_placeholder(turn: TurnId) -> MessageBody:
    """What takes the place of a placeholder that is too old to be edited much longer."""
    return presentation_body(notices.still_working(), buttons=(stop_button(turn),))


def recovering_placeholder(turn: TurnId) -> MessageBody:
    """What is shown of a turn that goes on after a restart, where nothing is shown of it any more."""
    return presentation_body(notices.recovering(), buttons=(stop_button(turn),))


def queued_placeholder(turn: TurnId, before: int) -> MessageBody:
    """What is shown of a turn that has to wait."""
    return presentation_body(notices.queued_behind(before), buttons=(stop_button(turn),))


def waiting_placeholder(turn: TurnId, agents: int) -> MessageBody:
    """What is shown of a turn that is next, while every agent works elsewhere."""
    return presentation_body(notices.all_busy(agents), buttons=(stop_button(turn),))
