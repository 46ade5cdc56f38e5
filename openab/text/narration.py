"""Which part of an answer a turn delivers: all of it, or what the agent said after its last tool call.

Rule: where people watched the text grow, everything stays. Where they did not (`heartbeat`, `final`),
the final is exactly `last_message` of `openab.text.answer`, unless `[reactions] narration_display` asks
for all, or that is blank: a turn that ends with a tool call delivers everything rather than nothing.
A turn without tool calls, or one whose calls all came before its first word, has no narration.
"""

from dataclasses import dataclass

from openab.text.answer import AnswerFold
from openab.text.neutralize import wire_text
from openab.text.output import body_of


@dataclass(frozen=True, slots=True)
class Narration:
    """The rule for one turn; both are known when the turn is claimed."""

    #: Presentation mode `stream`: what was shown must not vanish.
    is_streamed: bool
    #: `[reactions] narration_display`.
    is_wanted: bool = False

    @property
    def stays(self) -> bool:
        """Whether the text between tool calls is part of the final."""
        return self.is_streamed or self.is_wanted


def delivered(answer: str, last_message: str, narration: Narration) -> str:
    """The text of the final, byte for byte one of the two."""
    if narration.stays or not _has_words(last_message):
        return answer
    return last_message


def delivered_of(fold: AnswerFold, narration: Narration) -> str:
    """The same for a fold, without the head of its output."""
    body = body_of(fold.text)
    head = len(fold.text) - len(body)
    return delivered(body, fold.text[max(fold.after_tool, head) :], narration)


def _has_words(text: str) -> bool:
    return any(char.isprintable() and not char.isspace() for char in wire_text(text))
