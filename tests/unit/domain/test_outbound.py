"""Message bodies: who may be pinged, what is presentation, and how a message is recognised."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openab.domain.ids import PlatformId
from openab.domain.outbound import (
    Button,
    answer_body,
    content_digest,
    is_presentation,
    presentation_body,
)


@given(st.text())
def test_a_presentation_body_is_silent_marked_and_pings_nobody(text: str) -> None:
    body = presentation_body(text, (Button("openab:stop:1", "Stop"),))
    assert body.content.startswith("-# ")
    assert body.content.endswith(text)
    assert body.silent
    assert body.mention is None
    assert body.reply_to is None
    assert is_presentation(body.content, silent=body.silent)
    assert presentation_body(body.content).content == body.content


def test_an_answer_pings_only_whom_it_names() -> None:
    assert answer_body("hi").mention is None
    body = answer_body("hi", mention=PlatformId("31"), reply_to=PlatformId("9"))
    assert (body.mention, body.reply_to, body.silent) == ("31", "9", False)


@pytest.mark.parametrize(
    ("content", "silent", "told"),
    [("-# hi", True, True), ("-# hi", False, False), ("hi", True, False), (" -# hi", True, False)],
)
def test_both_signs_make_a_presentation_message(content: str, silent: bool, told: bool) -> None:
    assert is_presentation(content, silent=silent) is told


@given(st.text())
def test_the_digest_survives_what_discord_trims(text: str) -> None:
    lines = text.split("\n")
    trimmed = "\n".join(line.rstrip() for line in lines).strip()
    assert content_digest(trimmed) == content_digest(text) == content_digest(f"\n {text} \n")


@given(st.text(st.characters(codec="utf-8")), st.text(st.characters(codec="utf-8")))
def test_other_words_have_another_digest(one: str, other: str) -> None:
    def words(text: str) -> list[str]:
        return [line.rstrip() for line in text.replace("\r\n", "\n").strip().split("\n")]

    assert (content_digest(one) == content_digest(other)) == (words(one) == words(other))
