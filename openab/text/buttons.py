"""The buttons under a turn's messages; the custom id tells the adapter what a press means."""

from openab.domain.ids import DeliveryId, TurnId
from openab.domain.outbound import Button


def stop_button(turn: TurnId) -> Button:
    """Cancels this turn; the same on the placeholder and on every edit of it."""
    return Button(custom_id=f"openab:stop:{turn}", label="Stop", style="danger")


def continue_button(turn: TurnId, attempt: int) -> Button:
    """Has a turn go on whose attempt of this number was interrupted."""
    return Button(custom_id=f"openab:continue:{turn}:{attempt}", label="Continue", style="success")


def resend_button(what: DeliveryId | TurnId) -> Button:
    """Has a delivery, or everything of a turn, be sent again that could not be delivered."""
    return Button(custom_id=f"openab:resend:{what}", label="Send again", style="primary")
