"""Each way in which one thing about a hand-off is wrong; a bot passes over every one of them."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from openab.cli.conformance.envelopes import Draft, Setting

#: Further from the edge than two clocks of good order differ, and than Discord lets a message wait.
_BEFORE_SECONDS, _BEYOND_SECONDS = 10, 30
_LONGEST_LIFE_SECONDS = 3600

Spoil = Callable[[Draft, Setting], None]


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that is wrong: the rule that it breaks, in words for the table, and how it is done."""

    told: str
    spoil: Spoil
    #: Its text holds no probe: what shows a turn is that the agent was given nothing.
    has_no_text: bool = False


def _with(key: str, value: Any) -> Spoil:
    def spoil(draft: Draft, _: Setting) -> None:
        draft.document[key] = value

    return spoil


def _without(key: str) -> Spoil:
    def spoil(draft: Draft, _: Setting) -> None:
        del draft.document[key]

    return spoil


def _rewritten(rewrite: Callable[[str], str]) -> Spoil:
    def spoil(draft: Draft, _: Setting) -> None:
        draft.rewrite = rewrite

    return spoil


def _first_line(line: Callable[[str], str]) -> Spoil:
    def spoil(draft: Draft, setting: Setting) -> None:
        draft.first_line = line(setting.target)

    return spoil


def _named(key: str, name: Callable[[Setting], Any]) -> Spoil:
    def spoil(draft: Draft, setting: Setting) -> None:
        draft.document[key] = name(setting)

    return spoil


def _text(value: Any) -> Spoil:
    """The text is that; the probe stands in a key that nobody reads."""

    def spoil(draft: Draft, _: Setting) -> None:
        draft.document["note"] = draft.probe
        draft.document["payload"] = {"text": value}

    return spoil


def _no_payload(draft: Draft, _: Setting) -> None:
    draft.document["note"] = draft.probe
    del draft.document["payload"]


def _half_a_character(draft: Draft, _: Setting) -> None:
    draft.document["payload"]["text"] += " \ud83d"


def _expiry(seconds: float) -> Spoil:
    return _named("expires_at", lambda setting: setting.now + seconds)


#: By the thread in which they are said; the order is that of the checks.
FAULTS: tuple[tuple[Fault, ...], ...] = (
    (
        Fault("JSON that is cut off", _rewritten(lambda text: text[:-1])),
        Fault("JSON that is followed by words", _rewritten(lambda text: f"{text} please")),
        Fault("NaN in it, which is no JSON", _rewritten(lambda text: f'{text[:-1]},"x":NaN}}')),
        Fault(
            "a key that stands twice",
            _rewritten(lambda text: text.replace('"hop_count":0', '"hop_count":1,"hop_count":0')),
        ),
        Fault("the schema's next version", _with("schema", "openab.multibot.handoff.v2")),
        Fault("a schema that only begins so", _with("schema", "openab.multibot.handoff.v1.1")),
        Fault("a source that is another bot", _named("source_bot_id", lambda one: one.target)),
        Fault("a source that is a number", _named("source_bot_id", lambda one: int(one.tester))),
        Fault("no source", _without("source_bot_id")),
        Fault("a target that is another bot", _named("target_bot_id", lambda one: one.tester)),
        Fault("a target that is a number", _named("target_bot_id", lambda one: int(one.target))),
        Fault("no target", _without("target_bot_id")),
        Fault("a first line of the form <@!ID>", _first_line(lambda target: f"<@!{target}>")),
        Fault("a blank at the first line's end", _first_line(lambda target: f"<@{target}> ")),
    ),
    (
        Fault("an event id that is no UUID", _with("event_id", "event-1")),
        Fault("an event id that is a number", _with("event_id", 1)),
        Fault("no event id", _without("event_id")),
        Fault("an expiry that is a text", _named("expires_at", lambda one: str(one.now + 300))),
        Fault("an expiry with a fraction", _expiry(300.5)),
        Fault("no expiry", _without("expires_at")),
        Fault(f"an expiry {_BEFORE_SECONDS} s ago", _expiry(-_BEFORE_SECONDS)),
        Fault(
            f"an expiry {_LONGEST_LIFE_SECONDS + _BEYOND_SECONDS} s ahead",
            _expiry(_LONGEST_LIFE_SECONDS + _BEYOND_SECONDS),
        ),
        Fault("a hop", _with("hop_count", 1)),
        Fault('hop count "0"', _with("hop_count", "0")),
        Fault("hop count 0.0", _with("hop_count", 0.0)),
        Fault("hop count false", _with("hop_count", value=False)),
        Fault("no hop count", _without("hop_count")),
    ),
    (
        Fault("the parent channel as origin", _named("origin_channel_id", lambda one: one.parent)),
        Fault(
            "an origin that is a number", _named("origin_channel_id", lambda one: int(one.thread))
        ),
        Fault("no origin", _without("origin_channel_id")),
        Fault("another thread as origin", _named("origin_thread_id", lambda one: one.parent)),
        Fault("an origin message that is no id", _with("origin_message_id", "none")),
        Fault("no payload", _no_payload, has_no_text=True),
        Fault("an empty text", _text(""), has_no_text=True),
        Fault("a blank text", _text(" \n\t"), has_no_text=True),
        Fault("a text that is a number", _text(5), has_no_text=True),
        Fault("half a character in the text", _half_a_character),
    ),
)

#: What nobody can find out from outside, and why.
NOT_TESTABLE: tuple[tuple[str, str], ...] = (
    ("refuses a message of more than 100,000 bytes", "Discord takes 2000 characters"),
    ("refuses a hand-off from itself", "only the bot could send it"),
    ("takes a person's envelope for plain text", "no bot can write as a person; try it by hand"),
    ("refuses the 4097th event id, and forgets none", "at ten a minute that takes seven hours"),
    ("knows an event id after a restart", "the tester cannot restart the bot"),
)
