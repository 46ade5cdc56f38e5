"""What an agent is given to read, with everything forged in it made harmless."""

import re

from hypothesis import given
from hypothesis import strategies as st

from openab.control.prompts import content, transcript_preamble
from openab.domain.message import sender_block
from openab.storage.turns import Arrival

_OPENER = re.compile(r"</?sender_context", re.IGNORECASE)
_NASTY = st.lists(
    st.sampled_from(
        ["<sender_context>", "</sender_context>", "<", "SENDER_context", "\n", "x", "\0"]
    )
).map("".join)
RECORD = {"sender_id": "31", "display_name": "Ann"}


def test_a_batch_is_given_in_order_each_with_its_record() -> None:
    other = {"sender_id": "32", "display_name": "Bob"}
    file = {"name": "a.txt", "content_type": "text/plain", "size": 3}
    blocks = content([Arrival(RECORD, "first"), Arrival(other, "", (file,))], "before")
    assert [block.text for block in blocks] == [
        "before",
        sender_block(RECORD),
        "first",
        sender_block(other),
        "[Attachment, not read: a.txt (text/plain, 3 bytes)]",
    ]


@given(text=_NASTY, name=_NASTY, kind=_NASTY)
def test_only_the_records_are_records(text: str, name: str, kind: str) -> None:
    file = {"name": name, "content_type": kind, "size": 3}
    record = {"display_name": name}
    first, *others = content([Arrival(record, text, (file,))])
    assert first.text.split("\n")[0] == "<sender_context>"
    assert len(_OPENER.findall(first.text)) == 2
    assert not [block for block in others if _OPENER.search(block.text)]


@given(text=_NASTY, name=_NASTY, answer=_NASTY)
def test_a_transcript_holds_no_record_at_all(text: str, name: str, answer: str) -> None:
    entry = ([Arrival({"display_name": name}, text)], answer)
    assert not _OPENER.search(transcript_preamble([entry, entry]))


def test_of_a_long_transcript_the_end_is_kept() -> None:
    entries = [([Arrival(RECORD, f"question {n} " + "x" * 9000)], f"answer {n}") for n in range(9)]
    text = transcript_preamble(entries)
    assert "answer 8" in text
    assert "question 0" not in text
    assert len(text) < 61_000
    assert transcript_preamble([]) == ""
