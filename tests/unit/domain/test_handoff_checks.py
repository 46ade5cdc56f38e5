"""What a claim is, and each check with its own reason; a second reading of the rules judges 20,000 mutants."""

import json
import random
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from openab.domain.handoff import (
    MEANINGS,
    REMEDIES,
    Candidate,
    Envelope,
    Receiver,
    Refusal,
    candidate,
    draft,
    judged,
    written,
)
from openab.domain.handoff.limits import MOST_ACCEPTED, RATE_WINDOW, is_too_many, next_chance
from openab.domain.ids import AccountId, ChannelName, ConversationRef, PlatformId
from openab.domain.message import AuthorKind, Place

NOW = datetime(2026, 7, 1, 12, 0, tzinfo=UTC)
UNIX = int(NOW.timestamp())
EVENT = "0b0d9c4e-7a35-4c6e-9d4f-3f0a5f0d3b11"
SOURCE, US, HERE = PlatformId("901"), AccountId("900"), PlatformId("500")
RECEIVER = Receiver(US, HERE, frozenset({"901", "900", "902"}), NOW)
GOOD: dict[str, object] = {
    "schema": "openab.multibot.handoff.v1",
    "source_bot_id": "901",
    "target_bot_id": "900",
    "event_id": EVENT,
    "origin_channel_id": "500",
    "origin_thread_id": "500",
    "origin_message_id": None,
    "expires_at": UNIX + 300,
    "hop_count": 0,
    "payload": {"text": "Do it."},
}


def with_json(line: str, first: str = "<@900>", end: str = "\n") -> str:
    return f"{first}{end}{line}"


def a_text(first: str = "<@900>", **changes: object) -> str:
    return with_json(json.dumps({**GOOD, **changes}), first)


def without(key: str) -> str:
    return with_json(json.dumps({name: value for name, value in GOOD.items() if name != key}))


def inside(extra: str) -> str:
    """A good envelope with more written behind its last key."""
    return with_json(json.dumps(GOOD)[:-1] + f",{extra}}}")


def verdict(
    text: str, author: PlatformId = SOURCE, receiver: Receiver = RECEIVER
) -> Envelope | Refusal:
    claim = candidate(text, AuthorKind.BOT)
    assert claim is not None, "no claim"
    return judged(claim, author, receiver)


def test_a_good_one_is_read_as_it_was_written() -> None:
    where = ConversationRef(ChannelName("discord"), AccountId("901"), HERE, PlatformId("77"))
    sent = draft(
        AccountId("901"), PlatformId("900"), where, Place.THREAD, PlatformId("7"), UUID(EVENT), NOW,
        " \u202e<@900>\n\0 ",
    )  # fmt: skip
    assert verdict(written(sent)) == sent


