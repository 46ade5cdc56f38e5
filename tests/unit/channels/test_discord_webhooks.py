"""Names under which a webhook may speak."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openab.channels.discord.webhooks import LONGEST_PERSONA, persona_name


@pytest.mark.parametrize(
    ("given_name", "shown"),
    [
        ("fable", "fable"),
        ("  two \n words ", "two words"),
        ("Clyde the discord bot", "Cl-yde the di-scord bot"),
        ("a@b#c:d`e", "a b c d e"),
        ("", "openab"),
        ("```", "openab"),
        ("Everyone", "openab"),
        ("here", "openab"),
        ("x" * 90, "x" * 80),
        ("half \ud83d", "half \ufffd"),
    ],
)
def test_a_name_becomes_one_that_discord_takes(given_name: str, shown: str) -> None:
    assert persona_name(given_name) == shown


@given(st.text(st.characters(codec=None), max_size=200))
def test_every_name_can_be_shown(name: str) -> None:
    shown = persona_name(name)
    assert 1 <= len(shown) <= LONGEST_PERSONA
    assert "clyde" not in shown.lower()
    assert "discord" not in shown.lower()
    assert shown == shown.strip()
