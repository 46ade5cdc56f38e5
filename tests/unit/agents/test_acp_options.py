"""What can be chosen, in each form that agents tell it; whatever shape it has, nothing breaks."""

from collections.abc import Mapping

from hypothesis import given
from hypothesis import strategies as st

from openab.agents.acp.options import SessionOptions
from openab.domain.options import Choice, Option

STANDARD = {
    "configOptions": [
        {
            "id": "m",
            "name": "Model",
            "category": "model",
            "type": "select",
            "currentValue": "a",
            "options": [
                {"value": "a", "name": "A"},
                {"group": "g", "name": "G", "options": [{"value": "b", "description": "bee"}]},
            ],
        },
        {"id": "switch", "type": "boolean", "currentValue": True},
        {"id": 5, "options": [{"value": "x"}]},
        "odd",
    ]
}
OLDER = {
    "models": {
        "currentModelId": "a",
        "availableModels": [{"modelId": "a", "name": "A"}, {"modelId": "b"}, {"modelId": 3}, None],
    },
    "modes": {"currentModeId": "plan", "availableModes": [{"id": "plan"}, {"id": "code"}]},
}
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(
                ["configOptions", "models", "modes", "id", "options", "value", "name", "category",
                 "availableModels", "modelId", "currentModelId", "availableModes", "sessionUpdate"]
            ) | st.text(),
            inner,
            max_size=4,
        )
    ),
    max_leaves=20,
)  # fmt: skip


def told(answer: Mapping[str, object]) -> SessionOptions:
    options = SessionOptions()
    options.take(answer)
    return options


def test_groups_are_opened_and_what_no_menu_can_show_is_left_out() -> None:
    choices = (Choice("a", "A"), Choice("b", "", "bee"))
    assert told(STANDARD).known == (Option("m", "Model", "model", choices, "a"),)


def test_the_older_form_becomes_a_model_and_an_agent() -> None:
    model, agent = told(OLDER).known
    assert (model.option_id, model.category, model.current) == ("model", "model", "a")
    assert [choice.value for choice in model.choices] == ["a", "b"]
    assert (agent.option_id, agent.category, agent.current) == ("agent", "agent", "plan")


def test_the_standard_form_goes_before_the_older_one_of_the_same_category() -> None:
    found = told(STANDARD | OLDER).known
    assert [option.option_id for option in found] == ["m", "agent"]


def test_an_answer_that_says_nothing_leaves_what_is_known() -> None:
    options = told(STANDARD | OLDER)
    before = options.known
    options.take({})
    options.update({"sessionUpdate": "agent_message_chunk", "configOptions": []})
    assert options.known == before
    options.update({"sessionUpdate": "config_option_update", "configOptions": []})
    assert [option.option_id for option in options.known] == ["model", "agent"]


def test_each_form_is_set_in_its_own_way_and_the_standard_one_is_the_last_resort() -> None:
    assert told(STANDARD).calls("s", "m", "b") == [
        ("session/set_config_option", {"sessionId": "s", "configId": "m", "value": "b"})
    ]
    older = told(OLDER)
    assert [method for method, _ in older.calls("s", "model", "b")] == [
        "session/set_model",
        "session/set_config_option",
    ]
    assert older.calls("s", "agent", "code")[0] == (
        "session/set_mode",
        {"sessionId": "s", "modeId": "code"},
    )


def test_a_choice_is_known_whatever_its_answer_says() -> None:
    options = told(OLDER)
    options.chosen("model", "b", {})
    options.update({"sessionUpdate": "current_mode_update", "currentModeId": "code"})
    assert [option.current for option in options.known] == ["b", "code"]


@given(JSON, JSON)
def test_any_shape_is_survived(first: object, second: object) -> None:
    options = SessionOptions()
    options.take(first if isinstance(first, dict) else {"configOptions": first, "models": first})
    options.update(second)
    for option in options.known:
        assert option.choices
        assert options.calls("s", option.option_id, option.choices[0].value)
