"""Why a connection ended, and how long the next one waits."""

import discord
import pytest
from hypothesis import given
from hypothesis import strategies as st

from openab.channels.discord.supervision import Ending, Pauses, ended


class _Socket:
    close_code = 4000


def closed(code: int) -> discord.ConnectionClosed:
    return discord.ConnectionClosed(_Socket(), shard_id=None, code=code)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("error", "ending"),
    [
        (None, Ending.LOST),
        (AttributeError("'NoneType' object has no attribute 'sequence'"), Ending.LOST),
        (KeyError("author"), Ending.LOST),
        (OSError("refused"), Ending.LOST),
        (closed(4013), Ending.LOST),
        (closed(4004), Ending.TOKEN_REFUSED),
        (discord.LoginFailure("Improper token"), Ending.TOKEN_REFUSED),
        (discord.PrivilegedIntentsRequired(None), Ending.INTENTS_REFUSED),
    ],
)
def test_what_an_end_calls_for(error: BaseException | None, ending: Ending) -> None:
    how = ended(error)

    assert how.ending is ending
    assert how.reason


def test_the_pause_doubles_up_to_the_longest() -> None:
    pauses = Pauses(first_seconds=5, longest_seconds=60)

    assert [pauses.after(n) for n in range(1, 7)] == [5, 10, 20, 40, 60, 60]


@given(st.integers(1, 10**9))
def test_no_number_of_failures_makes_a_pause_outside_its_bounds(failures: int) -> None:
    assert 5 <= Pauses().after(failures) <= 300


def test_a_day_of_failures_stays_below_the_identify_budget() -> None:
    pauses, seconds, identifies = Pauses(), 0.0, 0
    while seconds < 86_400:
        identifies += 1
        seconds += pauses.after(identifies)

    assert identifies < 1000


def test_a_connection_that_lasted_starts_afresh() -> None:
    pauses = Pauses(proven_seconds=60)

    assert pauses.failures(7, lasted_seconds=61) == 1
    assert pauses.failures(7, lasted_seconds=59) == 8
