"""How xdist spreads the tests over its workers: what shares a broker runs together, what takes long begins early."""

from functools import cache
from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling  # type: ignore[import-untyped]

from tests.repository import ROOT


class GroupsTogether(LoadScopeScheduling):  # type: ignore[misc]
    """Each file that marks itself with `xdist_group` is done by one worker, every other test by any.

    xdist 3.8 itself loses the marks under pytest 9.2, and each worker then starts each shared broker.
    """

    def _split_scope(self, nodeid: str) -> str:
        return scope(nodeid)


def scope(nodeid: str) -> str:
    """What a test may not be separated from: its file, or nothing."""
    path = nodeid.partition("::")[0]
    return path if _is_group(path) else nodeid


@cache
def _is_group(path: str) -> bool:
    file = ROOT / path
    return file.is_file() and "mark.xdist_group(" in file.read_text(encoding="utf-8")


def scheduler(config: pytest.Config, log: Any) -> GroupsTogether | None:
    """For `--dist loadgroup`; None leaves the choice to xdist."""
    return GroupsTogether(config, log) if config.getvalue("dist") == "loadgroup" else None


def slow_first(items: list[pytest.Item]) -> None:
    """What takes minutes begins first, so that no worker is left alone with it at the end."""
    items.sort(key=lambda item: item.get_closest_marker("slow") is None)
