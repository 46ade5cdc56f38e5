"""Changelog fragments are named so that a release finds them."""

import re

import pytest

from tests.repository import ROOT

NAME = re.compile(
    r"^(\d+|\+[a-z0-9-]+)\.(added|changed|deprecated|removed|fixed|security)(\.\d+)?\.md$"
)


def test_every_fragment_is_well_named_and_says_something() -> None:
    fragments = [p for p in (ROOT / "changelog.d").iterdir() if p.name != "README.md"]

    assert not [p.name for p in fragments if not NAME.match(p.name)]
    assert not [p.name for p in fragments if not p.read_text(encoding="utf-8").strip()]


@pytest.mark.parametrize("name", ["2.feature.md", "added.md", "2.added.rst", "two.added.md"])
def test_a_misnamed_fragment_is_noticed(name: str) -> None:
    assert not NAME.match(name)
