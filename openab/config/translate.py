"""Says a validation error in the words of the file."""

from pydantic_core import ErrorDetails

from openab.config.fields import kind_of, shown
from openab.config.findings import Path

_EXPECTED = {
    "string_type": ("a string", 'write it in quotes, "…"'),
    "bool_type": ("true or false", "write true or false, without quotes"),
    "int_type": ("a whole number", "write it without quotes"),
    "int_from_float": ("a whole number", "write it without a point"),
    "tuple_type": ("an array", "write it in brackets, […]"),
    "frozen_set_type": ("an array", "write it in brackets, […]"),
    "mapping_type": ("a table", "write it as [section] or { key = … }"),
    "dict_type": ("a table", "write it as [section] or { key = … }"),
    "model_type": ("a table", "write it as [section]"),
}
_REQUIRED: dict[Path, tuple[str, str]] = {
    ("discord",): ("no chat network is configured", "add [discord] with its bot_token"),
    ("discord", "bot_token"): (
        "the bot's token is missing",
        'add bot_token = "${DISCORD_BOT_TOKEN}"',
    ),
}


def path_of(error: ErrorDetails) -> Path:
    """Where the error is, without the steps that only the validator knows."""
    inner = ("[key]",)
    return tuple(
        part for part in error["loc"] if part not in inner and not str(part).startswith("function-")
    )


def explain(error: ErrorDetails) -> tuple[str, str]:
    """What is wrong and what to write. A value that may be secret is never repeated."""
    kind = error["type"]
    if kind == "missing":
        return _explain_missing(path_of(error))
    if kind == "openab":
        context = error.get("ctx", {})
        return str(context["message"]), str(context["remedy"])
    if kind == "enum":
        return _explain_word(error)
    if kind in _EXPECTED:
        has_point = kind == "int_type" and isinstance(error["input"], float)
        expected, remedy = _EXPECTED["int_from_float" if has_point else kind]
        return f"{expected} is expected, not {kind_of(error['input'])}", remedy
    return error["msg"][:1].lower() + error["msg"][1:], ""


def _explain_missing(path: Path) -> tuple[str, str]:
    if path[:1] == ("agents",) and path[2:] == ("command",):
        remedy = 'add command = "…"; OPENAB_AGENT_COMMAND counts for [agent] alone'
        return "this agent's program is missing", remedy
    return _REQUIRED.get(path, ("this key is required", "add it"))


def _explain_word(error: ErrorDetails) -> tuple[str, str]:
    expected = str(error.get("ctx", {}).get("expected", ""))
    words = f"write one of {expected}"
    if not isinstance(error["input"], str):
        return f"a word is expected, not {kind_of(error['input'])}", words
    if error["input"].lower() == "batched":
        return '"batched" is no longer a mode', 'write "per-thread" or "per-lane"'
    return f"{shown(error['input'])} is not among the words", words
