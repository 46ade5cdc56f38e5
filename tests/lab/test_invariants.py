"""Each invariant finds a made-up observation that violates it, and lets an orderly one pass."""

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from tests.lab.invariants import INVARIANTS, judge
from tests.lab.observation import (
    RESULT,
    BindingSeen,
    EnvelopeSeen,
    HandoffSeen,
    MessageSeen,
    Observation,
    PromptSeen,
    Said,
    SpawnSeen,
    TurnSeen,
    pieces,
    prompts_in,
)

_RAW = "m1.1 m1.2 <@7> m1.3 "
_SHOWN = "m1.1 m1.2 <\u200b@7> m1.3"
_CUT = "⚠️ Interrupted by a restart."


def _turn(number: int = 1, **changed: Any) -> TurnSeen:
    made = TurnSeen(
        id=f"t{number}",
        conversation="100",
        order=(number, number),
        state="done",
        outcome="completed",
        attempt=1,
        raw=_RAW.replace("m1", f"m{number}"),
        messages=(str(100 + number),),
        tags=(f"m{number}",),
        trigger=str(100 + number),
        started_at=10.0 * number,
        answered_at=10.0 * number + 5,
    )
    return replace(made, **changed)


def _prompt(number: int = 1, **changed: Any) -> PromptSeen:
    made = PromptSeen(
        session="s",
        pid=1,
        at=10.0 * number + 1,
        until=10.0 * number + 4,
        tags=(f"m{number}",),
        text=_RAW.replace("m1", f"m{number}"),
        end="end_turn",
    )
    return replace(made, **changed)


def _message(number: int = 1, content: str = "", **changed: Any) -> MessageSeen:
    shown = content or _SHOWN.replace("m1", f"m{number}")
    return replace(MessageSeen(str(200 + number), "100", shown), **changed)


def _observation(**changed: Any) -> Observation:
    made = Observation(
        said=(Said("101", "m1", "100"), Said("102", "m2", "100")),
        turns=(_turn(1), _turn(2)),
        prompts=(_prompt(1), _prompt(2)),
        messages=(_message(1), _message(2)),
        reactions={"101": ("🆗",), "102": ("🆗",)},
    )
    return replace(made, **changed)


def _recovered(**changed: Any) -> Observation:
    """A turn whose first agent died after two words, and that was asked once more."""
    turn = _turn(1, attempt=2, raw="m1.1 m1.2 " + _RAW)
    first = _prompt(1, text="m1.1 m1.2 <@7> m", end=None, until=12.0)
    made = Observation(
        said=(Said("101", "m1", "100"),),
        turns=(turn,),
        prompts=(first, _prompt(1, at=13.0)),
        messages=(_message(1, f"<@7>\nm1.1 m1.2 \n🔄 went on after a restart\n{_SHOWN}"),),
        reactions={"101": ("🆗",)},
        deaths=(12.5,),
    )
    return replace(made, **changed)


def _cut_off(**changed: Any) -> Observation:
    """A turn whose agent died after two words, and that nobody went on with."""
    turn = _turn(1, state="interrupted", outcome="interrupted", raw="m1.1 m1.2 ")
    made = Observation(
        said=(Said("101", "m1", "100"),),
        turns=(turn,),
        prompts=(_prompt(1, end=None),),
        messages=(_message(1, f"{_CUT}\n\nm1.1 m1.2"),),
        reactions={"101": ("😱",)},
        deaths=(14.5,),
    )
    return replace(made, **changed)


_KEY = "discord:1:300:helper"


def _spawn(**changed: Any) -> SpawnSeen:
    return replace(SpawnSeen("s1", "finished", "101", "t1", "300", "t2", _KEY), **changed)


def _bound(**changed: Any) -> BindingSeen:
    return replace(BindingSeen(_KEY, "300", "ended", 90.0), **changed)


def _family(**changed: Any) -> Observation:
    """A request whose agent gave a task to a sub-agent, which is over and was told, and then given up."""
    task = _turn(2, conversation="300", trigger="300", messages=(), source="spawn", raw="m2.1 ")
    asks = _turn(1, conversation="101", raw="[[spawn:helper]]\ntag=m2; please")
    told = _turn(3, conversation="101", source="completion", raw="t101.1 ", trigger="300")
    made = Observation(
        said=(Said("101", "m1", "101"),),
        turns=(asks, task, replace(told, messages=(), tags=("t101",), key="completion:t2")),
        prompts=(
            _prompt(1, text=asks.raw),
            _prompt(2, session="h", text="m2.1 "),
            _prompt(3, text="t101.1 ", tags=("t101",)),
        ),
        messages=_shown_of_family(),
        reactions={"101": ("🆗",), "300": ("🆗",)},
        threads={"101": "50", "300": "50"},
        spawns=(_spawn(),),
        bindings=(_bound(),),
        sessions=(_KEY,),
    )
    return replace(made, **changed)


