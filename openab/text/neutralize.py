"""Makes mentions in agent text inert, and text fit for the wire; allowed_mentions is the second fence."""

import re

#: Put inside a mention it leaves the look and takes the effect.
ZERO_WIDTH_SPACE = "\u200b"

_LIVE = re.compile(r"<@[!&]?[0-9]+>|@everyone|@here")


def wire_text(text: str) -> str:
    """Text that Discord takes: NUL is dropped, halves of a pair are joined, a lone half is U+FFFD."""
    text = text.replace("\0", "")
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def neutralize(text: str) -> str:
    """The text with every mention inert; twice is the same as once.

    Every `<@` is broken, whatever follows it: then no later cut of the result is a live mention.
    Joining two results can make one (`<` + `@1>`), so neutralise the whole, never the pieces.
    """
    inert = wire_text(text).replace("<@", f"<{ZERO_WIDTH_SPACE}@")
    inert = inert.replace("@everyone", f"@{ZERO_WIDTH_SPACE}everyone")
    return inert.replace("@here", f"@{ZERO_WIDTH_SPACE}here")


def live_mentions(text: str) -> list[str]:
    """The mentions in a text that would ping or wake somebody if they were allowed to."""
    return _LIVE.findall(text)
