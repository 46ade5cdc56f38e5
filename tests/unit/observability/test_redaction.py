"""No secret comes through the redactor, whatever stands around it."""

import json
import re
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openab.observability.redaction import MARK, Redactor

WORD = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-"
ID = "MTk4NjIyNDgzNDcxOTI1MjQ4"
SIGNATURE = "ZnCjm1XVW7vRze4b7Cq4se7kKWs-abcdefghijk"
BOT_TOKEN = f"{ID}.GfXyZ1.{SIGNATURE}"
HOOK_TOKEN = "p_0Rq-Xs1VtUw2YzAb3CdEf4GhIj5KlMn6OpQr7StUv8WxYz9"
INTERACTION_TOKEN = "aW50ZXJhY3Rpb246MTIzNDU2Nzg5OmFiY2RlZmdo"

around = st.text(max_size=60) | st.text(alphabet=WORD + "./: @\"'=", max_size=60)
signatures = st.text(alphabet=WORD, min_size=27, max_size=38)
bot_tokens = st.builds(
    lambda head, middle, tail: f"M{head}.{middle}.{tail}",
    st.text(alphabet=WORD, min_size=23, max_size=27),
    st.text(alphabet=WORD, min_size=6, max_size=6),
    signatures,
)
secrets = st.text(min_size=6, max_size=40).filter(lambda text: not set(text) <= set(MARK))


@given(around, bot_tokens, around)
def test_a_bot_token_never_comes_through(before: str, token: str, after: str) -> None:
    shown = Redactor().text(before + token + after)
    assert token not in shown
    if "." not in before + after:  # Else neighbours may hold the signature's letters themselves.
        assert token.rpartition(".")[2] not in shown


@given(around, secrets, around)
def test_a_known_secret_never_comes_through(before: str, secret: str, after: str) -> None:
    redactor = Redactor()
    assert redactor.add(secret)
    assert secret not in redactor.text(before + secret + after)


@given(around, secrets, around)
def test_a_known_secret_is_found_in_bytes(before: str, secret: str, after: str) -> None:
    redactor = Redactor()
    redactor.add(secret)
    raw = (b"\xff" + before.encode()) + secret.encode() + after.encode()
    shown = redactor.value(raw)
    assert isinstance(shown, bytes)
    assert secret.encode() not in shown


@given(around, secrets)
def test_escaped_spellings_are_known_too(before: str, secret: str) -> None:
    redactor = Redactor()
    redactor.add(secret)
    for spelling in (json.dumps(secret)[1:-1], repr(secret)[1:-1], quote(secret, safe="")):
        assert spelling not in redactor.text(f"{before}{spelling}")


