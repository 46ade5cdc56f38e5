"""What is written on the wire: inert, exactly as long as it may be, and read back byte for byte."""

import json
import re
import unicodedata
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from openab.domain.errors import IllegalTransition
from openab.domain.handoff import (
    LIFECYCLE,
    Abandoned,
    Envelope,
    HandoffState,
    NotSendable,
    NotSent,
    Posted,
    TooLarge,
    candidate,
    draft,
    refusal_to_send,
    reissued,
    room,
    written,
)
from openab.domain.ids import AccountId, ChannelName, ConversationRef, PlatformId
from openab.domain.message import AuthorKind, Place

NOW = datetime(2026, 7, 1, 12, 0, 0, 250_000, tzinfo=UTC)
EVENT = UUID("0b0d9c4e-7a35-4c6e-9d4f-3f0a5f0d3b11")
THREAD = ConversationRef(
    ChannelName("discord"), AccountId("900"), PlatformId("500"), PlatformId("77")
)
#: Anything that is text: without halves of a pair, and not blank.
texts = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=150).filter(
    str.strip
)
#: What is nastier than chance.
_NASTY = (
    *("<@1>", "<@!900>", "<@&5>", "@everyone", "@here", "</x:1>", "<#7>", "[[handoff:1]]", "```"),
    *('"', "\\", "\\u003c", "}}", "{", "\n", "\r", "\0", "\x7f", "\x85", "\u2028", "\u2029"),
    *(
        "\u200b",
        "\u202e",
        "\ufeff",
        "\U000e0041",
        "\U0001f600",
        "é",
        "e\u0301",
        "👩\u200d👩\u200d👧",
    ),
)
nasty = st.lists(st.sampled_from(_NASTY), min_size=1, max_size=25).map("".join).filter(str.strip)


def an_envelope(text: str = "Do it.", place: Place = Place.THREAD) -> Envelope:
    return draft(
        AccountId("900"), PlatformId("901"), THREAD, place, PlatformId("1000"), EVENT, NOW, text
    )


def units(text: str) -> int:
    return len(text.encode("utf-16-le")) // 2


def test_the_wire_is_a_mention_and_one_compact_line_in_this_order() -> None:
    assert written(an_envelope()) == (
        "<@901>\n"
        '{"schema":"openab.multibot.handoff.v1","source_bot_id":"900","target_bot_id":"901",'
        '"event_id":"0b0d9c4e-7a35-4c6e-9d4f-3f0a5f0d3b11","origin_channel_id":"500",'
        '"origin_thread_id":"500","origin_message_id":"1000","expires_at":1782907500,'
        '"hop_count":0,"payload":{"text":"Do it."}}'
    )


@pytest.mark.parametrize(
    ("text", "payload"),
    [
        ("a\n\tb\r", r"a\u000a\u0009b\u000d"),
        ("<@1> @everyone", r"\u003c\u00401> \u0040everyone"),
        ('"\\"/', r"\"\\\"/"),
        ("\0\x7f\x85", r"\u0000\u007f\u0085"),
        ("\u200b\u202e\ufeff\u2028\u2029\xad", r"\u200b\u202e\ufeff\u2028\u2029\u00ad"),
        ("\U000e0041\U0001f600é`> ", "\\udb40\\udc41\U0001f600é`> "),
    ],
)
def test_what_is_alive_or_unseen_is_escaped_and_nothing_else(text: str, payload: str) -> None:
    assert written(an_envelope(text)).endswith(f'"payload":{{"text":"{payload}"}}}}')


@given(texts | nasty)
@example("<@901>" * 20)
@example("\U000e0041")
def test_the_payload_arrives_byte_for_byte(text: str) -> None:
    first, _, rest = written(an_envelope(text)).partition("\n")
    assert first == "<@901>"
    assert json.loads(rest)["payload"]["text"] == text


@given(texts | nasty)
def test_the_wire_holds_one_mention_and_nothing_unseen(text: str) -> None:
    content = written(an_envelope(text))
    assert re.findall(r"<@[!&]?[0-9]*>?|@everyone|@here", content) == ["<@901>"]
    assert content.count("<") == content.count("@") == content.count("\n") == 1
    line = content.partition("\n")[2]
    assert not {unicodedata.category(char) for char in line} & {"Cc", "Cf", "Zl", "Zp", "Cs"}


