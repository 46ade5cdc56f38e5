"""The broker's end of the line: what is told, and where an order strikes."""

import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.lab.tripwire import Tripwire

_KIND = "cut-database"


@pytest.fixture
def listening() -> Iterator[tuple[socket.socket, str]]:
    """The laboratory's socket, below a path that is short enough for one."""
    with tempfile.TemporaryDirectory(prefix="openab-wire-") as folder:
        address = str(Path(folder) / "lab")
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as bound:
            bound.bind(address)
            bound.listen(1)
            yield bound, address


@pytest.mark.parametrize(
    ("order", "struck"),
    [
        (f"b 1 {_KIND}", ["b"]),
        (f"b 2 {_KIND}", ["b"]),
        (f"b 3 {_KIND}", []),
        (f"* 1 {_KIND}", ["a"]),
        (f"* 4 {_KIND}", ["b"]),
        (f"new 1 {_KIND}", ["c"]),
        ("", []),
    ],
)
def test_an_order_strikes_once_at_its_passing(
    listening: tuple[socket.socket, str], tmp_path: Path, order: str, struck: list[str]
) -> None:
    bound, address = listening
    for claimed in "ab":
        (tmp_path / claimed).touch()
    wire = Tripwire()
    wire.connect(address, order, str(tmp_path))
    line, _ = bound.accept()
    with line:
        for point in "abcba":
            wire.reach(point)
        wire.close()
        told = line.recv(4096).decode().splitlines()[1:]
    assert [one.removeprefix("struck ") for one in told if one.startswith("struck")] == struck
    assert [one for one in told if one.startswith("passed")] == [f"passed {p}" for p in "abcba"]
    assert wire.is_database_away is bool(struck)


def test_an_order_that_comes_later_replaces_the_first(
    listening: tuple[socket.socket, str],
) -> None:
    bound, address = listening
    wire = Tripwire()
    wire.connect(address, f"a 1 {_KIND}")
    line, _ = bound.accept()
    with line:
        line.sendall(f"b 1 {_KIND}\n".encode())
        seen = []
        for point in "ab":
            wire.reach(point)
            seen.append(wire.is_database_away)
        wire.close()
    assert seen == [False, True]


def test_where_nobody_listens_nothing_happens() -> None:
    wire = Tripwire()
    wire.reach("a")
    assert not wire.is_database_away
