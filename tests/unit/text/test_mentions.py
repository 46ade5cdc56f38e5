"""Who is named in a text, and what of it the agent reads."""

import pytest

from openab.text.mentions import MentionedIds, conversation_named, mentioned_ids, prompt_text


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


@pytest.mark.parametrize(
    ("text", "conversation"),
    [
        ("123", "123"),
        (" <#123> ", "123"),
        ("https://discord.com/channels/5/123", "123"),
        ("<https://ptb.discord.com/channels/5/123/77>", "123"),
        ("https://discordapp.com/channels/@me/123/?x=1", "123"),
        ("luna", None),
        ("", None),
        ("<@123>", None),
        ("1" * 21, None),
        ("https://example.com/channels/5/123", None),
        ("discord:900:123", None),
        ("see <#123>", None),
    ],
)
def test_a_conversation_goes_by_its_id_its_mention_or_a_link(
    text: str, conversation: str | None
) -> None:
    assert conversation_named(text) == conversation
