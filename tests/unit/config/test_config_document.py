"""The page of all keys."""

from pathlib import Path

from openab.config.document import render
from openab.config.keys import keys_of, sections_in
from openab.config.later import LATER
from openab.config.models import Config

PAGE = Path(__file__).parents[3] / "docs" / "config.md"


def test_the_page_says_what_the_models_say() -> None:
    assert PAGE.read_text(encoding="utf-8") == render()


def test_every_key_has_a_type_and_a_meaning() -> None:
    rows = [line.split(" | ") for line in render().splitlines() if line.startswith("| `")]

    assert len(rows) > 80
    assert [row for row in rows if not row[1].strip() or len(row[3].strip(" |")) < 4] == []


def test_every_key_that_comes_later_exists() -> None:
    for later in LATER:
        model: type | None = Config
        for part in later.key.split("."):
            assert model is not None
            declared = keys_of(model)[part]
            inner = sections_in(declared.annotation)
            model = inner[1] if inner else None
        assert later.sentence in render()
