"""The words that a key may have as its value; upper case, `-` and `_` make no difference."""

from enum import StrEnum
from typing import Self

#: Other spellings that OpenAB takes, by word list.
_ALIASES: dict[str, dict[str, str]] = {
    "BotMode": {"none": "off", "false": "off", "true": "all"},
    "ToolDisplay": {"off": "none", "hidden": "none"},
}


class Word(StrEnum):
    """A list of words. Looking one up forgives case and `-` for `_`, and knows OpenAB's aliases."""

    @classmethod
    def _missing_(cls, value: object) -> Self | None:
        spelled = str(value).strip().lower().replace("_", "-")
        spelled = _ALIASES.get(cls.__name__, {}).get(spelled, spelled)
        return next((word for word in cls if word.value == spelled), None)


class BotMode(Word):
    """Which messages of other bots may start a turn."""

    OFF = "off"
    MENTIONS = "mentions"
    ALL = "all"


class UserMode(Word):
    """When a person has to mention the bot."""

    INVOLVED = "involved"
    MENTIONS = "mentions"
    MULTIBOT_MENTIONS = "multibot-mentions"


class DispatchMode(Word):
    """How messages are gathered into turns."""

    PER_MESSAGE = "per-message"
    PER_THREAD = "per-thread"
    PER_LANE = "per-lane"


class ToolDisplay(Word):
    """How much of a tool call is shown."""

    FULL = "full"
    COMPACT = "compact"
    NONE = "none"


class TableStyle(Word):
    """How a Markdown table is shown in a chat."""

    CODE = "code"
    BULLETS = "bullets"
    OFF = "off"


class PresentationMode(Word):
    """What people see while an agent works."""

    STREAM = "stream"
    HEARTBEAT = "heartbeat"
    FINAL = "final"


class FinalStyle(Word):
    """Whether the final answer takes the placeholder's place or is posted anew."""

    AUTO = "auto"
    EDIT = "edit"
    FRESH = "fresh"


class OnBusy(Word):
    """What a message does to a running turn."""

    QUEUE = "queue"
    INTERRUPT = "interrupt"


class PerThread(Word):
    """Whether each thread has a folder of its own."""

    OFF = "off"
    FOLDER = "folder"
    WORKTREE = "worktree"


class PermissionMode(Word):
    """Who answers an agent that asks for permission."""

    AUTO = "auto"
    ASK = "ask"


class RecoveryPolicy(Word):
    """What happens to a running turn whose agent is gone."""

    CAREFUL = "careful"
    RESUME = "resume"
    ASK = "ask"
    FAIL = "fail"


class HostMode(Word):
    """Whether agents outlive the broker."""

    DAEMON = "daemon"
    EMBEDDED = "embedded"


class OnFailure(Word):
    """What a failing hook does to the start."""

    ABORT = "abort"
    WARN = "warn"


class CancelStrategy(Word):
    """How a remote runtime is told to stop."""

    STOP = "stop"
    NOOP = "noop"
