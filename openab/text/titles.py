"""Thread titles: short, never blank, never a mention."""

import re
import unicodedata
from collections.abc import Sequence

from openab.text.measure import shorten, units, whole_characters
from openab.text.neutralize import neutralize

#: OpenAB's length; Discord's own limit is 100.
TITLE_LENGTH = 40
LONGEST_TITLE = 100

_MENTION = re.compile(r"<@[!&]?[0-9]{1,20}>|@\((?:role|user)\)")
_GITHUB = re.compile(
    r"https?://(?:www\.)?github\.com/([\w.-]+/[\w.-]+)/(?:issues|pull)/([0-9]+)[^\s<>()\[\]]*",
    re.ASCII,
)
_INVISIBLE = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
_JOINER = "\u200d"


def thread_title(prompt: str, attachments: Sequence[str] = (), author: str = "") -> str:
    """The title for a prompt: its beginning, else the attachments' names, else who asked."""
    for candidate in (prompt, ", ".join(attachments)):
        title = _cut(_clean(candidate))
        if _is_visible(title):
            return title
    return fallback_title(author)


def given_title(wanted: str, author: str = "") -> str:
    """The title that somebody asked for by name (`[[title:…]]`), whole where Discord takes it."""
    title = shorten(_clean(wanted), LONGEST_TITLE)
    return title if _is_visible(title) else fallback_title(author)


def fallback_title(author: str = "") -> str:
    """A title that Discord cannot mind, for when there is nothing better or it was refused."""
    name = shorten(_clean(author), TITLE_LENGTH)
    return f"Request from {name}" if _is_visible(name) else "Request"


def _clean(text: str) -> str:
    text = _GITHUB.sub(r"\1#\2", _MENTION.sub("", text))
    visible = ("" if _is_hidden(char) else char for char in " ".join(text.split()))
    return neutralize(" ".join("".join(visible).split()))


def _is_hidden(char: str) -> bool:
    return char != _JOINER and unicodedata.category(char) in _INVISIBLE


def _cut(title: str) -> str:
    if len(title) <= TITLE_LENGTH and units(title) <= LONGEST_TITLE:
        return title
    stop = whole_characters(title, 0, TITLE_LENGTH)
    return title[:stop].rstrip() + "..."


def _is_visible(title: str) -> bool:
    return any(unicodedata.category(char)[0] not in "CZM" for char in title)