#: What is wrong with it alone, and the reason that it is refused with.
FAULTS: list[tuple[str, str, Refusal]] = [
    ("too many bytes", a_text(payload={"text": "x" * 100_000}), Refusal.TOO_LARGE),
    ("too many bytes of é", a_text(payload={"text": "é" * 50_000}), Refusal.TOO_LARGE),
    ("too many bytes of no JSON", a_text()[:-1] + " " * 100_000, Refusal.TOO_LARGE),
    ("cut", a_text()[:-1], Refusal.NOT_JSON),
    ("a trailing word", a_text() + " ok", Refusal.NOT_JSON),
    ("two objects", a_text() + "\n{}", Refusal.NOT_JSON),
    ("in a fence's end", a_text() + "\n```", Refusal.NOT_JSON),
    ("NaN", inside('"x":NaN'), Refusal.NOT_JSON),
    ("-Infinity", inside('"x":-Infinity'), Refusal.NOT_JSON),
    ("nested without end", inside('"x":' + "[" * 45_000 + "]" * 45_000), Refusal.NOT_JSON),
    ("nested and cut", inside('"x":' + '{"a":' * 19_000), Refusal.NOT_JSON),
    ("a raw line end in a string", inside('"x":"\n"'), Refusal.NOT_JSON),
    ("a comment", inside('"x":1/*y*/'), Refusal.NOT_JSON),
    ("a space that is none in JSON", with_json("\u00a0" + json.dumps(GOOD)), Refusal.NOT_JSON),
    ("a key twice", inside(f'"event_id":"{EVENT}"'), Refusal.DUPLICATE_KEY),
    ("a key twice, once escaped", inside('"hop\\u005fcount":0'), Refusal.DUPLICATE_KEY),
    ("another schema behind it", inside('"schema":"other"'), Refusal.DUPLICATE_KEY),
    (
        "another schema before it",
        with_json('{"schema":[],' + json.dumps(GOOD)[1:]),
        Refusal.DUPLICATE_KEY,
    ),
    (
        "two texts",
        a_text(payload=0).replace(": 0}", ': {"text":"a","text":"b"}}'),
        Refusal.DUPLICATE_KEY,
    ),
    ("a later version", a_text(schema="openab.multibot.handoff.v2"), Refusal.WRONG_SCHEMA),
    ("no version", a_text(schema="openab.multibot.handoff"), Refusal.WRONG_SCHEMA),
    ("a longer version", a_text(schema="openab.multibot.handoff.v1.1"), Refusal.WRONG_SCHEMA),
    ("a space behind it", a_text(schema="openab.multibot.handoff.v1 "), Refusal.WRONG_SCHEMA),
    ("no source", without("source_bot_id"), Refusal.WRONG_SOURCE),
    ("another source", a_text(source_bot_id="902"), Refusal.WRONG_SOURCE),
    ("a number as source", a_text(source_bot_id=901), Refusal.WRONG_SOURCE),
    ("a list as source", a_text(source_bot_id=["901"]), Refusal.WRONG_SOURCE),
    ("a zero before it", a_text(source_bot_id="0901"), Refusal.WRONG_SOURCE),
    ("no target", without("target_bot_id"), Refusal.WRONG_TARGET),
    ("another target", a_text(target_bot_id="902"), Refusal.WRONG_TARGET),
    ("a number as target", a_text(target_bot_id=900), Refusal.WRONG_TARGET),
    ("the other mention form", a_text("<@!900>"), Refusal.WRONG_FIRST_LINE),
    ("a carriage return", with_json(json.dumps(GOOD), end="\r\n"), Refusal.WRONG_FIRST_LINE),
    ("a space behind the mention", a_text("<@900> "), Refusal.WRONG_FIRST_LINE),
    ("a zero in the mention", a_text("<@0900>"), Refusal.WRONG_FIRST_LINE),
    ("a role's mention", a_text("<@&900>"), Refusal.WRONG_FIRST_LINE),
    ("another's mention", a_text("<@902>"), Refusal.WRONG_FIRST_LINE),
    ("no event", without("event_id"), Refusal.WRONG_EVENT_ID),
    ("a number as event", a_text(event_id=7), Refusal.WRONG_EVENT_ID),
    ("a digit too few", a_text(event_id=EVENT[:-1]), Refusal.WRONG_EVENT_ID),
    ("an underscore in it", a_text(event_id=EVENT.replace("9d4f", "9_4f")), Refusal.WRONG_EVENT_ID),
    ("hyphens elsewhere", a_text(event_id="0-b0d9c4e7a354c6e9d4f3f0a5f0d3b11-"), Refusal.WRONG_EVENT_ID),
    ("a line end behind it", a_text(event_id=EVENT + "\n"), Refusal.WRONG_EVENT_ID),
    ("65 characters", a_text(event_id=EVENT.ljust(65, "0")), Refusal.WRONG_EVENT_ID),
    ("foreign digits", a_text(event_id=EVENT.replace("0", "\u0660")), Refusal.WRONG_EVENT_ID),
    ("no expiry", without("expires_at"), Refusal.WRONG_EXPIRY),
    ("an expiry as text", a_text(expires_at=str(UNIX + 9)), Refusal.WRONG_EXPIRY),
    ("a fraction", a_text(expires_at=UNIX + 9.0), Refusal.WRONG_EXPIRY),
    ("true", a_text(expires_at=True), Refusal.WRONG_EXPIRY),
    ("an endless number", inside('"y":0').replace(str(UNIX + 300), "9" * 5000), Refusal.WRONG_EXPIRY),
    ("1e400", inside('"y":0').replace(str(UNIX + 300), "1e400"), Refusal.WRONG_EXPIRY),
    ("now", a_text(expires_at=UNIX), Refusal.EXPIRED),
    ("long ago", a_text(expires_at=-5), Refusal.EXPIRED),
    ("an hour and a second", a_text(expires_at=UNIX + 3601), Refusal.EXPIRES_TOO_LATE),
    ("the end of time", a_text(expires_at=2**64 - 1), Refusal.EXPIRES_TOO_LATE),
    ("no hop count", without("hop_count"), Refusal.WRONG_HOP_COUNT),
    ("a hop", a_text(hop_count=1), Refusal.WRONG_HOP_COUNT),
    ("a hop back", a_text(hop_count=-1), Refusal.WRONG_HOP_COUNT),
    ("false", a_text(hop_count=False), Refusal.WRONG_HOP_COUNT),
    ("0.0", a_text(hop_count=0.0), Refusal.WRONG_HOP_COUNT),
    ("-0", a_text().replace('"hop_count": 0', '"hop_count": -0'), Refusal.WRONG_HOP_COUNT),
    ("hops as text", a_text(hop_count="0"), Refusal.WRONG_HOP_COUNT),
    ("no origin", without("origin_channel_id"), Refusal.WRONG_ORIGIN),
    ("another origin", a_text(origin_channel_id="501"), Refusal.WRONG_ORIGIN),
    ("a number as origin", a_text(origin_channel_id=500), Refusal.WRONG_ORIGIN),
    ("another thread", a_text(origin_thread_id="501"), Refusal.WRONG_ORIGIN),
    ("an object as thread", a_text(origin_thread_id={}), Refusal.WRONG_ORIGIN),
    ("a number as message", a_text(origin_message_id=7), Refusal.WRONG_ORIGIN),
    ("a word as message", a_text(origin_message_id="seven"), Refusal.WRONG_ORIGIN),
    ("no payload", without("payload"), Refusal.NO_TEXT),
    ("a text as payload", a_text(payload="Do it."), Refusal.NO_TEXT),
    ("no text", a_text(payload={}), Refusal.NO_TEXT),
    ("an empty text", a_text(payload={"text": ""}), Refusal.NO_TEXT),
    ("a blank text", a_text(payload={"text": " \n"}), Refusal.NO_TEXT),
    ("a list as text", a_text(payload={"text": ["Do it."]}), Refusal.NO_TEXT),
    ("half a character", a_text(payload={"text": "\ud83d"}), Refusal.LONE_SURROGATE),
    ("the other half", a_text(payload={"text": "a\ude00b"}), Refusal.LONE_SURROGATE),
]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "reason"), [each[1:] for each in FAULTS], ids=[f[0] for f in FAULTS]
)
def test_each_fault_alone_is_refused_with_its_own_reason(text: str, reason: Refusal) -> None:
    assert verdict(text) is reason


