"""Answers to commands: short enough whatever things are called, inert, and true to the numbers."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openab.domain.agent_events import UsageChanged
from openab.domain.options import Choice, Option
from openab.text import replies
from openab.text.measure import units
from openab.text.replies import SessionTold, UsageTold

NOW = datetime(2026, 7, 1, tzinfo=UTC)
names = st.text(st.characters(exclude_categories=()), max_size=80) | st.sampled_from(
    ["<@900>", "@everyone", "x" * 200, "`", "", "\ud83d", "😀" * 90]
)
options = st.builds(
    Option,
    names,
    names,
    names,
    st.lists(st.builds(Choice, names, names, names), max_size=60).map(tuple),
    st.none() | names,
)


def is_harmless(text: str) -> bool:
    return units(text) <= 1950 and "<@" not in text and "@everyone" not in text


@given(options, names, names)
def test_what_is_said_of_an_option_is_short_and_pings_nobody(
    option: Option, typed: str, reason: str
) -> None:
    said = [
        replies.option_menu(option, is_running=True),
        replies.option_list(option, "!models"),
        replies.option_unknown(option, typed, "!models"),
        replies.option_refused(option.name, typed, reason),
        *(replies.option_switched(option, choice) for choice in option.choices[:3]),
        *(replies.option_kept(option, choice) for choice in option.choices[:3]),
        replies.reset_holds_others(typed),
    ]
    assert all(map(is_harmless, said))


@given(st.lists(names, min_size=1, max_size=10), st.integers(0, 10**6))
def test_a_page_of_sessions_fits_whatever_the_agents_are_called(
    agents: list[str], waiting: int
) -> None:
    told = [SessionTold("1" * 20, agent, True, waiting, NOW) for agent in agents]
    text = replies.session_list(told, first=990, total=1000)
    assert is_harmless(text)
    assert text.count("<#11111111111111111111>") == len(agents)


def test_thirty_models_with_long_names_are_cut_and_counted() -> None:
    choices = tuple(Choice(f"m{n}", f"{n:02} " + "x" * 97) for n in range(60))
    text = replies.option_list(Option("m", "Model", "model", choices, "m3"), "!models")
    shown = text.count("`") // 2 - 3
    assert f"and {60 - shown} more; `/models` shows all" in text


def test_usage_tells_share_cost_requests_and_time() -> None:
    told = UsageTold(
        UsageChanged(50_000, 200_000, 1.5, "USD"), 3, timedelta(minutes=4, seconds=5), NOW
    )
    text = replies.usage(told)
    assert "50,000 of 200,000 tokens of context used (25 %), cost 1.50 USD" in text
    assert "3 requests, 4m 05s of the agent's time" in text


def test_an_agent_that_says_nothing_and_a_window_of_nothing() -> None:
    silent = UsageTold(None, 1, timedelta(hours=2, minutes=3), NOW)
    assert "has not said yet" in replies.usage(silent)
    assert "1 request, 2h 03m" in replies.usage(silent)
    empty = UsageTold(UsageChanged(0, 0), 0, timedelta(0), NOW)
    assert "0 of 0 tokens" in replies.usage(empty)


@pytest.mark.parametrize(
    ("waiting", "is_running", "of_others", "words"),
    [
        (0, False, 0, "Nothing to cancel"),
        (2, True, 0, "the running request ends within seconds and 2 requests that waited were"),
        (1, False, 0, "1 request that waited was taken back"),
        (0, True, 1, "1 request of others stays"),
        (0, False, 2, "Nothing here is yours to cancel. 2 requests of others stay"),
    ],
)
def test_cancel_all_tells_what_it_did(
    waiting: int,
    is_running: bool,
    of_others: int,
    words: str,
) -> None:
    told = replies.cancelled_all(waiting=waiting, is_running=is_running, of_others=of_others)
    assert words in told
