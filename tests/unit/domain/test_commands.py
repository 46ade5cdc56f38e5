"""Text twins: exactly the command, or it is for the agent."""

import pytest

from openab.domain.commands import TextCommand, text_command
from openab.domain.message import CommandKind


@pytest.mark.parametrize(
    ("text", "kind", "argument"),
    [
        ("!cancel", CommandKind.CANCEL, ""),
        (" !cancel-all\n", CommandKind.CANCEL_ALL, ""),
        ("!reset", CommandKind.RESET, ""),
        ("!models", CommandKind.MODELS, ""),
        ("!models  GPT 5 mini ", CommandKind.MODELS, "GPT 5 mini"),
        ("!agents plan", CommandKind.AGENTS, "plan"),
        ("!usage", CommandKind.USAGE, ""),
        ("!sessions", CommandKind.SESSIONS, ""),
        ("!focus", CommandKind.FOCUS, ""),
        ("!focus <#123> ", CommandKind.FOCUS, "<#123>"),
        ("!unfocus", CommandKind.UNFOCUS, ""),
        ("!session", CommandKind.SESSION, ""),
    ],
)
def test_exactly_the_command(text: str, kind: CommandKind, argument: str) -> None:
    assert text_command(text) == TextCommand(kind, argument)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "/reset",
        "/models x",
        "!reset now",
        "!usage please",
        "!sessions 2",
        "!RESET",
        "please !reset",
        "!reset\n!reset",
        "!models\ngpt",
        "!modelsx",
        "!permit",
        "!unfocus now",
        "!session idle 2d",
        "!spawn luna look into it",
    ],
)
def test_anything_else_is_for_the_agent(text: str) -> None:
    assert text_command(text) is None
