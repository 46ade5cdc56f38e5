"""What people read of sub-agents: inert whatever things are called, each refusal with what helps."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openab.domain.destination import Fallback, Reason
from openab.domain.ids import PlatformId
from openab.domain.spawn import SpawnRefusal
from openab.domain.turn import Outcome
from openab.text import spawn_words
from openab.text.measure import units

texts = st.text(st.characters(exclude_categories=()), max_size=300) | st.sampled_from(
    ["<@900>", "<@&7> <@!8> @everyone @here", "<", "@1>", "x" * 6000, "", "\ud83d", "😀" * 3000]
)


@given(texts, texts, texts)
def test_whatever_things_are_called_nobody_is_mentioned(agent: str, person: str, task: str) -> None:
    said = [
        spawn_words.starter(agent, person, task),
        spawn_words.echoed_task(task),
        *(spawn_words.refused(agent, refusal) for refusal in SpawnRefusal),
        spawn_words.reported(agent, Outcome.FAILED),
        spawn_words.kept_back(agent, Outcome.COMPLETED, Reason.NO_REQUESTER_MATCH, Fallback.HOLD),
    ]
    for text in said:
        assert "<@" not in text
        assert "@everyone" not in text
        assert "@here" not in text
        assert units(text) <= 1950


@pytest.mark.parametrize("refusal", SpawnRefusal)
def test_each_refusal_names_its_word_and_a_remedy(refusal: SpawnRefusal) -> None:
    told = spawn_words.refused("luna", refusal)

    assert f"`{refusal.value}`" in told
    assert told.endswith(".")
    assert told.count(". ") >= 1


def test_a_person_is_told_what_helps_a_person() -> None:
    def told(refusal: SpawnRefusal) -> tuple[str, str]:
        by_agent = spawn_words.refused("luna", refusal)
        return by_agent, spawn_words.refused("luna", refusal, by_command=True)

    by_agent, by_command = told(SpawnRefusal.NO_TASK)
    assert "below the directive" in by_agent
    assert "Fill in the `task`" in by_command
    by_agent, by_command = told(SpawnRefusal.TOO_DEEP)
    assert "Ask the main agent" in by_agent
    assert "Ask in the thread that started it" in by_command
    by_agent, by_command = told(SpawnRefusal.TOO_MANY)
    assert by_agent == by_command


def test_a_parent_is_told_where_people_read_the_answer() -> None:
    shown = spawn_words.finished("luna", Outcome.COMPLETED, PlatformId("7"), " Done. ")
    kept = spawn_words.finished("luna", Outcome.COMPLETED, None, "Done.")

    assert "which people read in <#7>, follows:\n\nDone." in shown
    assert "which people have not been shown, follows:\n\nDone." in kept
    assert "It said nothing." in spawn_words.finished("luna", Outcome.FAILED, None, " \n")
