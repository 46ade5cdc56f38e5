"""What an agent gets to see of our environment."""

from hypothesis import given
from hypothesis import strategies as st

from openab.agents.environment import ALWAYS, agent_environment

PARENT = {
    "HOME": "/home/bot",
    "PATH": "/bin",
    "LC_ALL": "C",
    "DISCORD_BOT_TOKEN": "secret",
    "API_KEY": "key",
    "OPENAB_MARKER": "db:1:x",
}


def test_only_the_allow_list_is_inherited() -> None:
    assert agent_environment(PARENT, {}, []) == {"HOME": "/home/bot", "PATH": "/bin", "LC_ALL": "C"}


def test_what_is_named_is_passed_and_what_is_explicit_wins() -> None:
    env = agent_environment(PARENT, {"API_KEY": "mine", "HOME": "/h"}, ["API_KEY", "MISSING"])
    assert env == {"HOME": "/h", "PATH": "/bin", "LC_ALL": "C", "API_KEY": "mine"}


def test_a_value_that_is_exactly_a_reference_is_expanded() -> None:
    explicit = {"KEY": "${API_KEY}", "URL": "x/${API_KEY}", "GONE": "${NOT_SET}"}
    env = agent_environment(PARENT, explicit, [])
    assert env["KEY"] == "key"
    assert env["URL"] == "x/${API_KEY}"
    assert "GONE" not in env


def test_a_reference_to_nothing_hides_an_inherited_value() -> None:
    assert "HOME" not in agent_environment(PARENT, {"HOME": "${NOT_SET}"}, [])


@given(st.dictionaries(st.text(min_size=1), st.text()))
def test_nothing_that_is_not_named_gets_through(parent: dict[str, str]) -> None:
    env = agent_environment(parent, {}, [])
    assert all(name in ALWAYS or name.startswith("LC_") for name in env)
