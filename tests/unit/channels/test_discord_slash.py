"""Commands are defined in one table, and their digest follows it and the configuration."""

from typing import Any

import pytest

from openab.channels.discord import slash
from openab.channels.discord.inbound import inbound_command
from openab.channels.discord.places import DIRECT
from openab.channels.discord.slash import Offer
from openab.domain.ids import AccountId
from openab.domain.message import CommandKind

ALL = Offer(bindings=True, agents=("luna", "terra"))


def raw(name: str, *options: dict[str, Any]) -> dict[str, Any]:
    return {
        "id": "1",
        "type": 2,
        "channel_id": "8",
        "user": {"id": "31", "username": "ann"},
        "data": {"name": name, "options": list(options)},
    }


def named(offer: Offer, name: str) -> dict[str, Any]:
    return next(each for each in slash.definitions(offer) if each["name"] == name)


def test_every_registered_command_is_understood() -> None:
    for definition in slash.definitions(ALL):
        assert inbound_command(raw(definition["name"]), AccountId("9"), DIRECT) is not None


def test_what_was_filled_in_is_passed_on() -> None:
    options = [
        {"name": "agent", "type": 3, "value": "luna"},
        {"name": "task", "type": 3, "value": "Look\ninto it."},
        {"name": "count", "type": 4, "value": 3},
        {"name": "group", "type": 1},
    ]
    command = inbound_command(raw("spawn", *options), AccountId("9"), DIRECT)

    assert command is not None
    assert command.kind is CommandKind.SPAWN
    assert command.options == {"agent": "luna", "task": "Look\ninto it.", "count": "3"}


def test_the_digest_changes_with_a_definition(monkeypatch: pytest.MonkeyPatch) -> None:
    before = slash.definitions_digest()
    assert slash.definitions_digest() == before
    monkeypatch.setitem(slash.DESCRIPTIONS, "cancel", "Other words")

    assert slash.definitions_digest() != before


def test_the_digest_changes_with_what_the_configuration_offers() -> None:
    offers = [
        Offer(),
        Offer(bindings=True),
        Offer(bindings=True, agents=("luna",)),
        Offer(bindings=True, agents=("luna", "terra")),
    ]

    assert len({slash.definitions_digest(offer) for offer in offers}) == len(offers)


def test_what_is_switched_off_is_not_offered() -> None:
    offered = {each["name"] for each in slash.definitions()}

    assert offered == set(slash.DESCRIPTIONS)
    with_bindings = {each["name"] for each in slash.definitions(Offer(bindings=True))}
    assert with_bindings - offered == {"focus", "unfocus", "session"}
    assert {each["name"] for each in slash.definitions(ALL)} - with_bindings == {"spawn"}


def test_a_task_is_given_to_one_of_the_configured_agents() -> None:
    agent, task = named(ALL, "spawn")["options"]

    assert [each["value"] for each in agent["choices"]] == ["luna", "terra"]
    assert agent["required"]
    assert task["required"]
    assert named(ALL, "spawn")["contexts"] == [0]


@pytest.mark.parametrize(("count", "has_choices"), [(25, True), (26, False)])
def test_more_names_than_fit_are_typed(count: int, has_choices: bool) -> None:
    agents = tuple(f"a{number}" for number in range(count))
    agent = named(Offer(bindings=True, agents=agents), "spawn")["options"][0]

    assert ("choices" in agent) is has_choices


def test_every_text_is_within_discords_limits() -> None:
    for definition in slash.definitions(ALL):
        for each in (definition, *definition.get("options", ())):
            assert 1 <= len(each["description"]) <= 100
            assert 1 <= len(each["name"]) <= 32
        required = [each["required"] for each in definition.get("options", ())]
        assert required == sorted(required, reverse=True)
