"""Which messages may become one turn: the mode, the caps, and what a message weighs."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from openab.domain.message import Attachment

#: What an image costs an agent, roughly.
IMAGE_TOKENS = 512
_BYTES_PER_TOKEN = 4


class DispatchMode(StrEnum):
    """How messages that wait are gathered."""

    #: Every message is a turn of its own.
    PER_MESSAGE = "per-message"
    #: What waits in a conversation is one turn.
    PER_THREAD = "per-thread"
    #: What one person has waiting in a conversation is one turn.
    PER_LANE = "per-lane"


class OnBusy(StrEnum):
    """What a message does to a running turn."""

    #: It waits for its end.
    QUEUE = "queue"
    #: It ends it, if its author may, and is answered next.
    INTERRUPT = "interrupt"


@dataclass(frozen=True, slots=True)
class Batching:
    """The rule that a queued turn takes further messages by."""

    mode: DispatchMode = DispatchMode.PER_MESSAGE
    max_messages: int = 10
    max_tokens: int = 24_000

    @property
    def gathers(self) -> bool:
        """Whether a turn may ever hold more than one message."""
        return self.mode is not DispatchMode.PER_MESSAGE and self.max_messages > 1


def weight(text: str, attachments: Iterable[Attachment] = ()) -> int:
    """A message's estimated tokens, as OpenAB estimates them: bytes of text, and a flat sum per image."""
    images = sum(one.content_type.startswith("image/") for one in attachments)
    written = len(text.encode(errors="surrogatepass")) // _BYTES_PER_TOKEN + 1 if text else 0
    return written + images * IMAGE_TOKENS
