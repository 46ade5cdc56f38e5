"""The scripted agent's small language."""

import io
import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openab.simulator.agent import (
    Agent,
    Cancelled,
    Player,
    Session,
    Wire,
    kind_title_seconds,
    options,
    parse_steps,
)


def test_steps_are_played_in_the_order_in_which_they_are_written() -> None:
    text = "please [[say=a\\nb]] then [[tool=execute:cargo test:2.0]] and [[hang]]"
    assert parse_steps(text) == [
        ("say", "a\nb"),
        ("tool", "execute:cargo test:2.0"),
        ("hang", ""),
    ]


@given(st.lists(st.tuples(st.sampled_from(["say", "think"]), st.text())))
def test_a_script_carries_any_text(steps: list[tuple[str, str]]) -> None:
    assert parse_steps(f"[[script={json.dumps(steps)}]] tail") == steps


def test_an_output_directive_is_text_and_no_step() -> None:
    assert parse_steps("[[handoff:123]] hello") == []


@pytest.mark.parametrize(
    ("value", "parts"),
    [
        ("execute:cargo test:2.0", ("execute", "cargo test", 2.0)),
        ("execute:rm -rf", ("execute", "rm -rf", 0.0)),
        ("read:C:/x:1", ("read", "C:/x", 1.0)),
        ("fetch:http://example.org", ("fetch", "http://example.org", 0.0)),
    ],
)
def test_a_tool_may_name_its_seconds(value: str, parts: tuple[str, str, float]) -> None:
    assert kind_title_seconds(value) == parts


@pytest.mark.parametrize(
    ("asked", "steps"),
    [
        ("please fix the build, Sol", "[[say=fixed]]"),
        ("fix the build and the tests", "[[say=fixed]]"),
        ("run the tests", "[[say=all green]]"),
        ("anything else", "anything else"),
    ],
)
def test_a_play_is_found_by_the_first_phrase_in_the_prompt(
    tmp_path: Path, asked: str, steps: str
) -> None:
    plays = tmp_path / "plays.json"
    plays.write_text(
        json.dumps([["fix the build", "[[say=fixed]]"], ["tests", "[[say=all green]]"]])
    )
    agent = Agent(options(["--plays", str(plays)]), io.BytesIO())
    assert agent.script(asked) == steps


def test_without_plays_a_prompt_is_its_own_script() -> None:
    assert Agent(options([]), io.BytesIO()).script("[[say=hello]]") == "[[say=hello]]"


def a_player() -> tuple[Player, Session]:
    session = Session("s", None)
    return Player(Wire(io.BytesIO(), None, frozenset()), session, frozenset(), 0), session


def test_a_gate_lets_pass_once_its_file_exists(tmp_path: Path) -> None:
    player, _ = a_player()
    gate = tmp_path / "gate"
    with ThreadPoolExecutor(1) as pool:
        played = pool.submit(player.play, f"[[say=a]][[until={gate}]][[say=b]]")
        with pytest.raises(TimeoutError):
            played.result(0.1)
        gate.touch()
        played.result(20)
    assert player.text == "ab"


def test_a_cancel_ends_the_wait_at_a_gate(tmp_path: Path) -> None:
    player, session = a_player()
    session.cancelled.set()
    with pytest.raises(Cancelled):
        player.play(f"[[until={tmp_path / 'gate'}]]")
