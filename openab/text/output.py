"""What an agent's output asks of the broker in its head, and what of it people read, also while it grows."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from openab.domain.ids import PlatformId
from openab.text.directives import Directive, Header, is_head_open, output_header

_PARAGRAPH = "\n\n"
#: What is no longer a head is shown, however it begins.
_LONGEST_HEAD = 4000


@dataclass(frozen=True, slots=True)
class Intent:
    """What a complete output asks for."""

    #: The bot that is to be given work.
    target: PlatformId | None = None
    #: The work: the output byte for byte, without its head.
    payload: str = field(default="", repr=False)
    #: The sub-agent that is to be given a task.
    sub_agent: str = ""
    #: The task: the output without its head.
    task: str = field(default="", repr=False)
    #: The message that the answer replies to; not used by a hand-off.
    reply_to: PlatformId | None = None
    #: What asked for nothing that could be done.
    invalid: tuple[Directive, ...] = ()


def body_of(output: str) -> str:
    """An output as people read it: without its head."""
    return output_header(output).body


def intent_of(outputs: Sequence[str]) -> Intent:
    """What the outputs of a turn's attempts ask for together; the last value of each key counts.

    The work of a hand-off or a sub-agent is what was said from the output on that asked for it.
    """
    headers = [output_header(output) for output in outputs]
    valid: dict[str, str] = {}
    invalid: dict[str, Directive] = {}
    for header in headers:
        for line in header.invalid:
            valid.pop(line.key, None)
            invalid[line.key] = line
        for key, value in header.directives.items():
            invalid.pop(key, None)
            valid[key] = value
    target, reply_to = valid.get("handoff"), valid.get("reply_to")
    sub_agent = valid.get("spawn", "")
    return Intent(
        target=PlatformId(str(int(target))) if target else None,
        payload=_work(headers, "handoff") if target else "",
        sub_agent=sub_agent,
        task=_work(headers, "spawn") if sub_agent else "",
        reply_to=PlatformId(reply_to) if reply_to and not target else None,
        invalid=tuple(invalid.values()),
    )


def _work(headers: Sequence[Header], key: str) -> str:
    asking = [n for n, header in enumerate(headers) if key in header.directives]
    return _PARAGRAPH.join(header.body for header in headers[asking[-1] :] if header.body)


class HeadFilter:
    """Keeps the head of a growing output from being shown; it is none before the output is whole."""

    def __init__(self) -> None:
        self._held = ""
        self._lead = ""
        self._is_over = False

    def take(self, separator: str, text: str) -> str:
        """What may be shown now of the next piece; `separator` was put in front of it."""
        if self._is_over:
            return separator + text
        if self._held:
            self._held += separator + text
        else:
            self._lead, self._held = self._lead + separator, text
        if is_head_open(self._held) and len(self._held) <= _LONGEST_HEAD:
            return ""
        self._is_over = True
        return self._lead + body_of(self._held)
