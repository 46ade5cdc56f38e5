"""Tests assert something and wait for signs, never for time; both rules have their negative control."""

import ast
from collections.abc import Iterator

import pytest

from tests.repository import ROOT, modules

#: A call of these, or of a name that begins like these, fails where a promise is not kept.
ASSERTING = ("assert", "expect", "raises", "warns", "fail", "check", "must", "until", "run_state")
Function = ast.FunctionDef | ast.AsyncFunctionDef
#: So long that it stands for "for ever", not for a guess at how long something takes.
FOR_EVER = 60


def toothless(tree: ast.Module) -> Iterator[str]:
    """Tests without an assertion, neither their own nor in a function of their module that they call."""
    helpers = {f.name for f in _functions(tree) if _asserts(f, set())}
    for function in _functions(tree):
        if function.name.startswith("test_") and not _asserts(function, helpers):
            yield function.name


def sleeps(source: str) -> Iterator[str]:
    """Tests that wait for time to pass and do not say in a comment, there or above, why they must."""
    lines = source.splitlines()
    for function in _functions(ast.parse(source)):
        for call in filter(_is_sleep, ast.walk(function)):
            assert isinstance(call, ast.Call)
            near = lines[call.lineno - 2 : call.lineno]
            if function.name.startswith("test_") and not any("# " in line for line in near):
                yield function.name


def _functions(tree: ast.Module) -> Iterator[Function]:
    for node in ast.walk(tree):
        if isinstance(node, Function):
            yield node


def _asserts(function: Function, helpers: set[str]) -> bool:
    for node in ast.walk(function):
        if isinstance(node, ast.Assert):
            return True
        if isinstance(node, ast.Call):
            name = _called(node)
            if name in helpers or name.lstrip("_").startswith(ASSERTING):
                return True
    return False


def _called(call: ast.Call) -> str:
    return str(getattr(call.func, "attr", None) or getattr(call.func, "id", ""))


def _is_sleep(node: ast.AST) -> bool:
    if not isinstance(node, ast.Call) or _called(node) != "sleep" or not node.args:
        return False
    length = getattr(node.args[0], "value", None)
    return not isinstance(length, int | float) or 0 < length < FOR_EVER


def test_every_test_asserts_something() -> None:
    found = [f"{name}::{test}" for name, tree in modules("tests") for test in toothless(tree)]

    assert not found


def test_a_test_without_an_assertion_is_noticed() -> None:
    code = "def test_it():\n    run()\n\ndef test_that():\n    assert run()\n"

    assert list(toothless(ast.parse(code))) == ["test_it"]


def test_no_test_sleeps() -> None:
    sources = [(name, (ROOT / name).read_text(encoding="utf-8")) for name, _ in modules("tests")]
    found = [f"{name}::{test}" for name, source in sources for test in sleeps(source)]

    assert not found


@pytest.mark.parametrize("length", ["0.1", "1", "delay"])
def test_a_test_that_sleeps_is_noticed(length: str) -> None:
    code = f"async def test_it():\n    await asyncio.sleep({length})\n    assert True\n"

    assert list(sleeps(code)) == ["test_it"]


def test_a_sleep_that_has_a_reason_is_left_alone() -> None:
    code = "def test_it():\n    # Silence is what is tested.\n    time.sleep(1)\n"

    assert not list(sleeps(code))


def test_yielding_once_or_waiting_for_ever_is_no_sleep() -> None:
    code = "async def test_it():\n    await asyncio.sleep(0)\n    await asyncio.sleep(3600)\n"

    assert not list(sleeps(code))
