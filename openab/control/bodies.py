"""What the control plane itself says: placeholders and notices as message bodies."""

from openab.domain.ids import TurnId
from openab.domain.outbound import MessageBody, presentation_body
from openab.text.buttons import stop_button
from openab.text.measure import shorten
from openab.text.neutralize import neutralize
from openab.text.notices import queued_behind


def first_placeholder(turn: TurnId) -> MessageBody:
    """What is shown before anything is known."""
    return presentation_body("⏳ starting", buttons=(stop_button(turn),))


def permission_answered() -> str:
    """What the person who pressed a permission's button is told."""
    return "🔐 Passed on to the agent."


def permission_closed() -> str:
    """The question was answered or cancelled before."""
    return "This question is not open any more."


def permission_not_yours(requester: str) -> str:
    """Somebody else pressed; an empty allow-list lets nobody approve tools."""
    name = shorten(neutralize(" ".join(requester.split())), 60) or "the person"
    return f"⛔ Only {name}, who asked, or an operator can answer this."


def later_placeholder(turn: TurnId) -> MessageBody:
    """What takes the place of a placeholder that is too old to be edited much longer."""
    return presentation_body("⏳ still working", buttons=(stop_button(turn),))


def queued_placeholder(turn: TurnId, before: int) -> MessageBody:
    """What is shown of a turn that has to wait."""
    return presentation_body(queued_behind(before), buttons=(stop_button(turn),))
