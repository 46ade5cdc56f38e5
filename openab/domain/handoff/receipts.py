"""What a receiver puts on the message of a hand-off, so that people and the sender see the outcome."""

ACCEPTED = "📥"
REFUSED = "⛔"
