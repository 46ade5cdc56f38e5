"""The generated pages are fresh, links lead somewhere, and the project stands alone."""

import re
from pathlib import Path

import pytest

from tests.repository import ROOT, docs_generator, files

#: What only one machine or one workplace has. Written in pieces, so that this file is not found.
FOREIGN = re.compile(
    "|".join(
        [
            r"\.\./" + "shared",
            r"(?<![\w.])/" + r"work/(main|shared)",
            "/" + r"root/\.",
            "/" + r"home/(?!openab|you|me|user|node|agent|bot)\w",
            "files" + r"\.pythonhosted",
            "pypi" + r"\.org",
            "index" + "-url",
        ]
    )
)
LINK = re.compile(r"\]\((?!https?:|mailto:|#)([^)#\s]+)")
BINARY = {".png", ".jpg", ".gif", ".ico", ".gz", ".zip"}


def readable_files() -> list[Path]:
    return [path for path in files() if path.suffix not in BINARY]


@pytest.mark.parametrize("page", docs_generator().PAGES)
def test_a_generated_page_says_what_the_code_says(page: str) -> None:
    assert page not in docs_generator().stale_pages(), f"{page} is stale: run ./dev docs"


def test_nothing_refers_to_a_machine_or_a_workplace() -> None:
    found = [
        f"{path.relative_to(ROOT)}: {match.group()}"
        for path in readable_files()
        for match in FOREIGN.finditer(path.read_text(encoding="utf-8", errors="replace"))
    ]

    assert not found


@pytest.mark.parametrize("text", ["see ../" + "shared/design.md", "in /" + "work/main/dev"])
def test_a_foreign_path_is_noticed(text: str) -> None:
    assert FOREIGN.search(text)


def test_every_link_between_pages_leads_to_a_file() -> None:
    dangling = [
        f"{page.relative_to(ROOT)}: {target}"
        for page in files()
        if page.suffix == ".md"
        for target in LINK.findall(page.read_text(encoding="utf-8"))
        if not (page.parent / target).exists()
    ]

    assert not dangling


def test_decisions_are_numbered_without_a_gap() -> None:
    names = sorted(path.name for path in (ROOT / "docs" / "decisions").glob("*.md"))

    assert names
    assert [name[:4] for name in names] == [f"{n:04}" for n in range(1, len(names) + 1)]
