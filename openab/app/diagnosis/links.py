"""Reads the message id out of what people copy from Discord: a link, a pair of ids, one id (pure)."""

import re

_ID = r"[0-9]{1,20}"
_LINK = re.compile(
    r"https?://(?:\w+\.)?discord(?:app)?\.com/channels/"
    rf"(?:@me|{_ID})/(?P<channel>{_ID})(?:/(?P<message>{_ID}))?/?(?:\?.*)?"
)
#: What Discord copies with the shift key held: CHANNEL-MESSAGE.
_PAIR = re.compile(rf"{_ID}-(?P<message>{_ID})")


#: The ids of our own rows; see `openab.storage.ids`.
_ROW = re.compile(r"[0-9a-f]{20}")


def row_id(written: str) -> str | None:
    """The id of a row of ours, None where it cannot be one."""
    text = written.strip()
    return text if _ROW.fullmatch(text) else None


def message_id(written: str) -> str | None:
    """The message's id, None where there is none to be found.

    A thread's link counts as a link to the message that the thread was opened on: they have one id.
    """
    text = written.strip().removeprefix("<").removesuffix(">")
    if re.fullmatch(_ID, text, re.ASCII):
        return text
    if pair := _PAIR.fullmatch(text):
        return pair["message"]
    link = _LINK.fullmatch(text)
    return (link["message"] or link["channel"]) if link else None
