"""Everything that the bot says to people stands in `openab.text`: no other module words a notice."""

import ast
from collections.abc import Iterator

import pytest

from tests.repository import modules

#: What is said to an agent is no notice.
_TO_AGENTS = {"openab/control/prompts.py"}
#: Calls whose words go to the log, to a task's name or to whoever reads a stack.
_UNHEARD = {"spawn", "persist", "tell", "debug", "info", "warning", "error", "exception"}


def sentences(tree: ast.AST) -> Iterator[int]:
    """Lines with words for people: a phrase that ends as sentences do, or begins with a sign."""
    unheard = set(_unheard(tree))
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and node not in unheard and _is_said(node.value):
            yield node.lineno


def _unheard(tree: ast.AST) -> Iterator[ast.AST]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Raise | ast.Assert):
            yield from ast.walk(node)
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            yield node.value
        elif isinstance(node, ast.Call):
            name = getattr(node.func, "attr", None) or str(getattr(node.func, "id", ""))
            if name in _UNHEARD or name.endswith(("Error", "Lost")):
                yield from ast.walk(node)


def _is_said(value: object) -> bool:
    text = value.strip() if isinstance(value, str) else ""
    return " " in text and (text[-1] in ".!?" or ord(text[0]) > 0x2000)


def test_only_the_notices_speak_to_people() -> None:
    found = {
        f"{name}:{line}"
        for folder in ("openab/control", "openab/presentation")
        for name, tree in modules(folder)
        if name not in _TO_AGENTS
        for line in sentences(tree)
    }
    # The status line's own words are no notices; it is one place, too.
    assert {each for each in found if not each.startswith("openab/presentation/status.py")} == set()


@pytest.mark.parametrize(
    "code",
    [
        'def f(): return "Nothing to do here."',
        'told = f"⛔ Only {name} may"',
        'owe(tx, body("Ask again!"))',
    ],
)
def test_a_sentence_elsewhere_is_noticed(code: str) -> None:
    assert list(sentences(ast.parse(code))) == [1]


@pytest.mark.parametrize(
    "code",
    ['"""Says what it is. Well."""', 'raise LeaseLost("it is gone.")', 'log.info("turn done.")'],
)
def test_what_nobody_hears_is_none(code: str) -> None:
    assert not list(sentences(ast.parse(code)))
