"""One event is one line that no value can leave."""

import json

from hypothesis import given
from hypothesis import strategies as st

from openab.observability import lines

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text() | st.binary(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)
fields = st.dictionaries(st.text(max_size=8), values, max_size=4)


@given(fields, st.text())
def test_json_is_one_printable_line(given_fields: dict[str, object], event: str) -> None:
    line = lines.as_json(given_fields | {"event": event})
    assert line.isascii()
    assert line.isprintable()
    assert json.loads(line)["event"] == event


@given(fields, st.text())
def test_text_is_one_printable_line(given_fields: dict[str, object], event: str) -> None:
    blocks = ("exception", "stack")
    shown = {n: v for n, v in given_fields.items() if n not in blocks}
    assert lines.as_text(shown | {"event": event}).isprintable()


@given(st.text(), st.text())
def test_lines_of_a_traceback_cannot_pose_as_events(event: str, exception: str) -> None:
    _, *below = lines.as_text({"event": event, "exception": exception}).split("\n")
    assert all(line.startswith("  | ") and line.isprintable() for line in below)


def test_a_message_cannot_forge_a_field_or_a_line() -> None:
    forged = "hello turn_id=7\n12:00:00 error all_lost\x1b[2J\u202e"
    line = lines.as_text({"event": "heard", "level": "info", "said": forged, "turn_id": 1})
    assert line == (
        "--:--:-- info     heard "
        r'said="hello turn_id=7\n12:00:00 error all_lost\u001b[2J\u202e" turn_id=1'
    )


def test_the_text_form_tells_time_level_event_and_fields() -> None:
    shown = lines.as_text(
        {"timestamp": "2026-01-02T03:04:05Z", "level": "warning", "event": "late", "by": 1.5}
    )
    assert shown[8:] == " warning  late by=1.5"
    assert "\x1b[33mwarning" in lines.as_text({"level": "warning", "event": "late"}, colour=True)


def test_endless_values_are_cut() -> None:
    assert len(lines.as_json({"event": "e", "said": "x" * 100_000})) < 20_000