def test_who_is_not_trusted_is_refused() -> None:
    nobody = Receiver(US, HERE, frozenset(), NOW)
    assert verdict(a_text(), receiver=nobody) is Refusal.SOURCE_NOT_TRUSTED
    own = a_text(source_bot_id="900")
    assert verdict(own, author=PlatformId("900")) is Refusal.OWN_HANDOFF
    stranger = a_text(source_bot_id="903")
    assert verdict(stranger, author=PlatformId("903")) is Refusal.SOURCE_NOT_TRUSTED


def test_there_is_a_fault_for_every_reason_and_a_meaning() -> None:
    spent = {Refusal.REPLAY, Refusal.REPLAY_CAPACITY, Refusal.RATE_LIMITED}
    gates = {
        Refusal.CONVERSATION_GONE,
        Refusal.DM_OFF,
        Refusal.CHANNEL_NOT_ALLOWED,
        Refusal.BOT_TURN_CAP,
    }
    of_the_source = {Refusal.SOURCE_NOT_TRUSTED, Refusal.OWN_HANDOFF}
    assert {reason for *_, reason in FAULTS} == set(Refusal) - spent - gates - of_the_source
    assert set(MEANINGS) == set(REMEDIES) == set(Refusal)


@pytest.mark.parametrize("text", [text for _, text, _ in FAULTS])
def test_of_two_faults_the_earlier_check_speaks(text: str) -> None:
    reasons, alone = list(Refusal), verdict(text)
    assert isinstance(alone, Refusal)
    stranger = verdict(text, receiver=Receiver(US, HERE, frozenset(), NOW))
    assert stranger is min(alone, Refusal.SOURCE_NOT_TRUSTED, key=reasons.index)