@given(st.lists(secrets, max_size=3), st.lists(around | bot_tokens, max_size=5))
def test_done_twice_it_changes_nothing_more(known: list[str], pieces: list[str]) -> None:
    redactor = Redactor()
    for secret in known:
        redactor.add(secret)
    once = redactor.text("".join([*pieces, *known, *pieces]))
    assert redactor.text(once) == once
    assert not any(secret in once for secret in known)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"Bot {BOT_TOKEN}", f"Bot {MARK}"),
        (f"token is {BOT_TOKEN}, keep it", f"token is {MARK}, keep it"),
        ("Authorization: Bot short", f"Authorization: Bot {MARK}"),
        ("{'Authorization': 'Bearer abc'}", f"{{'Authorization': 'Bearer {MARK}'}}"),
        ('{"authorization":"abc"}', f'{{"authorization":"{MARK}"}}'),
        ("(b'Authorization', b'Bot abc')", f"(b'Authorization', b'Bot {MARK}')"),
        (
            f"POST https://discord.com/api/v10/webhooks/123/{HOOK_TOKEN}?wait=true 404",
            f"POST https://discord.com/api/v10/webhooks/123/{MARK}?wait=true 404",
        ),
        (
            f"/webhooks/123/{HOOK_TOKEN}/messages/@original",
            f"/webhooks/123/{MARK}/messages/@original",
        ),
        (f"/interactions/9/{HOOK_TOKEN}/callback", f"/interactions/9/{MARK}/callback"),
        (f"<token {INTERACTION_TOKEN}>", f"<token {MARK}>"),
        ("postgresql+asyncpg://ab:s3@db:5432/x", f"postgresql+asyncpg://ab:{MARK}@db:5432/x"),
        ("postgres://ab:p@ss/w@db/x?a=b", f"postgres://ab:{MARK}@db/x?a=b"),
        ("postgres://:p@db/x", f"postgres://:{MARK}@db/x"),
        ("postgres://db/x?user=a&password=pw", f"postgres://db/x?user=a&password={MARK}"),
    ],
)
def test_secrets_are_known_by_their_shape(text: str, expected: str) -> None:
    assert Redactor().text(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "turn_started",
        "openab.control.turn_runner line 12",
        "https://discord.com/api/v10/channels/123/messages/456",
        "sqlite:////home/me/.openab/openab.db",
        "2026-01-02T03:04:05.678901+00:00",
        "Bot connected; bearer of news",
        "1a2b3c4d-0000-4000-8000-1a2b3c4d5e6f",
    ],
)
def test_what_is_no_secret_stays(text: str) -> None:
    redactor = Redactor()
    redactor.add("s3cr3t-value")
    assert redactor.text(text) == text


def test_overlapping_secrets_leave_no_tail() -> None:
    redactor = Redactor()
    redactor.add("abcab")
    redactor.add("abXYZ")
    assert redactor.text("<abcabcabXYZ>") == f"<{MARK}>"


def test_a_mark_and_its_neighbour_may_spell_a_secret() -> None:
    redactor = Redactor()
    redactor.add("***abc")
    redactor.add("first-secret")
    assert "***abc" not in redactor.text("first-secretabc")


def test_a_secret_too_short_to_be_hidden_is_told() -> None:
    redactor = Redactor()
    assert not redactor.add("")
    assert not redactor.add("abc")
    assert redactor.text("abc") == "abc"


class Confidant:
    def __str__(self) -> str:
        return f"knows {BOT_TOKEN}"


class Mute:
    def __str__(self) -> str:
        raise RuntimeError("no words")


def test_nested_values_are_searched() -> None:
    redactor = Redactor()
    redactor.add("1234567890")
    value = {
        BOT_TOKEN: [BOT_TOKEN, (BOT_TOKEN, {BOT_TOKEN})],
        "Authorization": "anything",
        b"authorization": b"anything",
        "object": Confidant(),
        "error": ValueError(BOT_TOKEN),
        "number": 1234567890,
        "bytes": BOT_TOKEN.encode(),
    }
    shown = redactor.value({"deep": value})
    assert not re.search(f"{ID}|anything|1234567890", repr(shown))
    assert "ValueError: ***" in repr(shown)


def test_plain_values_stay_what_they_are() -> None:
    value = {"a": 1, "b": 1.5, "c": None, "d": True, "e": ["x", b"y"]}
    assert Redactor().value(value) == value


def test_endless_and_mute_values_end() -> None:
    endless: dict[str, object] = {"token_holder": BOT_TOKEN}
    endless["self"] = endless
    assert ID not in repr(Redactor().value(endless))
    assert Redactor().value(Mute()) == "<unprintable Mute>"


@pytest.mark.parametrize(
    "unit", ["a", "a.", "://a:", "Bot ", "aW50", "authorization:", "M" * 20 + "."]
)
@pytest.mark.timeout(20)
def test_long_texts_take_linear_time(unit: str) -> None:
    text = unit * (200_000 // len(unit))
    assert Redactor().text(text)


def test_a_text_full_of_addresses_costs_no_more_than_its_length() -> None:
    # Counted in steps, not timed: each address is looked at once, so doubling doubles.
    hidden = Redactor().text("://name:word@" * 3)
    assert hidden == f"://name:{MARK}@" * 3
