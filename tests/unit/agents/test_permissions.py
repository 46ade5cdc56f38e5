"""Permission questions: asked in order, settled exactly once."""

from typing import Any

import pytest

from openab.agents.acp.permissions import CANCELLED, NoSuchOption, Questions, selected
from openab.domain.agent_events import AgentEvent, PermissionAsked, PermissionSettled

OPTIONS = [
    {"optionId": "no", "name": "No", "kind": "reject_once"},
    {"optionId": "yes", "name": "Yes", "kind": "allow_once"},
]
PARAMS: dict[str, Any] = {"toolCall": {"toolCallId": "a", "title": "rm"}, "options": OPTIONS}


def the_questions(*, asks_people: bool = False) -> tuple[Questions, list[AgentEvent]]:
    record: list[AgentEvent] = []
    return Questions("q", record.append, asks_people=asks_people), record


async def test_by_kind_at_once() -> None:
    questions, record = the_questions()
    assert await questions.ask(PARAMS) == selected("yes")
    assert [type(event) for event in record] == [PermissionAsked, PermissionSettled]


@pytest.mark.parametrize(
    ("params", "answer"),
    [
        ({}, selected("allow_always")),
        ({"options": []}, CANCELLED),
        ({"options": OPTIONS[:1]}, CANCELLED),
        ({"options": "odd", "toolCall": 3}, CANCELLED),
    ],
)
async def test_odd_questions_are_answered(params: dict[str, Any], answer: object) -> None:
    questions, record = the_questions()
    assert await questions.ask(params) == answer
    assert len(record) == 2


async def test_an_answer_settles_once_and_an_unknown_option_leaves_it_open() -> None:
    questions, record = the_questions(asks_people=True)
    answer = questions.ask(PARAMS)
    with pytest.raises(NoSuchOption):
        questions.answer("q-1", "maybe")
    assert not answer.done()
    assert questions.answer("q-1", "no")
    assert not questions.answer("q-1", "yes")
    assert await answer == selected("no")
    assert len(record) == 2


async def test_none_is_an_answer_too() -> None:
    questions, _ = the_questions(asks_people=True)
    answer = questions.ask(PARAMS)
    assert questions.answer("q-1", None)
    assert await answer == CANCELLED


async def test_closing_cancels_what_is_open_and_what_still_comes() -> None:
    questions, record = the_questions(asks_people=True)
    early = questions.ask(PARAMS)
    questions.close()
    late = questions.ask(PARAMS)
    assert (await early, await late) == (CANCELLED, CANCELLED)
    assert not questions.answer("q-1", "yes")
    assert [event.request_id for event in record if isinstance(event, PermissionSettled)] == [
        "q-1",
        "q-2",
    ]