@pytest.mark.parametrize(
    "text",
    [
        a_text(),
        without("origin_thread_id"),
        without("origin_message_id"),
        a_text(origin_thread_id=None, origin_message_id="18446744073709551615"),
        a_text(expires_at=UNIX + 1),
        a_text(expires_at=UNIX + 3600),
        inside('"more":{"a":[1,2.5,-0,1e400,null,"\\ud800"]}'),
        inside(f'"more":{"9" * 5000}'),
        inside('"more":' + "[" * 100 + "]" * 100),
        a_text(event_id=EVENT.upper()),
        with_json("\r\n\t " + json.dumps(GOOD, indent=2) + " \n\r\n"),
        a_text(payload={"text": "\u200b", "more": 1}),
        with_json(json.dumps(GOOD).replace("payload", "\\u0070ayload")),
    ],
)
def test_what_does_no_harm_is_accepted(text: str) -> None:
    assert isinstance(verdict(text), Envelope)


@pytest.mark.parametrize(
    "spelled",
    [EVENT, EVENT.upper(), EVENT.replace("-", ""), f"{{{EVENT}}}", f"urn:uuid:{EVENT}"],
)
def test_every_spelling_of_an_event_is_that_event(spelled: str) -> None:
    found = verdict(a_text(event_id=spelled))
    assert isinstance(found, Envelope)
    assert found.event_id == EVENT


