"""What shares a broker is not spread over workers, and what takes long does not begin last."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests import spreading

SHARED = "tests/acceptance/test_faults.py"
ALONE = "tests/architecture/test_spreading.py"


def test_a_file_whose_tests_share_something_stays_together() -> None:
    assert spreading.scope(f"{SHARED}::test_a[1]") == spreading.scope(f"{SHARED}::test_b")


def test_every_other_test_goes_wherever_there_is_room() -> None:
    assert spreading.scope(f"{ALONE}::test_a[1]") != spreading.scope(f"{ALONE}::test_a[2]")


def test_a_run_by_groups_is_spread_like_that(pytestconfig: pytest.Config) -> None:
    for dist, is_ours in (("loadgroup", True), ("load", False), ("no", False)):
        config = cast("Any", SimpleNamespace(getvalue=lambda _, dist=dist: dist))
        made = pytestconfig.hook.pytest_xdist_make_scheduler(config=config, log=_Log())
        assert isinstance(made, spreading.GroupsTogether) is is_ours


class _Log:
    """As much of a log as a scheduler wants."""

    def __getattr__(self, _: str) -> "_Log":
        return self


def test_what_takes_long_begins_first() -> None:
    items = [_Item("a"), _Item("b", "slow"), _Item("c"), _Item("d", "slow")]
    spreading.slow_first(cast("list[pytest.Item]", items))
    assert [item.name for item in items] == ["b", "d", "a", "c"]


class _Item:
    def __init__(self, name: str, *marks: str) -> None:
        self.name, self._marks = name, marks

    def get_closest_marker(self, name: str) -> str | None:
        return name if name in self._marks else None
