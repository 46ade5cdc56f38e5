"""The status emoji: which one stands for which state of a turn."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Emojis:
    """OpenAB's, unless the configuration names others; an empty one is not shown."""

    queued: str = "👀"
    thinking: str = "🤔"
    tool: str = "🔥"
    coding: str = "👨‍💻"
    web: str = "⚡"
    done: str = "🆗"
    error: str = "😱"
    cancelled: str = "🛑"
    #: Nothing was heard for a while, and for a long while.
    stalled: str = "🥱"
    silent: str = "😨"
