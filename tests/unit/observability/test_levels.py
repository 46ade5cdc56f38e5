"""`OPENAB_LOG` and `RUST_LOG` are read as operators expect."""

import logging

import pytest

from openab.observability import levels


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({}, {"openab": logging.INFO}),
        ({"RUST_LOG": "openab=debug"}, {"openab": logging.DEBUG}),
        ({"OPENAB_LOG": "warn", "RUST_LOG": "openab=debug"}, {"openab": logging.WARNING}),
        ({"OPENAB_LOG": "", "RUST_LOG": "error"}, {"openab": logging.ERROR}),
        (
            {"OPENAB_LOG": "openab=info, discord=debug,openab::web=off"},
            {"openab": logging.INFO, "discord": logging.DEBUG, "openab.web": 60},
        ),
    ],
)
def test_levels(environ: dict[str, str], expected: dict[str, int]) -> None:
    read = levels.read(environ)
    assert read.named == expected
    assert read.unknown == ()


def test_a_bare_level_is_ours_alone() -> None:
    assert levels.read({"OPENAB_LOG": "debug"}).others == logging.WARNING


def test_words_nobody_understands_are_kept_to_be_told() -> None:
    read = levels.read({"OPENAB_LOG": "openab=loud,discord=info"})
    assert read.unknown == ("openab=loud",)
    assert read.named == {"openab": logging.INFO, "discord": logging.INFO}
