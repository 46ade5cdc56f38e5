"""What agents and people are told of a hand-off that is sent, or is not, or could be.

Names and reasons come from outside: they are put on one line, cut short and made inert here.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from openab.domain.handoff import NotSent
from openab.domain.message import defuse
from openab.text.directives import Directive
from openab.text.menus import inert_line
from openab.text.neutralize import neutralize

_LONGEST_NAME = 60
_LONGEST_VALUE = 40
_LONGEST_REASON = 300
#: More bots than these no agent is told of.
MOST_ANNOUNCED = 20


@dataclass(frozen=True, slots=True)
class Peer:
    """A bot that can be given work; the name is empty where nobody knows it."""

    bot: str
    name: str = ""
    is_here: bool = False


def handed_off(target: Peer) -> str:
    """The message above is a hand-off, and stands there."""
    return (
        f"🤝 The message above hands work to {_who(target)}. 📥 on it: accepted. ⛔: not accepted."
    )


def not_handed_off(target: Peer, reason: NotSent, detail: str = "") -> str:
    """No work was handed over; `detail` has the numbers or the network's own words."""
    told = f": {_line(detail, _LONGEST_REASON)}" if detail else ""
    why, remedy = _MEANINGS[reason], _REMEDIES[reason]
    return f"⚠️ No work was handed to {_who(target)} (`{reason.value}`): {why}{told}. {remedy}"


def not_understood(lines: Sequence[Directive]) -> str:
    """Directives whose values are none."""
    told = " and ".join(f"{_directive(line)}, which is no {_WANTED[line.key]}" for line in lines)
    return (
        f"⚠️ The agent's answer began with {told}: it was left out and nothing came of it. "
        "Ask the agent again, and say which one is meant."
    )


def too_large(needed: int, room: int) -> str:
    """The numbers of a text that does not fit."""
    return f"it takes {needed:,} UTF-16 units, there is room for {room:,}"


def waited(time: timedelta) -> str:
    """How long a hand-off was owed."""
    minutes, seconds = divmod(int(time.total_seconds()), 60)
    return f"it waited {f'{minutes} min' if minutes else f'{seconds} s'}"


def announcement(peers: Sequence[Peer], room: int) -> str:
    """Stands before an agent's first prompt: how and to whom it can hand work, and how much."""
    listed = "\n".join(map(_listed, peers[:MOST_ANNOUNCED]))
    return (
        "You can hand work to another bot in this conversation. To do so, make the line\n"
        "[[handoff:BOT_ID]]\n"
        "the very first line of your whole answer, before anything else you say, also before your "
        "first tool call. Everything you say below it is the request: the other bot gets exactly that "
        "text and nothing else, so it must be complete in itself. People read it too. "
        f"There is room for {room:,} UTF-16 units (about that many plain characters). A mention in your "
        "text reaches nobody. Do this only when work is to be handed over. Bots that take work:\n"
        f"{listed}"
    )


def shorter(needed: int, room: int, target: Peer) -> str:
    """The question to an agent whose hand-off does not fit."""
    return (
        f"Your hand-off to {defuse(_who(target))} does not fit into one message: as it is written it "
        f"takes {needed:,} UTF-16 units, and there is room for {room:,} (line feeds, `<`, `@` and "
        "emoji take more than one). Write a shorter request that fits and is complete in itself. "
        "Answer with the request only, without a directive line and without any remark: your answer "
        "is what the other bot gets. People keep the answer that you have given."
    )


def _directive(line: Directive) -> str:
    return f"`[[{line.key}:{_line(line.value, _LONGEST_VALUE)}]]`"


def _who(peer: Peer) -> str:
    name = _line(peer.name, _LONGEST_NAME)
    return f"{name} ({peer.bot})" if name else f"bot {_line(peer.bot, _LONGEST_VALUE)}"


def _listed(peer: Peer) -> str:
    name = defuse(inert_line(peer.name, _LONGEST_NAME)) or "(name not known)"
    return f"- {peer.bot}: {name}{', has spoken in this conversation' if peer.is_here else ''}"


def _line(text: str, longest: int) -> str:
    return neutralize(inert_line(text, longest).replace("`", "'")).rstrip(".")


_WANTED = {
    "handoff": f"bot's id (`{NotSent.WRONG_TARGET.value}`)",
    "reply_to": "message's id",
    "spawn": "agent's name",
}
_AGAIN = "Ask for it again."
_MEANINGS = {
    NotSent.WRONG_TARGET: "that is no bot's id",
    NotSent.OWN_ACCOUNT: "a bot gives no work to itself",
    NotSent.TARGET_NOT_TRUSTED: "it is not in `[discord] trusted_bot_ids`",
    NotSent.WRONG_CHANNEL: "only Discord carries hand-offs",
    NotSent.NO_TEXT: "the agent wrote no request below the directive",
    NotSent.LONE_SURROGATE: "the request holds half a character",
    NotSent.TOO_LARGE: "the request does not fit into one message, and the agent was asked once for less",
    NotSent.TARGET_ABSENT: "it is not in this conversation and could not be added",
    NotSent.EXPIRED: "it could not be sent in time",
    NotSent.REFUSED: "Discord refused the message",
    NotSent.UNCLEAR: "it may have been sent, and nobody can find out any more",
    NotSent.CONVERSATION_GONE: "the conversation is gone",
}
_REMEDIES = dict.fromkeys(NotSent, _AGAIN) | {
    NotSent.WRONG_TARGET: "Say which bot is meant.",
    NotSent.OWN_ACCOUNT: "Name another bot.",
    NotSent.TARGET_NOT_TRUSTED: "Add its id there, if it is to be trusted, and ask again; no restart is needed.",
    NotSent.WRONG_CHANNEL: "Ask for it there.",
    NotSent.TOO_LARGE: "Ask for less at once.",
    NotSent.TARGET_ABSENT: "Give it access to the channel, then ask again.",
    NotSent.UNCLEAR: "Look whether the message stands here before you ask again.",
    NotSent.CONVERSATION_GONE: "Ask elsewhere.",
}
