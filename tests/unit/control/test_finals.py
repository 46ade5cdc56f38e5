"""How an end is told: when the placeholder is edited, who is pinged, and that no text is lost."""

from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from openab.control.cuts import cut, is_blank
from openab.control.finals import Ending, Final, plan, rooms
from openab.control.settings import ReplySettings
from openab.domain.ids import PlatformId
from openab.text.measure import units
from openab.text.mentions import mentioned_ids
from openab.text.neutralize import live_mentions, neutralize
from openab.text.notices import no_response
from openab.text.split import join, split_parts

ANN = PlatformId("31")
#: A short turn among people, in its own thread, whose placeholder is the newest message.
CALM = Ending(
    text="done",
    human=ANN,
    trigger_in_place=True,
    trigger_message_id=PlatformId("1000"),
    took=timedelta(seconds=20),
    has_other_bot=False,
    has_placeholder=True,
    placeholder_is_newest=True,
)
AUTO, EDIT, FRESH = (ReplySettings(final=word) for word in ("auto", "edit", "fresh"))
_PIECES = st.sampled_from(
    ["<@31>", "<@!31>", "<@&7>", "@everyone", "@here", "<", "@", "31>", "\0", "\ud800", "😀", "\n",
     "```py\n", "```\n", "word ", "x" * 700, " " * 50, "\u200b"]
)  # fmt: skip
_TEXTS = st.lists(_PIECES, max_size=40).map("".join)


class TestEditOrFresh:
    @pytest.mark.parametrize(
        ("change", "auto", "edit"),
        [
            ({}, True, True),
            ({"took": timedelta(seconds=60)}, False, True),
            ({"has_other_bot": True}, False, True),
            ({"placeholder_is_newest": False}, False, True),
            ({"placeholder_is_newest": False, "has_placeholder": False}, False, False),
            ({"is_doubtful": True}, False, False),
        ],
    )
    def test_as_the_situation_and_the_setting_say(
        self, change: dict[str, object], auto: bool, edit: bool
    ) -> None:
        ending = replace(CALM, **change)  # type: ignore[arg-type]
        assert plan(ending, AUTO).edits_placeholder is auto
        assert plan(ending, EDIT).edits_placeholder is edit
        assert plan(ending, FRESH).edits_placeholder is False

    def test_an_edit_pings_and_names_nobody(self) -> None:
        for in_place in (True, False):
            (part,) = plan(replace(CALM, trigger_in_place=in_place), EDIT).parts
            assert (part.content, part.mention, part.reply_to) == ("done", None, None)


class TestWhoIsAnswered:
    def test_in_the_same_place_the_first_part_is_a_reply(self) -> None:
        (part,) = plan(CALM, FRESH).parts
        assert (part.content, part.mention, part.reply_to) == ("done", ANN, "1000")

    def test_in_a_thread_that_was_opened_the_human_is_named(self) -> None:
        (part,) = plan(replace(CALM, trigger_in_place=False), FRESH).parts
        assert (part.content, part.mention, part.reply_to) == ("<@31>\ndone", ANN, None)

    @pytest.mark.parametrize("in_place", [True, False])
    def test_nobody_is_pinged_where_that_is_off_or_a_bot_asked(self, in_place: bool) -> None:
        quiet = replace(FRESH, ping_requester=False)
        for ending, replies in ((CALM, quiet), (replace(CALM, human=None), FRESH)):
            (part,) = plan(replace(ending, trigger_in_place=in_place), replies).parts
            assert (part.content, part.mention) == ("done", None)
            assert part.reply_to == ("1000" if in_place else None)

    def test_a_fence_at_the_beginning_still_begins_a_line(self) -> None:
        ending = replace(CALM, text="```py\nx\n```", trigger_in_place=False)
        assert plan(ending, FRESH).parts[0].content.split("\n")[1] == "```py"


def sent(final: Final) -> list[str]:
    return [part.content for part in final.parts]


