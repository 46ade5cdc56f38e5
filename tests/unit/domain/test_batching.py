"""What a message weighs, and when a turn may hold several."""

from hypothesis import given
from hypothesis import strategies as st

from openab.domain.batching import IMAGE_TOKENS, Batching, DispatchMode, weight
from openab.domain.message import Attachment


def a_file(kind: str) -> Attachment:
    return Attachment("f", kind, 1, "https://x.test/f")


def test_weighs_text_by_its_bytes_and_images_at_a_flat_rate() -> None:
    assert weight("") == 0
    assert weight("abcd") == 2
    assert weight("日本") == 2
    assert weight("", [a_file("image/png"), a_file("text/plain")]) == IMAGE_TOKENS


@given(st.text(st.characters()), st.text(st.characters()))
def test_any_text_has_a_weight_and_more_text_never_weighs_less(one: str, more: str) -> None:
    assert 0 <= weight(one) <= weight(one + more)


def test_half_a_surrogate_has_a_weight() -> None:
    assert weight("\ud800") == 1


def test_gathers_only_where_more_than_one_message_may_be_held() -> None:
    modes = {mode: Batching(mode).gathers for mode in DispatchMode}
    assert modes == {
        DispatchMode.PER_MESSAGE: False,
        DispatchMode.PER_THREAD: True,
        DispatchMode.PER_LANE: True,
    }
    assert not Batching(DispatchMode.PER_THREAD, max_messages=1).gathers
