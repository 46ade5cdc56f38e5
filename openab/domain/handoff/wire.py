"""An envelope as a message: the target's mention, and one line of JSON in which nothing is alive."""

import json
import unicodedata

from openab.domain.errors import Rejected
from openab.domain.handoff.envelope import SCHEMA, Envelope
from openab.domain.handoff.limits import MOST_UNITS
from openab.domain.handoff.reasons import NotSent
from openab.domain.ids import AccountId, ChannelName, PlatformId

#: Controls, format characters (zero width, direction, tags), and the two odd line ends.
_UNSEEN = frozenset({"Cc", "Cf", "Zl", "Zp"})
_SURROGATE = "Cs"
#: Ten times what could fit.
_HOPELESS = 20_000


class NotSendable(Rejected):
    """This hand-off can never be sent as it is; `reason` says why."""

    def __init__(self, reason: NotSent) -> None:
        super().__init__(reason.value)
        self.reason = reason


class TooLarge(NotSendable):
    """The text takes `needed` units as it is written; there is room for `room`."""

    def __init__(self, room: int, needed: int) -> None:
        super().__init__(NotSent.TOO_LARGE)
        self.room = room
        self.needed = needed


def written(envelope: Envelope) -> str:
    """The message. Raises TooLarge, or NotSendable for a text that is blank or holds a lone surrogate."""
    text = envelope.text
    if not text.strip():
        raise NotSendable(NotSent.NO_TEXT)
    left = room(envelope)
    if len(text) > _HOPELESS:
        # Not even escaped, since that takes a while: it takes no less than what it is.
        raise TooLarge(left, len(text))
    payload = escaped(text)
    needed = _units(payload)
    if needed > left:
        raise TooLarge(left, needed)
    before, after = _frame(envelope)
    return before + payload + after


def room(envelope: Envelope) -> int:
    """How many units the text may take as it is written; what it holds now does not matter."""
    return MOST_UNITS - sum(map(_units, _frame(envelope)))


def escaped(text: str) -> str:
    """The text as it stands between the quotes. Raises NotSendable if it holds a lone surrogate.

    `<` and `@` are escaped as well, so that the mention in the first line is the only one: some
    bots wake up at a literal mention wherever it stands.
    """
    return "".join(map(_escape, text))


def refusal_to_send(
    target: PlatformId, account: AccountId, trusted: frozenset[str], channel: ChannelName
) -> NotSent | None:
    """Why nothing is ever sent to this target from here, whatever the text is."""
    if channel != "discord":
        return NotSent.WRONG_CHANNEL
    if target == str(account):
        return NotSent.OWN_ACCOUNT
    return None if target in trusted else NotSent.TARGET_NOT_TRUSTED


def _frame(envelope: Envelope) -> tuple[str, str]:
    """What stands before and behind the text."""
    head: dict[str, object] = {
        "schema": SCHEMA,
        "source_bot_id": envelope.source,
        "target_bot_id": envelope.target,
        "event_id": envelope.event_id,
        "origin_channel_id": envelope.origin_channel,
        "origin_thread_id": envelope.origin_thread,
        "origin_message_id": envelope.origin_message,
        "expires_at": envelope.expires_at,
        "hop_count": 0,
        "payload": {"text": ""},
    }
    line = json.dumps(head, separators=(",", ":"))
    end = '"}}'
    return f"<@{envelope.target}>\n{line.removesuffix(end)}", end


def _escape(char: str) -> str:
    if char in '"\\':
        return f"\\{char}"
    category = unicodedata.category(char)
    if category == _SURROGATE:
        raise NotSendable(NotSent.LONE_SURROGATE)
    if char not in "<@" and category not in _UNSEEN:
        return char
    code = char.encode("utf-16-be").hex()
    return "".join(f"\\u{code[n : n + 4]}" for n in range(0, len(code), 4))


def _units(text: str) -> int:
    return len(text.encode("utf-16-le")) // 2
