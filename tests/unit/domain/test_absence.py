"""What was said while nobody listened: the limits of age and number, and what they leave alone."""

from datetime import timedelta

import pytest

from openab.domain.gates import (
    MOST_CAUGHT_UP,
    SKIPPED,
    Disposition,
    GatePolicy,
    Verdict,
    after_absence,
    counted,
    judge,
)
from openab.domain.gates.bot_turns import BotTurns
from openab.domain.gates.policy import ConversationFacts
from openab.domain.ids import PlatformId
from openab.domain.message import AuthorKind
from tests.builders import ACCOUNT, a_message, an_author

HOUR, NOW = timedelta(hours=1), timedelta(0)
ACCEPTED = judge(a_message(), "go", ConversationFacts(), GatePolicy(ACCOUNT))
COMMAND = judge(a_message(), "!cancel", ConversationFacts(), GatePolicy(ACCOUNT))
IN_A_RUN = Verdict(Disposition.TURN, "joined_run", gathers_run=True)


@pytest.mark.parametrize(
    ("age", "taken", "reason"),
    [
        (NOW, 0, "caught_up"),
        # By a clock that goes behind the network's.
        (-HOUR, 0, "caught_up"),
        (HOUR, MOST_CAUGHT_UP - 1, "caught_up"),
        (HOUR, MOST_CAUGHT_UP, "too_many"),
        (HOUR + timedelta(microseconds=1), 0, "too_old"),
        (2 * HOUR, MOST_CAUGHT_UP, "too_old"),
    ],
)
def test_old_ones_and_those_behind_too_many_are_left(
    age: timedelta, taken: int, reason: str
) -> None:
    found = after_absence(ACCEPTED, age=age, longest=HOUR, taken=taken)
    is_answered = reason not in SKIPPED
    assert found.reason == reason
    assert found.disposition is (Disposition.TURN if is_answered else Disposition.IGNORED)
    assert found.opens_thread is is_answered


@pytest.mark.parametrize("verdict", [COMMAND, IN_A_RUN])
def test_a_command_and_a_runs_further_message_have_no_number_but_an_age(verdict: Verdict) -> None:
    young = after_absence(verdict, age=HOUR, longest=HOUR, taken=MOST_CAUGHT_UP)
    assert young == verdict
    assert after_absence(verdict, age=2 * HOUR, longest=HOUR, taken=0).reason == "too_old"


def test_a_persons_message_that_comes_late_does_not_begin_the_bot_turns_anew() -> None:
    bot = an_author("50", AuthorKind.BOT)
    counts = BotTurns()
    for message in (a_message(message_id="10"), a_message(message_id="11", author=bot)):
        counts = counted(counts, message)
    assert counted(counts, a_message(message_id="9")) == counts
    after = counted(counts, a_message(message_id="12"))
    assert (after.turns, after.last_human) == (0, PlatformId("12"))
