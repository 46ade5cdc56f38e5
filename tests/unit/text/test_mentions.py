"""Who is named in a text, and what of it the agent reads."""

import pytest

from openab.text.mentions import MentionedIds, mentioned_ids, prompt_text


@pytest.mark.parametrize(
    ("text", "prompt"),
    [
        ("<@1> build it", "build it"),
        ("<@!1> build it <@1>", "build it"),
        ("build <@1>  it", "build   it"),
        ("ask <@2> and <@!3>", "ask <@2> and <@!3>"),
        ("<@&7> build", "build"),
        ("<@&8> build", "@(role) build"),
        ("<@1>", ""),
        ("<@11> hi", "<@11> hi"),
    ],
)
def test_the_prompt_is_the_text_without_our_address(text: str, prompt: str) -> None:
    assert prompt_text(text, "1", {"7"}) == prompt


def test_ids_are_read_from_the_literal_text() -> None:
    found = mentioned_ids("<@1> <@!2> <@&3> <#4> <@x> <@\u0661> <@" + "9" * 21 + ">")
    assert found == MentionedIds(frozenset({"1", "2"}), frozenset({"3"}))  # type: ignore[arg-type]
