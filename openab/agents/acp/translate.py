"""ACP update → agent event, and which permission option to choose (pure, for input of any shape)."""

from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from typing import Any, TypeVar

from openab.domain.agent_events import (
    AgentEvent,
    OptionKind,
    PermissionOption,
    PlanChanged,
    PlanEntry,
    SessionChanged,
    TextDelta,
    Thought,
    ToolChanged,
    ToolKind,
    ToolStatus,
    UsageChanged,
)

Fields = Mapping[str, Any]
Word = TypeVar("Word", bound=StrEnum)
#: A cost beyond this is no cost but a mistake (infinity and NaN, too).
_DEAREST = 1e12

#: The names under which agents give a tool its subject, the most telling first.
_SUBJECTS = (
    "command", "cmd", "query", "pattern", "url", "file_path", "filePath", "absolute_path",
    "notebook_path", "path",
)  # fmt: skip
_LONGEST_DETAIL = 400


def event_of(update: object) -> AgentEvent | None:
    """The event that an update means; None for what is unknown, broken or says nothing."""
    if not isinstance(update, Mapping):
        return None
    kind = update.get("sessionUpdate")
    translate = _KINDS.get(kind) if isinstance(kind, str) else None
    return translate(update) if translate else None


def text_of(content: object) -> str:
    """The text of a content block; a block of another kind has none."""
    text = content.get("text") if isinstance(content, Mapping) else None
    return text if isinstance(text, str) else ""


def tool_of(fields: object) -> ToolChanged | None:
    """A tool call's news; None without a usable id."""
    if not isinstance(fields, Mapping):
        return None
    tool_id = fields.get("toolCallId")
    if isinstance(tool_id, bool) or not isinstance(tool_id, str | int):
        return None
    title = _text(fields.get("title")) or _text(fields.get("name"))
    kind = fields.get("kind")
    return ToolChanged(
        tool_id=str(tool_id),
        title=title,
        kind=(_word(ToolKind, kind) or ToolKind.OTHER) if isinstance(kind, str) else None,
        status=_word(ToolStatus, fields.get("status")),
        detail=_detail(fields),
    )


def _detail(fields: Fields) -> str | None:
    """What a call works on: many agents title it by the tool's bare name and say the rest only here."""
    given = fields.get("rawInput")
    if isinstance(given, Mapping):
        for name in _SUBJECTS:
            if subject := _subject(given.get(name)):
                return subject[:_LONGEST_DETAIL]
    places = fields.get("locations")
    first = places[0] if isinstance(places, list) and places else None
    path = _text(first.get("path")) if isinstance(first, Mapping) else None
    return path[:_LONGEST_DETAIL] if path else None


def _subject(value: object) -> str | None:
    if not isinstance(value, list):
        return _text(value)
    words = [word for word in value if isinstance(word, str)]
    # `["bash", "-lc", "make test"]`: what is run is the last word.
    is_shell = len(words) == 3 and words[1].startswith("-") and words[1].endswith("c")
    return words[2] if is_shell else _text(" ".join(words))


def options_of(value: object) -> tuple[PermissionOption, ...]:
    """The options of a permission question, in the agent's order; unusable ones are left out."""
    if not isinstance(value, Sequence) or isinstance(value, str):
        return ()
    return tuple(
        PermissionOption(
            option_id=item["optionId"],
            name=_text(item.get("name")) or item["optionId"],
            kind=_word(OptionKind, item.get("kind")),
        )
        for item in value
        if isinstance(item, Mapping) and isinstance(item.get("optionId"), str)
    )


def choose(options: Sequence[PermissionOption]) -> PermissionOption | None:
    """Always before once before whatever is no refusal; None: nothing may be chosen."""
    for wanted in (OptionKind.ALLOW_ALWAYS, OptionKind.ALLOW_ONCE):
        if found := next((option for option in options if option.kind is wanted), None):
            return found
    refusals = {OptionKind.REJECT_ONCE, OptionKind.REJECT_ALWAYS}
    return next((option for option in options if option.kind not in refusals), None)


def output_tokens(result: Fields) -> int | None:
    """How many tokens the prompt's response says that it cost; most agents do not say."""
    usage = result.get("usage")
    if not isinstance(usage, Mapping):
        return None
    for name in ("outputTokens", "output"):
        if (count := _count(usage.get(name))) is not None:
            return count
    return None


def _message(update: Fields) -> AgentEvent | None:
    text = text_of(update.get("content"))
    return TextDelta(text, _text(update.get("messageId"))) if text else None


def _thought(update: Fields) -> AgentEvent | None:
    text = text_of(update.get("content"))
    return Thought(text) if text else None


def _plan(update: Fields) -> AgentEvent | None:
    entries = update.get("entries")
    if not isinstance(entries, list):
        return None
    return PlanChanged(
        tuple(
            PlanEntry(item["content"], _text(item.get("status")) or "pending")
            for item in entries
            if isinstance(item, Mapping) and isinstance(item.get("content"), str)
        )
    )


def _usage(update: Fields) -> AgentEvent | None:
    used, size = _count(update.get("used")), _count(update.get("size"))
    if used is None or size is None:
        return None
    cost = update.get("cost")
    return UsageChanged(used, size, *_cost(cost if isinstance(cost, Mapping) else {}))


def _cost(cost: Fields) -> tuple[float | None, str]:
    amount = cost.get("amount")
    if isinstance(amount, bool) or not isinstance(amount, int | float):
        return None, ""
    if not 0 <= amount < _DEAREST:
        return None, ""
    return float(amount), (_text(cost.get("currency")) or "")[:8]


def _session(update: Fields) -> AgentEvent:
    detail = _text(update.get("title")) or _text(update.get("currentModeId")) or ""
    return SessionChanged(update["sessionUpdate"], detail)


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


def _count(value: object) -> int | None:
    whole = isinstance(value, int) and not isinstance(value, bool)
    return value if whole and isinstance(value, int) and value >= 0 else None


def _word(words: type[Word], value: object) -> Word | None:
    return words(value) if isinstance(value, str) and value in set(words) else None


_KINDS: Mapping[str, Callable[[Fields], AgentEvent | None]] = {
    "agent_message_chunk": _message,
    "agent_thought_chunk": _thought,
    "tool_call": tool_of,
    "tool_call_update": tool_of,
    "plan": _plan,
    "usage_update": _usage,
    "available_commands_update": _session,
    "current_mode_update": _session,
    "config_option_update": _session,
    "session_info_update": _session,
}
