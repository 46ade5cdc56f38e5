"""Nothing of a head is shown, nothing of a body is lost, and work is handed over byte for byte."""

import itertools
import re
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openab.domain.agent_events import TextDelta
from openab.domain.handoff import draft, sent_in, written
from openab.domain.ids import PlatformId
from openab.domain.message import Place
from openab.presentation.transcript import TurnView, begun
from openab.text.answer import AnswerFold
from openab.text.narration import Narration, delivered_of
from openab.text.output import HeadFilter, Intent, body_of, intent_of
from tests.builders import ACCOUNT, SENT_AT, a_ref

_LINES = st.sampled_from(
    [
        "[[handoff:901]]\n",
        " [[ handoff : 77 ]] \r\n",
        "[[reply_to:1000]]\n",
        "[[handoff:none]]\n",
        "[[later:x]]\n",
    ]
)
#: The last line may have the body behind it.
HEADS = st.tuples(st.lists(_LINES, max_size=4).map("".join), st.sampled_from(["", "[[a:b]] "])).map(
    "".join
)
BODIES = st.text(st.characters(exclude_categories=()), max_size=60).map(
    lambda text: "body " + text.replace("\ud800", "")
)


def pieces_of(text: str, cuts: list[int]) -> list[str]:
    at = [0, *sorted(cut % (len(text) + 1) for cut in cuts), len(text)]
    return [text[a:b] for a, b in itertools.pairwise(at)]


@given(HEADS, BODIES, st.lists(st.integers(0, 200), max_size=8))
def test_whatever_the_deltas_are_the_body_is_shown_and_nothing_of_the_head(
    head: str, body: str, cuts: list[int]
) -> None:
    output, filtered = head + body, HeadFilter()
    shown, so_far = "", ""
    for piece in pieces_of(output, cuts):
        shown += filtered.take("", piece)
        so_far += piece
        assert body_of(output).startswith(shown), "no more than the body, ever"
    assert shown == body_of(output)


@given(HEADS, BODIES)
def test_a_body_is_the_output_behind_its_head(head: str, body: str) -> None:
    assert body_of(head + body) == body
    assert (head + body).endswith(body)


@given(BODIES)
def test_what_stands_in_a_body_asks_for_nothing(body: str) -> None:
    for quoting in ("{}\n[[handoff:901]]", "> [[handoff:901]]\n{}", "```\n[[handoff:901]]\n```{}"):
        output = "text " + quoting.format(body)
        assert intent_of([output]) == Intent()
        assert body_of(output) == output


@given(st.text(max_size=200).filter(str.strip))
def test_work_is_handed_over_byte_for_byte(work: str) -> None:
    output = "[[handoff:901]]\n" + ("\n" if work.startswith(("[", " ", "\t")) else "") + work
    intent = intent_of([output])
    assert intent.target == "901"
    assert intent.payload == output.removeprefix("[[handoff:901]]\n")
    envelope = draft(
        ACCOUNT, PlatformId("901"), a_ref("500"), Place.THREAD, None, UUID(int=1), SENT_AT, work
    )
    found = sent_in(written(envelope))
    assert found is not None
    assert found.text == work
    assert re.findall("<@", written(envelope)) == ["<@"]


@pytest.mark.parametrize(
    ("outputs", "target", "payload"),
    [
        (["[[handoff:1]]\nDo it."], "1", "Do it."),
        (["[[handoff:1]]Do it.\n"], "1", "Do it.\n"),
        (["[[handoff:0001]]\nDo it."], "1", "Do it."),
        (["[[handoff:1]]\n[[handoff:2]]\nDo it."], "2", "Do it."),
        (["[[handoff:1]]"], "1", ""),
        # A kill stood between: the whole output is what both attempts said.
        (["[[handoff:1]]\nDo this", "and that."], "1", "Do this\n\nand that."),
        (["[[handoff:1]]\nDo th", "[[handoff:1]]\nDo this."], "1", "Do this."),
        (["", "[[handoff:1]]\nDo this."], "1", "Do this."),
        (["[[handoff:1]]\nDo this", "[[handoff:no]]\nand that."], None, ""),
        (["text\n[[handoff:1]]\nDo it."], None, ""),
        (["[[handoff:18446744073709551616]]\nDo it."], None, ""),
    ],
)
def test_intents(outputs: list[str], target: str | None, payload: str) -> None:
    intent = intent_of(outputs)
    assert (intent.target, intent.payload) == (target, payload)


def test_a_reply_is_asked_for_unless_work_is_handed_over() -> None:
    assert intent_of(["[[reply_to:1000]]\nHere."]).reply_to == "1000"
    assert intent_of(["[[reply_to:1000]]\n[[handoff:901]]\nHere."]).reply_to is None


def test_what_is_no_value_is_kept_to_be_told() -> None:
    (line,) = intent_of(["[[handoff:luna]]\nHere."]).invalid
    assert (line.key, line.value) == ("handoff", "luna")


def test_a_growing_answer_shows_no_head_and_no_unfinished_one() -> None:
    view = TurnView()
    seen = []
    for delta in ("[", "[hand", "off:901]", "]", "\n", "Do", " it."):
        view.apply(TextDelta(delta))
        seen.append(view.tail.text)
    assert seen == ["", "", "", "", "", "Do", "Do it."]


def test_a_second_attempts_head_is_not_shown_behind_what_was_said_before() -> None:
    view = begun("half", ())
    for delta in ("[[handoff:901]]\n", "the rest"):
        view.apply(TextDelta(delta))
    assert view.tail.text == "half\n\nthe rest"


@pytest.mark.parametrize("streamed", [True, False])
def test_a_final_has_no_head_whichever_part_of_the_answer_it_is(*, streamed: bool) -> None:
    fold = AnswerFold()
    fold.add(TextDelta("[[handoff:901]]\nAll of it."))
    assert delivered_of(fold, Narration(is_streamed=streamed)) == "All of it."
