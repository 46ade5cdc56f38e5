"""Bot turns: what counts, what begins anew, when it is enough, and who says so."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openab.domain.gates import (
    BotTurns,
    GatePolicy,
    cap_of,
    counted,
    exceeds_cap,
    warns,
    warns_as,
)
from openab.domain.ids import PlatformId
from openab.domain.message import Attachment, AuthorKind, InboundMessage, MessageKind
from tests.builders import ACCOUNT, a_message, an_author

BOT, OTHER = an_author("50", AuthorKind.BOT), an_author("51", AuthorKind.BOT)
HOOK, SELF = an_author("60", AuthorKind.WEBHOOK), an_author(ACCOUNT, AuthorKind.SELF)
FILE = Attachment("a.txt", "text/plain", 3, "https://x")


def after(*messages: InboundMessage, before: BotTurns | None = None) -> BotTurns:
    turns = before or BotTurns()
    for message in messages:
        turns = counted(turns, message)
    return turns


def from_(author: object, text: object = "hi", **changes: object) -> InboundMessage:
    return replace(a_message(), author=author, text=text, **changes)  # type: ignore[arg-type]


def test_each_change_of_the_speaking_bot_is_a_turn_our_own_included() -> None:
    assert after(from_(BOT), from_(SELF), from_(BOT), from_(HOOK)).turns == 4


def test_a_run_of_one_bot_is_one_turn() -> None:
    told = after(*[from_(BOT)] * 5, *[from_(OTHER)] * 3)
    assert (told.turns, told.messages) == (2, 8)


@pytest.mark.parametrize("author", [BOT, SELF])
@pytest.mark.parametrize(
    "changes",
    [{"text": "-# ⏳ at work", "silent": True}, {"kind": MessageKind.SYSTEM}],
)
def test_presentation_and_system_messages_count_none(
    author: object, changes: dict[str, object]
) -> None:
    told = after(from_(BOT), from_(author, **changes), from_(BOT))
    assert told.turns == 1


@pytest.mark.parametrize(
    ("message", "resets"),
    [
        (from_(an_author(), "go on"), True),
        (from_(an_author(), "go on", kind=MessageKind.REPLY), True),
        (from_(an_author(), "pinned", kind=MessageKind.SYSTEM), False),
        (from_(an_author(), " \n", attachments=(FILE,)), False),
        (from_(BOT, "go on"), False),
    ],
)
def test_only_a_persons_text_begins_anew(message: InboundMessage, *, resets: bool) -> None:
    before = after(from_(BOT), from_(SELF))
    told = counted(before, message)
    assert (told.turns == 0) == resets
    assert (told.last_human == message.message_id) == resets
    assert told.other_bots == (BOT.id,)


def test_a_bot_that_only_shows_something_is_there_all_the_same() -> None:
    assert after(from_(BOT, "-# ⏳ at work", silent=True)).other_bots == (BOT.id,)


@pytest.mark.parametrize(
    ("configured", "cap"), [(0, 1), (1, 1), (100, 100), (500, 500), (1000, 1000), (5000, 1000)]
)
def test_the_hard_cap_is_above_any_configured_one(configured: int, cap: int) -> None:
    assert cap_of(GatePolicy(ACCOUNT, max_bot_turns=configured)) == cap


def test_among_people_alone_nobody_warns() -> None:
    policy = GatePolicy(ACCOUNT, max_bot_turns=1)
    assert not warns(BotTurns(), after(from_(SELF)), policy)


@given(
    st.lists(st.sampled_from([BOT, OTHER, HOOK, SELF, an_author()]), max_size=60), st.integers(1, 8)
)
def test_there_is_one_warning_for_each_time_that_a_person_spoke(
    speakers: Sequence[object], cap: int
) -> None:
    policy = GatePolicy(ACCOUNT, max_bot_turns=cap)
    counts = [BotTurns()]
    for number, speaker in enumerate(speakers):
        counts.append(counted(counts[-1], from_(speaker, message_id=PlatformId(str(number + 1)))))
    warned = [now.last_human for was, now in pairwise(counts) if warns(was, now, policy)]
    assert len(warned) == len(set(warned))
    capped = {now.last_human for now in counts if exceeds_cap(now, policy) and now.other_bots}
    assert set(warned) <= capped


def test_each_bot_knows_its_place_among_those_that_may_warn() -> None:
    bots = [PlatformId(one) for one in ("90", "1000", "200")]
    places = [warns_as(me, [one for one in bots if one != me]) for me in bots]  # type: ignore[arg-type]
    assert places == [0, 2, 1]
