"""The lines of keys."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openab.config.findings import Path, spell_path
from openab.config.positions import positions

TEXT = '''
# [not.this]
top = 1
[a.b] # [nor this]
"quoted = key" = 2
'literal' = """
[no] = section
"""
x.y = [
  "[no]",
  # = comment
  { z = 3 },
]
[[jobs]]
n = 1
[[jobs]]
n = 2
[jobs.inner]
m = 3
'''


@pytest.mark.parametrize(
    ("path", "line"),
    [
        (("top",), 3),
        (("a", "b"), 4),
        (("a", "b", "quoted = key"), 5),
        (("a", "b", "literal"), 6),
        (("a", "b", "x", "y"), 9),
        (("a", "b", "x", "y", 1, "z"), 9),
        (("jobs", 0, "n"), 15),
        (("jobs", 1), 16),
        (("jobs", 1, "n"), 17),
        (("jobs", 1, "inner", "m"), 19),
        (("a", "b", "absent"), 4),
        (("nowhere",), None),
    ],
)
def test_a_path_has_the_line_of_its_key_or_of_what_is_around_it(
    path: Path, line: int | None
) -> None:
    assert positions(TEXT).line(path) == line


@given(st.text("ab.=\"'[]{}#\n \\", max_size=60))
def test_no_text_is_too_odd(text: str) -> None:
    assert all(1 <= line <= text.count("\n") + 1 for line in positions(text).lines.values())


def test_a_path_is_spelled_as_in_toml() -> None:
    assert spell_path(("cron", "jobs", 0, "schedule")) == "cron.jobs[0].schedule"
    assert spell_path(("a", "b c")) == 'a."b c"'
