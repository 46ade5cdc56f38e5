"""Which lines open and close code blocks."""

import pytest

from openab.text.fences import Fence, closing, open_at_end


@pytest.mark.parametrize(
    ("text", "mark"),
    [
        ("```py", "```"),
        ("   ~~~", "~~~"),
        ("````md\n```\ninside\n```", "````"),
        ("```\n~~~", "```"),
        ("~~~ a`b", "~~~"),
        ("```\n    ```", "```"),
        ("```\n```py", "```"),
    ],
)
def test_a_block_is_open_at_the_end(text: str, mark: str) -> None:
    fence = open_at_end(text)
    assert fence
    assert fence.mark == mark


@pytest.mark.parametrize(
    "text",
    ["", "``", "    ```", "a ```", "```a```", "```\nx\n````  ", "~~~\n ~~~\r", "`" * 40],
)
def test_no_block_is_open_at_the_end(text: str) -> None:
    assert open_at_end(text) is None


def test_a_long_info_string_is_not_repeated() -> None:
    assert Fence("```", "python title=x").opener == "```python title=x"
    assert Fence("```", "x" * 41).opener == "```"


def test_closing_begins_its_own_line() -> None:
    assert closing(Fence("~~~~"), "code") == "\n~~~~"
    assert closing(Fence("```"), "code\n") == "```"
    assert closing(None, "text") == ""
