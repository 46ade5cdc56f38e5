"""What a person typed is read strictly, and the file says exactly that."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openab.app.diagnosis.candidates import Candidate
from openab.channels.discord.access import Access
from openab.cli.setup.answers import (
    Answers,
    NotUnderstood,
    config_text,
    masked,
    read_channels,
    read_command,
    read_token,
    read_users,
)
from openab.config.load import check
from openab.domain.ids import PlatformId

_ID = "123456789012345678"
_SHOWN = [Access(PlatformId(_ID), "dev", ()), Access(PlatformId("2" * 18), "ops", ())]
_ENVIRON = {"HOME": "/home/me", "DISCORD_BOT_TOKEN": "a.b.c"}


@pytest.mark.parametrize("typed", ["a.b-c_9", "  a.b-c_9\n", '"a.b-c_9"', "Bot a.b-c_9"])
def test_a_token_is_freed_of_what_is_copied_with_it(typed: str) -> None:
    assert read_token(typed) == "a.b-c_9"


@pytest.mark.parametrize("typed", ["", "  ", "a b", "naïve", "a.b.c;rm", "${TOKEN}"])
def test_what_is_no_token_is_refused(typed: str) -> None:
    with pytest.raises(NotUnderstood):
        read_token(typed)


def test_channels_are_all_or_numbers_or_ids() -> None:
    assert read_channels("ALL", _SHOWN) is None
    assert read_channels("2, 1 2", _SHOWN) == ("2" * 18, _ID)
    assert read_channels("999999999999999999", _SHOWN) == ("999999999999999999",)


@pytest.mark.parametrize("typed", ["", "3", "0", "-1", "²", "all 1", "dev", "1234567890"])
def test_channels_that_are_not_there_are_refused(typed: str) -> None:
    with pytest.raises(NotUnderstood):
        read_channels(typed, _SHOWN)


def test_users_have_no_numbers() -> None:
    assert read_users("all") is None
    assert read_users(_ID) == (_ID,)
    with pytest.raises(NotUnderstood, match="'1' is not an id"):
        read_users("1")


def test_a_command_is_split_as_a_shell_does() -> None:
    assert read_command("opencode acp 'a b'") == Candidate("opencode", ("acp", "a b"))
    for typed in ("", "  ", "'open"):
        with pytest.raises(NotUnderstood):
            read_command(typed)


_TEXT = st.text(alphabet=st.characters(codec="utf-8"), min_size=1).filter(lambda text: text.strip())


@given(
    command=_TEXT,
    args=st.lists(_TEXT | st.just("${HOME}") | st.just('"\\'), max_size=3),
    folder=st.text(alphabet=st.characters(codec="utf-8")),
    in_file=st.booleans(),
    lists=st.none() | st.just((_ID,)),
)
def test_the_file_says_what_was_answered(
    command: str, args: list[str], folder: str, in_file: bool, lists: tuple[str, ...] | None
) -> None:
    answers = Answers(
        token="a.b.c",
        is_token_in_file=in_file,
        agent=Candidate(command, tuple(args)),
        working_dir=f"/{folder}",
        channels=lists,
        users=lists,
        inherit_env=("OPENAI_API_KEY",),
    )

    config = check(config_text(answers), _ENVIRON, "config.toml").config

    assert config.discord.bot_token.reveal() == "a.b.c"
    assert (config.agent.command, list(config.agent.args)) == (command, args)
    assert config.agent.working_dir == str(Path(f"/{folder}"))
    assert config.discord.channels == (None if lists is None else frozenset(lists))
    assert config.discord.users == (None if lists is None else frozenset(lists))
    assert list(config.agent.inherit_env) == ["OPENAI_API_KEY"]


def test_the_token_is_masked_wherever_it_stands() -> None:
    answers = Answers("a.b.c", True, Candidate("x"), "/w/a.b.c")

    assert "a.b.c" in config_text(answers)
    assert "a.b.c" not in masked(config_text(answers), "a.b.c")
    assert "token" not in repr(answers).replace("is_token_in_file", "")
