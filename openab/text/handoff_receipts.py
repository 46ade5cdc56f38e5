"""The line that says why a hand-off was not accepted, and what can be done."""

from openab.domain.handoff import MEANINGS, REMEDIES, Refusal
from openab.domain.handoff.receipts import REFUSED


def refusal_line(refusal: Refusal) -> str:
    """For the people in the conversation; the message that it replies to is the hand-off."""
    told = f"{MEANINGS[refusal]}. To do: {REMEDIES[refusal]}."
    return f"{REFUSED} Hand-off not accepted (`{refusal.value}`): {told}"
