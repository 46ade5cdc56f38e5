"""How a turn's end is told: which messages are owed, decided purely from what is known."""

from dataclasses import dataclass
from datetime import timedelta

from openab.control.cuts import Cut, pieces
from openab.control.settings import ReplySettings
from openab.domain.ids import PlatformId
from openab.domain.outbound import MessageBody, answer_body
from openab.text.split import MESSAGE_LIMIT


@dataclass(frozen=True, slots=True)
class Ending:
    """What is known when a turn ends."""

    text: str
    #: The human who asked; None: a bot or nobody is to be pinged or named.
    human: PlatformId | None
    #: The trigger stands in the same channel or thread as the answer.
    trigger_in_place: bool
    trigger_message_id: PlatformId
    took: timedelta
    has_other_bot: bool
    #: A placeholder is on the network, and it is the newest message there.
    has_placeholder: bool
    placeholder_is_newest: bool
    #: An edit or the placeholder itself has an unknown outcome, or the turn changed its owner.
    is_doubtful: bool = False
    #: Stands at the very end, however much of the text is left out.
    after: str = ""
    #: The message that the agent wants its answer to reply to; the trigger, unless it says so.
    reply_to: PlatformId | None = None

    @property
    def has_own_reference(self) -> bool:
        """Whether the answer replies to another message than a usual one would."""
        usual = self.trigger_message_id if self.trigger_in_place else None
        return self.reply_to is not None and self.reply_to != usual


@dataclass(frozen=True, slots=True)
class Final:
    """The messages of a final answer; `edits_placeholder`: the first one replaces it."""

    parts: tuple[MessageBody, ...]
    edits_placeholder: bool


def plan(ending: Ending, replies: ReplySettings, cut: Cut | None = None) -> Final:
    """The final answer: neutralised, split; the first part answers the human who asked.

    `cut` is the same text cut beforehand, for the rooms that `rooms` gives.
    """
    edits = _edits(ending, replies)
    prefix = _prefix(ending, replies) if not edits else ""
    room = MESSAGE_LIMIT - len(prefix)
    if cut is not None and cut.fits(ending.text, ending.after, room):
        texts = cut.by_room[room]
    else:
        texts = pieces(ending.text, ending.after, room)
    first = _first(ending, replies, prefix + texts[0], edits=edits)
    return Final((first, *(answer_body(text) for text in texts[1:])), edits)


def rooms(ending: Ending, replies: ReplySettings) -> set[int]:
    """How much room the first message may have, whatever is decided about edit or fresh."""
    return {MESSAGE_LIMIT, MESSAGE_LIMIT - len(_prefix(ending, replies))}


def _edits(ending: Ending, replies: ReplySettings) -> bool:
    if ending.is_doubtful or not ending.has_placeholder or replies.final == "fresh":
        return False
    if ending.reply_to is not None:
        # An edit makes no reply of a message.
        return False
    if replies.final == "edit":
        return True
    # An edit reaches no bot and pings nobody, so it is only for a short turn among people.
    is_short = ending.took < replies.edit_within
    return is_short and ending.placeholder_is_newest and not ending.has_other_bot


def _prefix(ending: Ending, replies: ReplySettings) -> str:
    """Where no reply is possible (the trigger is in the parent), the human is named instead."""
    is_named_by_reply = ending.trigger_in_place and not ending.has_own_reference
    if ending.human is None or is_named_by_reply or not replies.ping_requester:
        return ""
    # On a line of its own, so that a fence or a list behind it still begins a line.
    return f"<@{ending.human}>\n"


def _first(ending: Ending, replies: ReplySettings, text: str, *, edits: bool) -> MessageBody:
    if edits:
        return answer_body(text)
    ping = ending.human if replies.ping_requester else None
    if ending.has_own_reference:
        # Whoever wrote that message is not pinged by it.
        return answer_body(text, mention=ping, reply_to=ending.reply_to, pings_author=False)
    reply_to = ending.trigger_message_id if ending.trigger_in_place else None
    return answer_body(text, mention=ping, reply_to=reply_to)