class TestTheText:
    @given(text=_TEXTS, in_place=st.booleans(), replies=st.sampled_from([AUTO, EDIT, FRESH]))
    @example(text="x" * 2000, in_place=False, replies=FRESH)
    @example(text="😀" * 1000, in_place=False, replies=FRESH)
    @example(text="\0", in_place=True, replies=EDIT)
    @example(text="\u200b", in_place=True, replies=FRESH)
    def test_is_whole_inert_and_within_the_limit(
        self, text: str, in_place: bool, replies: ReplySettings
    ) -> None:
        final = plan(replace(CALM, text=text, trigger_in_place=in_place), replies)
        shown = no_response() if is_blank(text) else neutralize(text)
        named = not in_place and not final.edits_placeholder
        prefix = "<@31>\n" if named else ""
        parts = split_parts(shown, first_room=2000 - len(prefix))
        assert join(parts) == shown
        assert sent(final) == [prefix + parts[0].content, *(part.content for part in parts[1:])]
        assert all(0 < units(content) <= 2000 for content in sent(final))
        assert live_mentions("\0".join(sent(final))) == (["<@31>"] if named else [])
        assert [part.mention for part in final.parts[1:]] == [None] * (len(final.parts) - 1)
        assert not any(part.reply_to for part in final.parts[1:])

    def test_the_check_notices_a_live_mention(self) -> None:
        """Negative control of the property above."""
        assert live_mentions("a <@31> b") == ["<@31>"]
        assert mentioned_ids("a <@31> b").users == {"31"}

    @pytest.mark.parametrize("text", ["", " \n\t", "\0", "\u200b\u2060", "\u200b\n"])
    def test_what_nobody_can_see_is_blank(self, text: str) -> None:
        assert is_blank(text)
        assert sent(plan(replace(CALM, text=text), AUTO)) == [no_response()]

    @pytest.mark.parametrize("text", ["a", "😀", ".", "\ud800", "\u200bx"])
    def test_what_somebody_can_see_is_not(self, text: str) -> None:
        assert not is_blank(text)


@pytest.mark.parametrize("in_place", [True, False])
@pytest.mark.parametrize("replies", [EDIT, FRESH])
def test_what_was_cut_beforehand_is_what_is_sent(in_place: bool, replies: ReplySettings) -> None:
    ending = replace(CALM, text="word " * 900, after="last", trigger_in_place=in_place)
    before = cut(ending.text, ending.after, rooms(ending, replies))
    assert plan(ending, replies, before) == plan(ending, replies)
    marked = replace(before, by_room=dict.fromkeys(before.by_room, ("beforehand",)))
    assert "beforehand" in sent(plan(ending, replies, marked))[0]
    other = replace(ending, after="another end")
    assert plan(other, replies, marked) == plan(other, replies)


class TestAnotherReference:
    ELSEWHERE = replace(CALM, reply_to=PlatformId("7"))

    @pytest.mark.parametrize("replies", [AUTO, EDIT, FRESH])
    def test_is_a_fresh_reply_that_names_the_human_and_pings_no_stranger(
        self, replies: ReplySettings
    ) -> None:
        final = plan(self.ELSEWHERE, replies)
        (part,) = final.parts
        assert not final.edits_placeholder
        assert (part.reply_to, part.mention, part.pings_author) == ("7", ANN, False)
        assert part.content == "<@31>\ndone"

    def test_that_is_the_trigger_is_a_reply_like_any_other(self) -> None:
        final = plan(replace(CALM, reply_to=CALM.trigger_message_id), AUTO)
        (part,) = final.parts
        assert (part.reply_to, part.content) == (CALM.trigger_message_id, "done")
        assert part.pings_author
        assert not final.edits_placeholder, "an edit makes no reply"

    def test_was_cut_for_beforehand(self) -> None:
        ending = replace(self.ELSEWHERE, text="word " * 900)
        prepared = cut(
            ending.text, "", rooms(replace(ending, reply_to=None, trigger_in_place=False), AUTO)
        )
        assert plan(ending, AUTO, prepared) == plan(ending, AUTO)
