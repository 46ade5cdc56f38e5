"""Every body with content comes from one function, says who may be pinged, and can be encoded."""

import ast
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openab.channels.discord.bodies import (
    EPHEMERAL,
    LONGEST_NONCE,
    answer_payload,
    clean,
    payload,
)
from openab.domain.ids import PlatformId
from openab.domain.options import Choice, Option
from openab.domain.outbound import (
    Button,
    CommandAnswer,
    MessageBody,
    answer_body,
    handoff_body,
    presentation_body,
)
from openab.text.menus import menu

ASKER, TRIGGER = PlatformId("11"), PlatformId("22")
ADAPTER = Path("openab/channels/discord")

ids = st.none() | st.integers(1, 10**20).map(lambda number: PlatformId(str(number)))
buttons = st.lists(
    st.builds(Button, custom_id=st.text(max_size=100), label=st.text(max_size=20)), max_size=12
).map(tuple)
bodies = st.builds(
    MessageBody,
    content=st.text(st.characters(codec=None)),
    mention=ids,
    reply_to=ids,
    silent=st.booleans(),
    buttons=buttons,
)


@given(bodies, st.booleans(), st.booleans())
def test_every_body_says_who_may_be_pinged(body: MessageBody, edit: bool, ephemeral: bool) -> None:
    made = payload(body, nonce="n", edit=edit, ephemeral=ephemeral)

    assert made["allowed_mentions"] == {
        "parse": [],
        "users": [body.mention] if body.mention else [],
        "replied_user": body.mention is not None and body.reply_to is not None,
    }
    json.dumps(made, ensure_ascii=False).encode()


def test_a_create_carries_nonce_reply_and_silence() -> None:
    made = payload(MessageBody("hi", mention=ASKER, reply_to=TRIGGER, silent=True), nonce="abc")

    assert made == {
        "content": "hi",
        "allowed_mentions": {"parse": [], "users": ["11"], "replied_user": True},
        "components": [],
        "flags": 1 << 12,
        "message_reference": {"message_id": "22", "fail_if_not_exists": False},
        "nonce": "abc",
        "enforce_nonce": True,
    }


def test_an_edit_has_only_what_can_be_edited() -> None:
    made = payload(MessageBody("hi", reply_to=TRIGGER, silent=True), nonce="abc", edit=True)

    assert set(made) == {"content", "allowed_mentions", "components"}


def test_an_interaction_answer_is_for_the_asker_only() -> None:
    assert payload(MessageBody("done"), ephemeral=True)["flags"] == 1 << 6


def test_buttons_stand_in_rows_of_five() -> None:
    many = tuple(Button(f"openab:stop:{n}", f"Stop {n}", "danger") for n in range(6))
    rows = payload(presentation_body("working", many))["components"]

    assert [len(row["components"]) for row in rows] == [5, 1]
    assert rows[1]["components"] == [
        {"type": 2, "style": 4, "label": "Stop 5", "custom_id": "openab:stop:5"}
    ]


@pytest.mark.parametrize("nonce", ["", "x" * (LONGEST_NONCE + 1)])
def test_a_nonce_that_discord_refuses_is_a_bug(nonce: str) -> None:
    with pytest.raises(ValueError, match="nonce"):
        payload(MessageBody("hi"), nonce=nonce)


@given(st.text(st.characters(codec=None)))
def test_cleaned_text_can_be_encoded(text: str) -> None:
    cleaned = clean(text)

    assert "\0" not in cleaned.encode().decode()
    assert clean(cleaned) == cleaned


@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")))
def test_good_text_is_left_alone(text: str) -> None:
    assert clean(text) == text


def test_a_lone_surrogate_becomes_a_replacement_character() -> None:
    assert clean("a\ud800b\0c\U0001f600") == "a�bc\U0001f600"


def test_a_menu_is_a_row_of_its_own_above_its_turners() -> None:
    choices = tuple(Choice(f"m{n}", f"Model {n}", "d" * 140) for n in range(30))
    shown = menu(Option("model", "Model", "model", choices, "m7"))
    body = answer_payload(CommandAnswer("pick", menu=shown))
    select, turners = (row["components"] for row in body["components"])
    assert (select[0]["type"], select[0]["custom_id"]) == (3, "openab:config:model")
    assert len(select[0]["options"]) == 25
    assert [one["value"] for one in select[0]["options"] if one["default"]] == ["m7"]
    assert all(len(one["description"]) <= 100 for one in select[0]["options"])
    assert [one["custom_id"] for one in turners] == ["openab:page:model:1"]
    assert body["allowed_mentions"] == {"parse": [], "users": [], "replied_user": False}
    assert body["flags"] == EPHEMERAL
    assert "flags" not in answer_payload(CommandAnswer("pick", menu=shown), edit=True)


def content_makers(tree: ast.AST) -> set[int]:
    """Lines that write a dictionary with the key `content` or `allowed_mentions`."""
    return {
        node.lineno
        for node in ast.walk(tree)
        if isinstance(node, ast.Dict)
        and any(
            isinstance(key, ast.Constant) and key.value in {"content", "allowed_mentions"}
            for key in node.keys
        )
    }


def test_no_other_module_makes_a_body_with_content() -> None:
    makers = {
        path.name
        for path in ADAPTER.glob("*.py")
        if content_makers(ast.parse(path.read_text(encoding="utf-8")))
    }

    assert makers == {"bodies.py"}


def test_another_maker_would_be_noticed() -> None:
    assert content_makers(ast.parse('call(json_body={"content": "hi"})')) == {1}


def test_discords_own_senders_are_not_used() -> None:
    banned = (".send(", "handle_message_parameters", "send_message(", ".followup", "respond(")
    for path in ADAPTER.glob("*.py"):
        text = path.read_text(encoding="utf-8").replace("_respond(", "")
        assert not [word for word in banned if word in text], path


def test_a_handoff_pings_its_target_alone_and_shows_no_card() -> None:
    made = payload(handoff_body("<@901>\n{}", PlatformId("901")), nonce="n")
    assert made["allowed_mentions"] == {"parse": [], "users": ["901"], "replied_user": False}
    assert made["flags"] == 1 << 2
    assert "message_reference" not in made


def test_a_reply_to_somebody_else_pings_only_who_is_named() -> None:
    body = answer_body(
        "hello", mention=PlatformId("31"), reply_to=PlatformId("7"), pings_author=False
    )
    made = payload(body)
    assert made["allowed_mentions"] == {"parse": [], "users": ["31"], "replied_user": False}
    assert made["message_reference"] == {"message_id": "7", "fail_if_not_exists": False}
