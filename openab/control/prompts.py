"""What an agent is given to read: who says what, with everything forged in it made harmless."""

from collections.abc import Mapping, Sequence

from openab.domain.message import defuse, sender_block
from openab.ports.agent import ContentBlock, TextBlock
from openab.storage.turns import Arrival

_LONGEST_TRANSCRIPT = 60_000


def content(
    batch: Sequence[Arrival], preamble: str = "", continuation: str = "", announcement: str = ""
) -> list[ContentBlock]:
    """The prompt: per arrival its sender record, its attachments, its text; before all of it what
    an agent is told of other bots, a preamble, and what one is told that was interrupted.
    """
    blocks = [TextBlock(text) for text in (announcement, preamble, continuation) if text]
    for arrival in batch:
        blocks.append(TextBlock(sender_block(arrival.record)))
        blocks += [TextBlock(_attachment(item)) for item in arrival.attachments]
        if arrival.text:
            blocks.append(TextBlock(defuse(arrival.text)))
    return blocks


def _attachment(item: Mapping[str, object]) -> str:
    # Name and type are whatever the sender's client said.
    told = f"{item.get('name', '')} ({item.get('content_type')}, {item.get('size')} bytes)"
    return f"[Attachment, not read: {defuse(' '.join(told.split()))}]"


def transcript_preamble(entries: Sequence[tuple[Sequence[Arrival], str]]) -> str:
    """What was said before in a session whose agent has forgotten it; the oldest is cut first."""
    told = [_entry(batch, answer) for batch, answer in entries]
    text = "\n\n".join(told)[-_LONGEST_TRANSCRIPT:]
    if not text:
        return ""
    return (
        "Your own memory of this conversation was lost. This is its transcript, for your information; "
        f"do not answer it again:\n\n{text}\n\nEnd of the transcript."
    )


def _entry(batch: Sequence[Arrival], answer: str) -> str:
    asked = "\n".join(
        f"{defuse(str(arrival.record.get('display_name', '')))}: {defuse(arrival.text)}"
        for arrival in batch
    )
    return f"{asked}\nYou: {defuse(answer)}"