class TestAClaim:
    @pytest.mark.parametrize("kind", [AuthorKind.HUMAN, AuthorKind.WEBHOOK])
    def test_is_never_a_persons_or_a_webhooks(self, kind: AuthorKind) -> None:
        assert candidate(a_text(), kind) is None

    @pytest.mark.parametrize(
        "text",
        [
            "",
            "<@900>",
            "<@900>\n",
            "<@900> build it",
            f"<@900> {json.dumps(GOOD)}",
            f"<@900>\r{json.dumps(GOOD)}",
            f"> <@900>\n> {json.dumps(GOOD)}",
            f"```\n<@900>\n{json.dumps(GOOD)}\n```",
            f"Look:\n<@900>\n{json.dumps(GOOD)}",
            f"\ufeff<@900>\n{json.dumps(GOOD)}",
            f"<@900>\n\ufeff{json.dumps(GOOD)}",
            f"<@900>\nHere: {json.dumps(GOOD)}",
            f"<@900>\n```json\n{json.dumps(GOOD)}\n```",
            f"<@900>\n[{json.dumps(GOOD)}]",
            f"<@everyone>\n{json.dumps(GOOD)}",
            "<@900>\n" + json.dumps({"a": GOOD}),
            "<@900>\n" + json.dumps({"schema": "other", "text": "openab.multibot.handoff.v1"}),
            "<@900>\n" + json.dumps({"schema": ["openab.multibot.handoff.v1"]}),
            "<@900>\n" + json.dumps({"schema": " openab.multibot.handoff.v1"}),
            '<@900>\n{"schema": "openab.multibot',
            "<@900>\n" + "x" * 100_000,
            "<@900>\n" + "[" * 90_000,
            json.dumps(GOOD),
        ],
    )
    def test_is_not_made_by_other_text(self, text: str) -> None:
        assert candidate(text, AuthorKind.BOT) is None

    @pytest.mark.parametrize(
        "text",
        [
            a_text("<@902>"),
            a_text("<@&7>"),
            a_text("  <@!900>\t"),
            "<@900>\n \n" + json.dumps({"schema": "openab.multibot.handoff/2"}),
            "<@900>\n  { openab.multibot.handoff",
            "<@900>\n" + json.dumps(GOOD)[:-40],
            "<@900>\n{" + "[" * 90_000 + "openab.multibot.handoff",
        ],
    )
    def test_is_made_by_whatever_looks_like_one(self, text: str) -> None:
        assert candidate(text, AuthorKind.BOT) is not None

    @pytest.mark.parametrize(
        ("first", "named"),
        [("<@900>", "900"), ("<@!900>", "900"), (" <@7>\r", "7"), ("<@&900>", None)],
    )
    def test_is_addressed_to_the_user_whom_its_first_line_names(
        self, first: str, named: str | None
    ) -> None:
        claim = candidate(a_text(first), AuthorKind.BOT)
        assert claim is not None
        assert claim.named == named

    @given(st.text(st.characters(exclude_categories=()), max_size=60))
    @example("{" * 50_000 + "openab.multibot.handoff")
    @example('{"openab.multibot.handoff":' + "1" * 5000)
    def test_whatever_is_said_nothing_raises(self, said: str) -> None:
        for text in (said, f"<@900>\n{said}", inside(said), a_text(payload={"text": said})):
            claim = candidate(text, AuthorKind.BOT)
            assert claim is None or isinstance(judged(claim, SOURCE, RECEIVER), Envelope | Refusal)


class Number(str):
    """A JSON number as it was written."""


class Twice(Exception):
    """An object with a key twice."""


def allows(text: str) -> bool:
    """The second reading of the rules, in one piece and without any of the code under test."""
    if not text.startswith("<@900>\n") or len(text.encode(errors="surrogatepass")) > 100_000:
        return False

    def constant(_: str) -> float:
        raise ValueError

    def unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
        keys = [key for key, _ in pairs]
        if any(keys.count(key) > 1 for key in keys):
            raise Twice
        return {key: value for key, value in pairs}  # noqa: C416 - the pairs are the point

    reader = json.JSONDecoder(
        object_pairs_hook=unique, parse_int=Number, parse_float=Number, parse_constant=constant
    )
    try:
        found, end = reader.raw_decode(text[7:].lstrip(" \t\r\n"))
    except (ValueError, RecursionError, Twice):
        return False
    behind = text[7:].lstrip(" \t\r\n")[end:]
    if behind.strip(" \t\r\n") or not isinstance(found, dict):
        return False

    def is_text(key: str, *values: str) -> bool:
        value = found.get(key)
        return isinstance(value, str) and not isinstance(value, Number) and value in values

    expiry, hops = found.get("expires_at"), found.get("hop_count")
    event, message = found.get("event_id"), found.get("origin_message_id")
    payload = found.get("payload")
    said = payload.get("text") if isinstance(payload, dict) else None
    return (
        is_text("schema", "openab.multibot.handoff.v1")
        and is_text("source_bot_id", "901")
        and is_text("target_bot_id", "900")
        and isinstance(event, str)
        and not isinstance(event, Number)
        and _is_uuid(event)
        and isinstance(expiry, Number)
        and re.fullmatch(r"[1-9][0-9]{0,18}", expiry) is not None
        and UNIX < int(expiry) <= UNIX + 3600
        and isinstance(hops, Number)
        and hops == "0"
        and is_text("origin_channel_id", "500")
        and (found.get("origin_thread_id") is None or is_text("origin_thread_id", "500"))
        and (
            message is None
            or (
                isinstance(message, str)
                and not isinstance(message, Number)
                and message.isascii()
                and message.isdecimal()
                and len(message) <= 20
            )
        )
        and isinstance(said, str)
        and not isinstance(said, Number)
        and said.strip() != ""
        and not any(0xD800 <= ord(char) < 0xE000 for char in said)
    )


