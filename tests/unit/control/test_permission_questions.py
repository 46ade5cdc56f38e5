"""What people are shown of an agent's question: a button per option, and what there is no room for."""

import pytest

from openab.channels.discord.bodies import payload
from openab.control.permissions import question_buttons, question_text
from openab.domain.agent_events import PermissionAsked, PermissionOption, ToolChanged, ToolKind
from openab.domain.ids import TurnId
from openab.domain.outbound import MessageBody

TURN = TurnId("01jz0000000000000000000000")


def asked(count: int) -> PermissionAsked:
    options = tuple(PermissionOption(f"id-{n}", f"Option {n}", None) for n in range(count))
    return PermissionAsked("q", ToolChanged("t", "rm -rf", ToolKind.EXECUTE), options)


@pytest.mark.parametrize("count", [1, 3, 5, 6, 24, 25])
def test_every_option_that_discord_has_room_for_has_its_button(count: int) -> None:
    question = asked(count)
    buttons = question_buttons(TURN, 1, question)
    rows = payload(MessageBody("?", buttons=buttons))["components"]
    shown = [button["label"] for row in rows for button in row["components"]]
    assert shown == [option.name for option in question.options]
    assert len(rows) <= 5
    assert all(len(row["components"]) <= 5 for row in rows)
    assert "no room" not in question_text(question)


def test_what_there_is_no_room_for_is_counted() -> None:
    question = asked(27)
    assert len(question_buttons(TURN, 1, question)) == 25
    assert "no room for 2 more" in question_text(question)
