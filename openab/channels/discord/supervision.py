"""Why a gateway connection ended, and how long to wait before the next one (pure)."""

from dataclasses import dataclass
from enum import StrEnum

import discord

INTENTS_WORDS = (
    "Discord refuses the Message Content Intent; switch it on in the developer portal, under Bot"
)


class Ending(StrEnum):
    """What an ended connection calls for."""

    #: Connect again after a pause.
    LOST = "lost"
    #: Nothing helps but another token.
    TOKEN_REFUSED = "token_refused"
    #: Connecting again helps only when the operator has switched the intent on.
    INTENTS_REFUSED = "intents_refused"


@dataclass(frozen=True, slots=True)
class Ended:
    """One connection's end."""

    ending: Ending
    reason: str


@dataclass(frozen=True, slots=True)
class Pauses:
    """How long to wait: `first`, doubled up to `longest`; a connection that lasted `proven` starts afresh."""

    first_seconds: float = 5.0
    longest_seconds: float = 300.0
    proven_seconds: float = 600.0
    #: discord.py's own pause before it identifies again on a running connection.
    identify_seconds: float = 5.0
    #: How often to look whether the operator has switched the intent on.
    intents_seconds: float = 30.0

    def failures(self, before: int, lasted_seconds: float) -> int:
        """How many connections have failed in a row, this one included."""
        return 1 if lasted_seconds >= self.proven_seconds else before + 1

    def after(self, failures: int) -> float:
        """Seconds to wait after that many failures in a row."""
        return min(self.longest_seconds, self.first_seconds * 2.0 ** min(failures - 1, 30))


def ended(error: BaseException | None) -> Ended:
    """What the end of a connection's task means; None: it returned, which it never should."""
    match error:
        case None:
            return Ended(Ending.LOST, "the gateway connection ended")
        case discord.LoginFailure():
            return Ended(Ending.TOKEN_REFUSED, "Discord refuses the token")
        case discord.PrivilegedIntentsRequired():
            return Ended(Ending.INTENTS_REFUSED, INTENTS_WORDS)
        case discord.ConnectionClosed(code=4004):
            return Ended(Ending.TOKEN_REFUSED, "Discord refuses the token")
        case discord.ConnectionClosed(code=code):
            return Ended(Ending.LOST, f"the gateway closed with code {code}")
        case _:
            return Ended(Ending.LOST, f"the gateway connection broke ({type(error).__name__})")