def _is_uuid(value: str) -> bool:
    plain = value.lower()
    if plain.startswith("urn:uuid:") and len(plain) == 45:
        plain = plain[9:]
    elif len(plain) == 38 and plain[0] + plain[-1] == "{}":
        plain = plain[1:-1]
    if len(plain) == 32:
        return set(plain) <= set("0123456789abcdef")
    groups = plain.split("-")
    return [len(group) for group in groups] == [8, 4, 4, 4, 12] and _is_uuid("".join(groups))


VALUES: tuple[object, ...] = (
    *(
        "900",
        "901",
        "902",
        "0901",
        "500",
        "501",
        "",
        " ",
        "0",
        "-1",
        "\u0669\u0660\u0660",
        "x",
        EVENT,
        EVENT.upper(),
    ),
    *(
        EVENT[1:],
        f"{{{EVENT}}}",
        f"urn:uuid:{EVENT}",
        f"urn:{EVENT}",
        EVENT.replace("-", ""),
        "\ud800",
    ),
    *(0, 1, -1, 0.0, 900, 901, 500, UNIX, UNIX + 1, UNIX + 3600, UNIX + 3601, UNIX + 60.0, 10**19),
    *(10**25, float("nan"), float("inf"), True, False, None, [], {}, ["500"], {"text": "hi"}),
    *(
        {"text": ""},
        {"text": "\ud83d\ude00"},
        {"text": "\udc00"},
        {"text": 1},
        {"text": "a" * 3000},
    ),
    *("openab.multibot.handoff.v1", "openab.multibot.handoff.v2", "openab.multibot.handoff"),
)
PIECES = (
    *(
        '"',
        "\\",
        ",",
        ":",
        "{",
        "}",
        "[",
        "]",
        " ",
        "\n",
        "\r",
        "\t",
        "\0",
        "0",
        "1",
        "-",
        ".",
        "e",
    ),
    *('"hop_count":0,', '"x":{"y":1},', '"schema":"other",', '"payload":{"text":"b"},', "\\u0061"),
    *(
        "<@900>",
        "<@!900>",
        "<@&900>",
        "NaN",
        "null",
        "true",
        "\ufeff",
        "\u00a0",
        "\u2028",
        "é",
        "```",
    ),
)


def swapped_value(good: dict[str, object], dice: random.Random) -> None:
    good[dice.choice(list(good))] = dice.choice(VALUES)


def lost_key(good: dict[str, object], dice: random.Random) -> None:
    good.pop(dice.choice(list(good)))


def more_key(good: dict[str, object], dice: random.Random) -> None:
    good[dice.choice(("more", "Schema", "text", "payload ", ""))] = dice.choice(VALUES)


def put_in(text: str, dice: random.Random) -> str:
    at = dice.randrange(len(text) + 1)
    return text[:at] + dice.choice(PIECES) + text[at:]


def taken_out(text: str, dice: random.Random) -> str:
    at = dice.randrange(len(text))
    return text[:at] + text[at + dice.choice((1, 1, 1, 2, 9, 400)) :]


def repeated(text: str, dice: random.Random) -> str:
    start, end = sorted((dice.randrange(len(text)), dice.randrange(len(text))))
    return text[:end] + text[start:]


def around(text: str, dice: random.Random) -> str:
    return (
        dice.choice(("", " ", "\n", "```\n", "> "))
        + text
        + dice.choice(("", " ", "\n", "\n{}", "."))
    )


