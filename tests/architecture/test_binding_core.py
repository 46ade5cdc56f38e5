"""The bindings' core knows no chat network, and nobody opens the router or goes past it; each with its control."""

import ast
from collections.abc import Iterator

import pytest

from tests.repository import ROOT, modules

CORE = (
    "openab/domain/binding.py",
    "openab/domain/destination.py",
    "openab/domain/spawn.py",
    "openab/routing/",
    "openab/storage/bindings.py",
    "openab/storage/binding_listing.py",
    "openab/storage/spawns.py",
)
#: Where the parameter is declared and handed on.
ROUTER = "openab/routing/router.py"
#: The only one that has something to route: every other path stays where it was said.
CALLER = "openab/control/completions.py"


def core() -> list[str]:
    return [name for name, _ in modules("openab") if name.startswith(CORE)]


def networks_named(source: str) -> Iterator[str]:
    """Chat networks that a text names, and imports of a channel."""
    low = source.lower()
    yield from (word for word in ("discord", "snowflake", "guild", "webhook") if word in low)
    if "openab.channels" in source:
        yield "openab.channels"


def openings(tree: ast.AST) -> Iterator[int]:
    """Lines that could open the router: `fail_closed` as anything but True."""
    for node in ast.walk(tree):
        if isinstance(node, ast.keyword) and node.arg == "fail_closed":
            if not (isinstance(node.value, ast.Constant) and node.value.value is True):
                yield node.value.lineno
        elif isinstance(node, ast.Constant) and node.value == "fail_closed":
            yield node.lineno


def routers(tree: ast.AST) -> Iterator[int]:
    """Lines that name the router or its rule."""
    for node in ast.walk(tree):
        name = getattr(node, "attr", None) or getattr(node, "id", None)
        if name == "resolve_destination":
            yield node.lineno  # type: ignore[attr-defined] # it is a name or an attribute
        elif isinstance(node, ast.ImportFrom):
            names = {alias.name for alias in node.names}
            is_rule = node.module == "openab.domain.destination" and "resolve" in names
            if is_rule or "resolve_destination" in names:
                yield node.lineno


def test_the_core_names_no_chat_network() -> None:
    found = {
        f"{name}: {word}"
        for name in core()
        for word in networks_named((ROOT / name).read_text(encoding="utf-8"))
    }
    assert len(core()) > len(CORE)
    assert not found


@pytest.mark.parametrize(
    "code",
    [
        "# As Discord does it.",
        "from openab.channels.discord.bindings import DiscordBindings",
        "from openab.channels import somewhere",
        "is_ours = webhook_id in known",
    ],
)
def test_a_chat_network_in_the_core_is_noticed(code: str) -> None:
    assert list(networks_named(code))


def test_production_never_opens_the_router() -> None:
    found = {
        f"{name}:{line}"
        for name, tree in modules("openab")
        if name != ROUTER
        for line in openings(tree)
    }
    assert not found


def test_the_router_itself_only_hands_on_what_it_was_given() -> None:
    (tree,) = (tree for name, tree in modules("openab") if name == ROUTER)
    given = [
        ast.unparse(node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.keyword) and node.arg == "fail_closed"
    ]
    defaults = [
        default.value
        for node in ast.walk(tree)
        if isinstance(node, ast.AsyncFunctionDef)
        for argument, default in zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True)
        if argument.arg == "fail_closed" and isinstance(default, ast.Constant)
    ]
    assert given == ["fail_closed"]
    assert defaults == [True]


@pytest.mark.parametrize(
    "code",
    [
        "await resolve_destination(tx, b, kind, key, None, fail_closed=False)",
        "await resolve_destination(tx, b, kind, key, None, fail_closed=is_closed)",
        "partial(resolve_destination, fail_closed=not True)",
        "await resolve_destination(tx, b, kind, key, **{'fail_closed': False})",
    ],
)
def test_an_opened_router_is_noticed(code: str) -> None:
    assert list(openings(ast.parse(code))) == [1]


def test_a_closed_router_is_left_alone() -> None:
    code = "await resolve_destination(tx, b, kind, key, where, fail_closed=True)"
    assert not list(openings(ast.parse(code)))


def test_only_completions_are_routed() -> None:
    found = {name for name, tree in modules("openab") if any(routers(tree))}
    assert found == {CALLER, ROUTER}


@pytest.mark.parametrize(
    "code",
    [
        "from openab.routing.router import resolve_destination",
        "await router.resolve_destination(tx)",
        "from openab.domain.destination import Reason, resolve",
    ],
)
def test_another_way_to_the_router_is_noticed(code: str) -> None:
    assert list(routers(ast.parse(code)))


def test_what_the_router_decided_may_be_read_anywhere() -> None:
    code = "from openab.domain.destination import Destination, Mode, Reason"
    assert not list(routers(ast.parse(code)))