@given(texts | nasty)
def test_whoever_reads_it_sees_a_claim_of_the_same_event(text: str) -> None:
    claim = candidate(written(an_envelope(text)), AuthorKind.BOT)
    assert claim is not None
    assert (claim.named, claim.event_id) == ("901", str(EVENT))


class TestTheRoom:
    @pytest.mark.parametrize("place", [Place.THREAD, Place.CHANNEL])
    def test_is_exact(self, place: Place) -> None:
        left = room(an_envelope(place=place))
        fitting = an_envelope("x" * left, place)
        assert units(written(fitting)) == 2000
        with pytest.raises(TooLarge) as raised:
            written(an_envelope("x" * (left + 1), place))
        assert (raised.value.room, raised.value.needed) == (left, left + 1)
        assert raised.value.reason is NotSent.TOO_LARGE

    def test_does_not_depend_on_the_text(self) -> None:
        assert room(an_envelope("")) == room(an_envelope("<" * 5000)) == 1722

    @given(st.text(st.sampled_from('a"<\n\u200bé😀\U000e0041'), min_size=1), st.integers(-3, 3))
    def test_is_measured_as_it_is_written(self, piece: str, over: int) -> None:
        """Every text is either written in at most 2000 units, or refused with the true numbers."""
        empty = units(written(an_envelope("x"))) - 1
        once = units(written(an_envelope(f"x{piece}"))) - empty - 1
        times = (2000 - empty) // once + over
        text, cost = f"x{piece * times}", 1 + once * times
        if cost <= room(an_envelope()):
            assert units(written(an_envelope(text))) == empty + cost
        else:
            with pytest.raises(TooLarge) as raised:
                written(an_envelope(text))
            assert raised.value.needed == cost


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", NotSent.NO_TEXT),
        (" \n\t ", NotSent.NO_TEXT),
        ("half \ud83d of a pair", NotSent.LONE_SURROGATE),
        ("\ude00" + "x" * 9000, NotSent.LONE_SURROGATE),
    ],
)
def test_some_texts_are_never_sent(text: str, reason: NotSent) -> None:
    with pytest.raises(NotSendable) as raised:
        written(an_envelope(text))
    assert raised.value.reason is reason


def test_outside_a_thread_there_is_no_thread() -> None:
    envelope = an_envelope(place=Place.CHANNEL)
    assert (envelope.origin_channel, envelope.origin_thread) == ("500", None)
    assert '"origin_thread_id":null' in written(envelope)


def test_it_lives_for_five_minutes_and_again_when_it_is_reissued() -> None:
    envelope = an_envelope()
    assert envelope.expires_at == int(NOW.timestamp()) + 300
    later = reissued(envelope, NOW + timedelta(seconds=70))
    assert (later.expires_at, later.event_id) == (envelope.expires_at + 70, envelope.event_id)


@pytest.mark.parametrize(
    ("target", "channel", "reason"),
    [
        ("901", "discord", None),
        ("900", "discord", NotSent.OWN_ACCOUNT),
        ("902", "discord", NotSent.TARGET_NOT_TRUSTED),
        ("901", "slack", NotSent.WRONG_CHANNEL),
    ],
)
def test_work_goes_to_trusted_bots_on_discord_only(
    target: str, channel: str, reason: NotSent | None
) -> None:
    told = refusal_to_send(
        PlatformId(target), AccountId("900"), frozenset({"900", "901"}), ChannelName(channel)
    )
    assert told is reason


class TestTheLifecycle:
    def test_what_is_owed_is_sent_or_not(self) -> None:
        assert LIFECYCLE.initial is HandoffState.OWED
        assert LIFECYCLE.next(HandoffState.OWED, Posted()) is HandoffState.SENT
        abandoned = Abandoned(NotSent.EXPIRED)
        assert LIFECYCLE.next(HandoffState.OWED, abandoned) is HandoffState.NOT_SENT

    @pytest.mark.parametrize("state", set(HandoffState) - {HandoffState.OWED})
    @pytest.mark.parametrize("event", [Posted(), Abandoned(NotSent.UNCLEAR)])
    def test_and_that_is_its_end(self, state: HandoffState, event: object) -> None:
        with pytest.raises(IllegalTransition):
            LIFECYCLE.next(state, event)
