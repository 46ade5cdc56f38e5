"""Rules of the house that no linter knows, read from the syntax trees; each has its negative control."""

import ast
from collections.abc import Iterator

import pytest

from tests.repository import modules

#: All that differs between the dialects; the address alone is judged before there is an engine.
DIALECT_MODULES = {
    "openab/storage/dialect.py",
    "openab/storage/engine.py",
    "openab/domain/database_url.py",
}
DIALECTS = {"sqlite", "postgresql", "postgres"}


def state_writes(tree: ast.AST) -> Iterator[int]:
    """Lines on which an UPDATE sets a column named `state`."""
    for call in _calls(tree, "values"):
        chain = {name for node in ast.walk(call.func) if (name := _name(node))}
        if "update" in chain and _sets_state(call):
            yield call.lineno
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            text = " ".join(node.value.lower().split())
            if "update " in text and " set state" in text:
                yield node.lineno


def dialect_tests(tree: ast.AST) -> Iterator[int]:
    """Lines that compare something with the name of a dialect."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare):
            constants = {n.value for n in ast.walk(node) if isinstance(n, ast.Constant)}
            if constants & DIALECTS:
                yield node.lineno


def nameless_tasks(tree: ast.AST) -> Iterator[int]:
    """Lines that start a task without a name, or outside a group."""
    for call in _calls(tree, "create_task"):
        named = any(keyword.arg == "name" for keyword in call.keywords)
        if not named or ast.unparse(call.func) == "asyncio.create_task":
            yield call.lineno


def _calls(tree: ast.AST, method: str) -> Iterator[ast.Call]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and getattr(node.func, "attr", None) == method:
            yield node


def _sets_state(call: ast.Call) -> bool:
    if any(keyword.arg == "state" for keyword in call.keywords):
        return True
    keys = (key for node in call.args for key in getattr(node, "keys", []))
    return any(
        (isinstance(key, ast.Constant) and key.value == "state")
        or (isinstance(key, ast.Attribute) and key.attr == "state")
        for key in keys
    )


def _name(node: ast.AST) -> str | None:
    return getattr(node, "attr", None) or getattr(node, "id", None)


def test_only_transitions_writes_a_state() -> None:
    writers = {name for name, tree in modules("openab") if any(state_writes(tree))}

    # A migration may move rows to a state that the new code knows.
    assert {name for name in writers if "/migrations/" not in name} == {
        "openab/storage/transitions.py"
    }


@pytest.mark.parametrize(
    "code",
    [
        "sa.update(turns).where(turns.c.id == 1).values(state='done')",
        "turns.update().values({'state': 'done'})",
        "update(turns).values({turns.c.state: 'done'})",
        "tx.execute(text('UPDATE turns SET state = 1'))",
    ],
)
def test_a_second_writer_of_a_state_is_noticed(code: str) -> None:
    assert list(state_writes(ast.parse(code))) == [1]


def test_a_first_state_may_be_inserted() -> None:
    assert not list(state_writes(ast.parse("sa.insert(turns).values(state='queued')")))


def test_only_the_engine_asks_for_the_dialect() -> None:
    asking = {name for name, tree in modules("openab") if any(dialect_tests(tree))}

    assert asking <= DIALECT_MODULES


@pytest.mark.parametrize(
    "code",
    ["if connection.dialect.name == 'sqlite': pass", "x = 'postgresql' in url", "a != 'postgres'"],
)
def test_another_question_for_the_dialect_is_noticed(code: str) -> None:
    assert list(dialect_tests(ast.parse(code))) == [1]


def test_every_task_has_a_name_and_an_owner() -> None:
    found = {f"{name}:{n}" for name, tree in modules("openab") for n in nameless_tasks(tree)}

    assert not found


@pytest.mark.parametrize("code", ["asyncio.create_task(x(), name='x')", "group.create_task(x())"])
def test_a_task_without_name_or_owner_is_noticed(code: str) -> None:
    assert list(nameless_tasks(ast.parse(code))) == [1]


def test_every_module_says_what_it_is() -> None:
    trees = [*modules("openab"), *modules("tests"), *modules("benchmarks"), *modules("docs")]
    silent = {name for name, tree in trees if not ast.get_docstring(tree) and tree.body}

    assert not silent
