"""Which points there must be, read from the code: transactions by their use case, calls by their port."""

import ast
import inspect
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import FrameType
from typing import Any

from openab.ports.agent import Agents
from openab.ports.channel import Channel

_CODE = Path(__file__).resolve().parents[2] / "openab"
SIDES = ("before", "after")


def use_case(frame: FrameType) -> str:
    """The module and function that runs in a frame, without the package's name."""
    module = str(frame.f_globals.get("__name__", "?")).removeprefix("openab.")
    return f"{module}.{frame.f_code.co_qualname}"


def purpose(frame: FrameType) -> str:
    """Why a port is called: what the delivery at hand is for, else the caller's module."""
    purposed = getattr(frame.f_locals.get("delivery"), "purpose", None)
    if purposed is not None:
        return str(purposed.value)
    return str(frame.f_globals.get("__name__", "?")).rpartition(".")[2]


def port_methods(port: type[Any]) -> list[str]:
    """The calls of a port that have an effect or ask somebody: its coroutine functions."""
    return sorted(
        name
        for name, member in vars(port).items()
        if inspect.iscoroutinefunction(member) and not name.startswith("_")
    )


def channel_methods() -> list[str]:
    """Every call to the chat network."""
    return port_methods(Channel)


def agent_methods() -> list[str]:
    """Every call to the agent host."""
    return port_methods(Agents)


@cache
def transactions(package: str = "control") -> frozenset[str]:
    """The commits of a package: `commit:control.outbox.Outbox._record`, …, one a function."""
    found: set[str] = set()
    for path in sorted((_CODE / package).glob("*.py")):
        module = f"{package}.{path.stem}"
        found |= {f"commit:{module}.{name}" for name in opening(path.read_text(encoding="utf-8"))}
    return frozenset(found)


def opening(source: str) -> set[str]:
    """The qualified names of the functions in which `….transaction()` is called."""
    return set(_opening(ast.parse(source), ""))


def _opening(node: ast.AST, within: str) -> Iterator[str]:
    for child in ast.iter_child_nodes(node):
        if _opens(child):
            yield within
        yield from _opening(child, _inside(child, within, node))


def _opens(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "transaction"
        and not node.args
    )


def _inside(node: ast.AST, within: str, parent: ast.AST) -> str:
    """The qualified name that code inside `node` runs under."""
    if isinstance(node, ast.Lambda):
        return f"{within}.<locals>.<lambda>"
    if not isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
        return within
    is_local = isinstance(parent, ast.FunctionDef | ast.AsyncFunctionDef)
    return ".".join(filter(None, (within, "<locals>" if is_local else "", node.name)))


def effect(point: str) -> str:
    """A point without its side: `commit:…`, `discord:create_message:final`, `agent:prompt:agent_run`."""
    return point.rpartition(":")[0]