def _shown_of_family(*more: MessageSeen, without: int = 0) -> tuple[MessageSeen, ...]:
    shown = (
        MessageSeen("201", "101", "tag=m2; please"),
        MessageSeen("300", "50", "-# 🧵 helper is given a task"),
        MessageSeen("202", "101", "-# 🧵 helper works on it in <#300>."),
        MessageSeen("301", "300", "-# tag=m2; please"),
        MessageSeen("302", "300", "m2.1"),
        MessageSeen("206", "101", "t101.1"),
        MessageSeen("304", "300", "-# 👋 It does not talk here any more."),
    )
    return (*(one for one in shown if one.message_id != str(without)), *more)


def _reported(**changed: Any) -> Observation:
    """A sub-agent whose thread was given up while it worked."""
    result = MessageSeen("205", "101", "🧵 no thread is bound to it any more\n\nm2.1")
    made = _family(
        bindings=(_bound(ended_at=21.0),), messages=_shown_of_family(result, without=302)
    )
    return replace(made, **changed)


def _envelope(event: str, target: str) -> str:
    schema = '{"schema":"openab.multibot.handoff.v1"'
    return f'<@{target}>\n{schema},"source_bot_id":"1","event_id":"{event}","hop_count":0}}'


def _handed(**changed: Any) -> Observation:
    """A request whose agent gave work to another bot, and that bot's own, which came twice."""
    gives = _turn(1, raw="[[handoff:7]]\nyours now")
    takes = _turn(2, source="handoff")
    made = _observation(
        turns=(gives, takes),
        prompts=(_prompt(1, text=gives.raw), _prompt(2)),
        messages=(
            _message(1, "yours now"),
            MessageSeen("210", "100", _envelope("a", "7")),
            _message(2),
        ),
        reactions={"101": ("🆗",), "102": ("📥", "🆗")},
        handoffs=(HandoffSeen("a", "out", "sent", "t1"), HandoffSeen("b", "in", "accepted", "t2")),
        envelopes=_wire(),
    )
    return replace(made, **changed)


def _wire(**changed: Any) -> tuple[EnvelopeSeen, ...]:
    """Ours, theirs, and theirs once more."""
    once_more = EnvelopeSeen("103", "b", is_ours=False, conversation="100", marks=("⛔",))
    return (
        EnvelopeSeen("210", "a", is_ours=True),
        EnvelopeSeen("102", "b", is_ours=False, marks=("📥", "🆗")),
        replace(once_more, **changed),
    )


@pytest.mark.parametrize(
    "orderly", [_observation, _recovered, _cut_off, _family, _reported, _handed]
)
def test_an_orderly_run_passes(orderly: Callable[[], Observation]) -> None:
    assert judge(orderly()) == []


