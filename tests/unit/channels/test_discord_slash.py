"""Commands are defined in one table, and their digest follows it."""

import pytest

from openab.channels.discord import slash
from openab.channels.discord.inbound import inbound_command
from openab.channels.discord.places import DIRECT
from openab.domain.ids import AccountId


def test_every_registered_command_is_understood() -> None:
    for definition in slash.definitions():
        raw = {
            "id": "1",
            "type": 2,
            "channel_id": "8",
            "user": {"id": "31", "username": "ann"},
            "data": {"name": definition["name"]},
        }
        assert inbound_command(raw, AccountId("9"), DIRECT) is not None


def test_the_digest_changes_with_a_definition(monkeypatch: pytest.MonkeyPatch) -> None:
    before = slash.definitions_digest()
    assert slash.definitions_digest() == before
    monkeypatch.setitem(slash.DESCRIPTIONS, "cancel", "Other words")

    assert slash.definitions_digest() != before
