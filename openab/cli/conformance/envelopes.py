"""Hand-offs as the tester writes them: a right one, which rules then spoil in one place."""

import json
import secrets
import uuid
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, field, replace
from typing import Any

from openab.cli.conformance.echo_agent import digest

SCHEMA = "openab.multibot.handoff.v1"
_LIFE_SECONDS = 300


@dataclass(frozen=True, slots=True)
class Setting:
    """Between whom, where and when; `now` in Unix seconds."""

    tester: str
    target: str
    #: The thread in which it is said, and the channel that it belongs to.
    thread: str
    parent: str
    now: int


def _as_it_is(written: str) -> str:
    return written


@dataclass(slots=True)
class Draft:
    """A message in the making; faults change its parts."""

    probe: str
    first_line: str
    document: dict[str, Any]
    #: The last touch, on the JSON as text.
    rewrite: Callable[[str], str] = field(default=_as_it_is)

    @property
    def content(self) -> str:
        """The message."""
        return f"{self.first_line}\n{self.rewrite(_written(self.document))}"

    @property
    def event_id(self) -> str:
        """The event that it is."""
        return str(self.document["event_id"])

    @property
    def digest(self) -> str:
        """What the echo agent tells of the payload, if it gets that byte for byte."""
        return digest(self.document["payload"]["text"])

    def changed(self, **values: Any) -> "Draft":
        """The same with other values in its document."""
        return replace(self, document={**deepcopy(self.document), **values})


def new_probe() -> str:
    """A word that stands in one message only, and that the echo agent repeats."""
    return f"probe-{secrets.token_hex(6)}"


def envelope(setting: Setting, *, tail: str = "", life: int = _LIFE_SECONDS) -> Draft:
    """A right hand-off whose text is a probe and `tail`."""
    probe = new_probe()
    document = {
        "schema": SCHEMA,
        "source_bot_id": setting.tester,
        "target_bot_id": setting.target,
        "event_id": str(uuid.uuid4()),
        "origin_channel_id": setting.thread,
        "origin_thread_id": setting.thread,
        "origin_message_id": None,
        "expires_at": setting.now + life,
        "hop_count": 0,
        "payload": {"text": probe + tail},
    }
    return Draft(probe, f"<@{setting.target}>", document)


def _written(document: dict[str, Any]) -> str:
    """One line of ASCII in which no mention is alive."""
    line = json.dumps(document, separators=(",", ":"))
    return line.replace("<", "\\u003c").replace("@", "\\u0040")