_MADE_UP: dict[str, list[Observation]] = {
    "one_turn_for_each_message": [
        _observation(said=(*_observation().said, Said("103", "m3", "100"))),
        _observation(turns=(_turn(1), _turn(2, messages=("102", "101")))),
        _observation(turns=(_turn(1), _turn(2, messages=("102", "999")))),
    ],
    "every_turn_ends": [_observation(turns=(_turn(1), _turn(2, state="answered")))],
    "one_prompt_for_each_attempt": [
        _observation(prompts=(_prompt(1), _prompt(2), _prompt(2, at=26.0, until=27.0))),
        _observation(prompts=(_prompt(1),)),
        _observation(prompts=(_prompt(1), _prompt(2, tags=("m1", "m2")))),
        _observation(prompts=(_prompt(1), _prompt(2), _prompt(9))),
    ],
    "no_overlap": [_observation(prompts=(_prompt(1), _prompt(2, at=13.0)))],
    "raw_is_what_agents_said": [
        _observation(turns=(_turn(1), _turn(2, raw="m2.1 m2.2 "))),
        _cut_off(turns=(_turn(1, outcome="interrupted", raw="m1.1 m1.9 "),)),
        _recovered(turns=(_turn(1, attempt=2, raw="m1.2 " + _RAW),)),
    ],
    "interrupted_only_by_death": [_cut_off(deaths=()), _cut_off(deaths=(3.0, 99.0))],
    "one_final_answer": [
        _observation(messages=(_message(1),)),
        _observation(messages=(_message(1), _message(2), _message(2))),
        _observation(messages=(_message(1), _message(2), _message(1))),
        _observation(messages=(_message(2), _message(1))),
        _observation(messages=(_message(1), _message(2, "m2.1 m2.3"))),
        _observation(messages=(_message(1), _message(2, f"{_CUT} " + _message(2).content))),
        _observation(messages=(_message(1), _message(2), _message(2, "m9.1"))),
        _observation(messages=(_message(1), _message(2), _message(2, "hello"))),
        _cut_off(messages=(_message(1, "m1.1 m1.2"),)),
        _cut_off(messages=()),
        _recovered(messages=(_message(1),)),
    ],
    "prompts_in_order": [
        _observation(prompts=(_prompt(1, at=30.0, until=31.0), _prompt(2))),
    ],
    "nothing_is_left": [
        _observation(messages=(*_observation().messages, _message(3, "-# ⏳ 3s · writing"))),
        _observation(messages=(*_observation().messages, _message(3, "-# x", has_buttons=True))),
        _observation(reactions={"101": ("🆗",), "102": ("🤔", "🆗")}),
        _observation(reactions={"101": ("🆗",), "102": ("😱",)}),
        _observation(reactions={"101": ("🆗",)}),
    ],
    "each_task_is_given_once": [
        _family(spawns=()),
        _family(spawns=(_spawn(), _spawn(id="s2"))),
        _family(spawns=(_spawn(parent_turn="t9"),)),
        _family(spawns=(_spawn(state="owed", turn=None),)),
        _family(spawns=(_spawn(state="opened"),)),
        _family(spawns=(_spawn(state="held"),)),
        _family(spawns=(_spawn(state="refused", turn=None),)),
    ],
    "each_sub_agent_is_started_once": [
        _family(messages=_shown_of_family(without=300)),
        _family(messages=_shown_of_family(MessageSeen("299", "50", "-# 🧵 helper is"))),
        _family(messages=_shown_of_family(MessageSeen("305", "300", "-# tag=m2; please"))),
        _family(threads={"101": "50"}),
        _family(threads={"101": "50", "300": "50", "299": "50"}),
        _family(sessions=()),
        _family(sessions=(_KEY, f"{_KEY}2")),
        _family(turns=(*_family().turns, _turn(4, conversation="300", source="spawn"))),
    ],
    "each_result_is_in_one_place": [
        _family(messages=_shown_of_family(MessageSeen("205", "101", "m2.1"))),
        _family(messages=_shown_of_family(MessageSeen("202", "50", "m2.1"))),
        _family(messages=_shown_of_family(without=302)),
        _reported(messages=_shown_of_family()),
        _reported(bindings=(_bound(),)),
    ],
    "each_parent_is_told_once": [
        _family(turns=_family().turns[:2]),
        _family(turns=(*_family().turns, replace(_family().turns[2], id="t4"))),
        _family(turns=(*_family().turns[:2], replace(_family().turns[2], key="completion:t9"))),
    ],
    "each_binding_comes_to_its_end": [
        _family(bindings=(_bound(state="ending"),)),
        _family(messages=_shown_of_family(without=304)),
        _family(bindings=(_bound(state="active", ended_at=0.0),)),
        _family(messages=_shown_of_family(MessageSeen("305", "300", "-# 👋 It is over."))),
    ],
    "each_handoff_is_sent_once": [
        _handed(handoffs=()),
        _handed(handoffs=(HandoffSeen("a", "out", "owed", "t1"),)),
        _handed(handoffs=(HandoffSeen("a", "out", "not_sent", "t1"),)),
        _handed(handoffs=(*_handed().handoffs, HandoffSeen("c", "out", "sent", "t1"))),
        _handed(envelopes=_wire()[1:]),
        _handed(envelopes=(*_wire(), EnvelopeSeen("211", "a", is_ours=True))),
        _handed(envelopes=(*_wire(), EnvelopeSeen("211", "c", is_ours=True))),
    ],
    "each_handoff_is_taken_once": [
        _handed(turns=_handed().turns[:1]),
        _handed(turns=(*_handed().turns, _turn(3, messages=("103",), source="handoff"))),
        _handed(envelopes=_wire(marks=("📥",))),
        _handed(envelopes=_wire(marks=())),
        _handed(envelopes=_wire(marks=("👀",))),
        _handed(envelopes=_wire(marks=("📥", "⛔"))),
    ],
    "no_mistake_in_the_log": [_observation(mistakes=("broker_failed",))],
}


@pytest.mark.parametrize("law", INVARIANTS, ids=lambda law: law.__name__)
def test_a_violation_is_found(law: Callable[[Observation], Any]) -> None:
    made_up = _MADE_UP[law.__name__]
    assert [list(law(seen)) for seen in made_up if not list(law(seen))] == []