OF_KEYS: tuple[Callable[[dict[str, object], random.Random], None], ...] = (
    swapped_value, swapped_value, lost_key, more_key,
)  # fmt: skip
OF_TEXT: tuple[Callable[[str, random.Random], str], ...] = (put_in, taken_out, repeated, around)


def a_mutant(dice: random.Random) -> str:
    good = dict(GOOD)
    for _ in range(dice.choice((0, 1, 1, 2))):
        dice.choice(OF_KEYS)(good, dice)
    shuffled = dice.sample(list(good.items()), len(good)) if dice.random() < 0.2 else good.items()
    line = json.dumps(dict(shuffled), ensure_ascii=dice.random() < 0.5)
    first = "<@900>" if dice.random() < 0.9 else dice.choice(("<@!900>", "<@902>", "<@900> ", ""))
    text = with_json(line, first, dice.choice(("\n", "\n", "\n", "\n\n", "\r\n")))
    for _ in range(dice.choice((0, 0, 1, 1, 2))):
        text = dice.choice(OF_TEXT)(text, dice)
    return text


def test_twenty_thousand_mutants_are_judged_as_a_second_reading_of_the_rules_does() -> None:
    dice = random.Random(5)
    accepted, refused, told = 0, 0, set()
    for _ in range(20_000):
        text = a_mutant(dice)
        claim = candidate(text, AuthorKind.BOT)
        found = judged(claim, SOURCE, RECEIVER) if claim else None
        assert isinstance(found, Envelope) == allows(text), text
        accepted += isinstance(found, Envelope)
        if isinstance(found, Refusal):
            refused += 1
            told.add(found)
    assert accepted > 2000
    assert refused > 5000
    assert told >= {reason for *_, reason in FAULTS} - {Refusal.TOO_LARGE}


def test_a_judge_that_forgets_a_check_is_found_out() -> None:
    """Negative control: without the check of the first line, mutants get through."""
    dice = random.Random(5)

    def careless(text: str) -> bool:
        claim = candidate(text, AuthorKind.BOT)
        if claim is None:
            return False
        mended = Candidate("<@900>", claim.is_too_large, claim.document, claim.has_duplicate_key)
        return isinstance(judged(mended, SOURCE, RECEIVER), Envelope)

    assert any(careless(text) != allows(text) for text in (a_mutant(dice) for _ in range(2000)))


class TestTheRate:
    @given(st.lists(st.integers(0, 400), max_size=60))
    def test_no_minute_ever_holds_more_than_ten(self, seconds: list[int]) -> None:
        """In whatever order they come; and one is refused only where a minute is full."""
        taken: list[datetime] = []
        for second in seconds:
            at = NOW + timedelta(seconds=second)
            minutes = [
                [other for other in taken if start <= other < start + RATE_WINDOW]
                for start in (at - timedelta(seconds=back) for back in range(60))
            ]
            fullest = max(len(minute) for minute in minutes)
            assert is_too_many(taken, at) == (fullest >= MOST_ACCEPTED)
            if not is_too_many(taken, at):
                taken.append(at)

    def test_the_eleventh_waits_until_the_first_is_a_minute_old(self) -> None:
        taken = [NOW + timedelta(seconds=0.5 * n) for n in range(10)]
        assert is_too_many(taken, NOW + timedelta(seconds=5))
        assert is_too_many(taken, NOW + timedelta(seconds=59.999))
        assert not is_too_many(taken, NOW + timedelta(seconds=60))

    def test_a_sender_keeps_to_nine(self) -> None:
        sent = [NOW - timedelta(seconds=60 - n) for n in range(9)]
        assert next_chance(sent, NOW) == NOW
        sent.append(NOW - timedelta(seconds=1))
        assert next_chance(sent, NOW) == NOW + timedelta(seconds=1)
        assert next_chance([], NOW) == NOW