def test_an_interrupted_turn_without_a_word_has_its_notice() -> None:
    turn = _turn(1, state="interrupted", outcome="interrupted", raw="")
    assert judge(_cut_off(turns=(turn,), messages=(_message(1, _CUT),))) == []
    assert judge(_cut_off(turns=(turn,), messages=()))


def test_an_end_that_the_dead_did_not_write_may_hold_less_than_was_said() -> None:
    given_up = _turn(1, state="failed", outcome="failed", raw="", attempt=2)
    shown = (_message(1, "⚠️ Given up after 2 attempts."),)
    faces = {"101": ("😱",)}
    seen = _cut_off(turns=(given_up,), prompts=(_prompt(1),), messages=shown, reactions=faces)
    assert judge(seen) == []
    assert judge(replace(seen, deaths=()))


def test_a_lasting_notice_is_not_left_over() -> None:
    notice = _message(3, "-# 🛑 Cancelled by ann before it started: the agent never saw it.")
    assert judge(_observation(messages=(*_observation().messages, notice))) == []


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        ("abXY", ["ab", "XY"]),
        ("XY", ["", "XY"]),
        ("abcdXY", ["abcd", "XY"]),
        ("abXYZ", None),
        ("abX", None),
        ("bXY", None),
    ],
)
def test_a_raw_text_is_taken_apart_by_attempts(raw: str, expected: list[str] | None) -> None:
    attempts = [_prompt(1, text="abcd", end=None), _prompt(1, text="XY")]
    assert pieces(_turn(1, raw=raw), attempts) == expected


def _line(event: str, message: object, at: float = 1.0, pid: int = 5) -> str:
    return json.dumps({"at": at, "pid": pid, "event": event, "message": message})


def _asked(text: str, request: int) -> dict[str, object]:
    prompt = [{"type": "text", "text": text}]
    params = {"sessionId": "s", "prompt": prompt}
    return {"id": request, "method": "session/prompt", "params": params}


def _chunk(text: str) -> dict[str, object]:
    update = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}}
    return {"method": "session/update", "params": {"sessionId": "s", "update": update}}


def test_prompts_are_read_from_an_agents_own_log() -> None:
    old = "Your own memory of this conversation was lost. x tag=m1; y End of the transcript."
    seen = prompts_in(
        [
            _line("start", []),
            _line("in", _asked(f"{old}\ntag=m2; please", 3), 2.0),
            _line("out", _chunk("m2.1 "), 3.0),
            _line("out", _chunk("m2.2"), 4.0),
            _line("out", {"id": 3, "result": {"stopReason": "end_turn"}}, 5.0),
            _line("out", _chunk("late"), 6.0),
            _line("in", _asked("tag=m3; please", 4), 7.0),
            _line("out", _chunk("m3.1"), 8.0),
            '{"at": 9, "pi',
        ]
    )
    assert [(one.tags, one.text, one.end, one.until) for one in seen] == [
        (("m2",), "m2.1 m2.2", "end_turn", 5.0),
        (("m3",), "m3.1", None, 8.0),
    ]


def test_a_result_is_known_by_the_thread_in_which_it_is_told() -> None:
    context = '{"channel_id":"5","thread_id":"101","message_id":"300"}'
    asked = _asked("", 3)
    told = [{"type": "text", "text": text} for text in (context, f"{RESULT} said m2.1]")]
    asked["params"] = {"sessionId": "s", "prompt": told}
    (seen,) = prompts_in([_line("in", asked), _line("out", _chunk("t101.1 "), 3.0)])
    assert (seen.tags, seen.text) == (("t101",), "t101.1 ")


def test_an_envelope_is_no_answer() -> None:
    event = "0b0d9c4e-7a35-4c6e-9d4f-3f0a5f0d3b11"
    seen = _observation(messages=(_message(1), MessageSeen("9", "100", _envelope(event, "7"))))
    assert seen.messages[1].event_id == event
    assert [one.message_id for one in seen.answers_in("100")] == ["201"]


def test_a_refusal_whose_mark_died_with_a_broker_is_told_by_its_line() -> None:
    line = MessageSeen("212", "100", "-# ⛔ Hand-off not accepted (`replay`)")
    seen = _handed(envelopes=_wire(marks=()), messages=(*_handed().messages, line))
    assert judge(seen) == []


def test_what_an_agent_is_reminded_of_is_nothing_that_it_is_asked() -> None:
    reminded = (
        "You were interrupted in the middle of this request: x\n\nYou had said: tag=m9; y\n\n"
        "Go on from where you were. Check."
    )
    (seen,) = prompts_in([_line("in", _asked(f"{reminded}\ntag=m2; please", 3))])
    assert seen.tags == ("m2",)
