"""What is seen of a run from outside: what people said and see, the agents' own log, the rows of turns."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

#: Every message that people say in the laboratory carries one, so that it is known wherever it comes up.
TAG = re.compile(r"\btag=(m\d+);")
#: What agents say there is made of these: the tag of what asked, and a running number. What a sub-agent's
#: result asks is tagged by the thread in which it is told.
WORD = re.compile(r"\b([mt]\d+)\.(\d+)\b")
#: How the message begins that tells a session of a sub-agent's result.
RESULT = "[openab: your sub-agent"
_THREAD = re.compile(r'"thread_id":"(\d+)"')
_ENVELOPE = re.compile(
    r'<@\d+>\n\{"schema":"openab\.multibot\.handoff\.v1".*?"event_id":"([0-9a-f-]+)"'
)
#: What an agent is reminded of, and what it said before it was lost.
_REMINDED = re.compile(
    r"Your own memory of this conversation was lost\..*?End of the transcript\."
    r"|You were interrupted in the middle of this request.*?Go on from where you were\.",
    re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class Said:
    """A message of a person that the bot has to answer."""

    message_id: str
    tag: str
    #: The thread in which it is answered.
    conversation: str


@dataclass(frozen=True, slots=True)
class PromptSeen:
    """One `session/prompt` by the agent's own log."""

    session: str
    pid: int
    at: float
    #: When the agent answered it, or was last seen to write anything while it ran.
    until: float
    tags: tuple[str, ...]
    #: The text that was sent in answer, joined.
    text: str
    #: The stop reason, `error`, or None: it was never answered.
    end: str | None


@dataclass(frozen=True, slots=True)
class TurnSeen:
    """A turn's row."""

    id: str
    conversation: str
    order: tuple[int, int]
    state: str
    outcome: str | None
    attempt: int
    raw: str
    messages: tuple[str, ...]
    tags: tuple[str, ...]
    trigger: str
    started_at: float = 0.0
    answered_at: float = 0.0
    #: What made it, and the key that makes it single.
    source: str = "message"
    key: str = ""


@dataclass(frozen=True, slots=True)
class SpawnSeen:
    """A spawn's row."""

    id: str
    state: str
    #: Where it was asked for.
    parent: str
    parent_turn: str | None
    #: The message that its thread hangs on, "" if none is known; the thread's id, too.
    starter: str
    turn: str | None
    session: str | None


@dataclass(frozen=True, slots=True)
class BindingSeen:
    """A binding's row."""

    session: str
    place: str
    state: str
    #: 0: it is active.
    ended_at: float = 0.0


@dataclass(frozen=True, slots=True)
class HandoffSeen:
    """A hand-off's row."""

    event_id: str
    direction: str
    state: str
    turn: str | None


@dataclass(frozen=True, slots=True)
class EnvelopeSeen:
    """A hand-off's message that stands in a conversation at the end."""

    message_id: str
    event_id: str
    is_ours: bool
    conversation: str = ""
    #: Our bot's reactions.
    marks: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class MessageSeen:
    """A message of the bot, under whatever name, that stands in a conversation at the end."""

    message_id: str
    conversation: str
    content: str
    has_buttons: bool = False

    @property
    def is_presentation(self) -> bool:
        """Whether it is no answer."""
        return self.content.startswith("-# ")

    @property
    def event_id(self) -> str:
        """The event of the hand-off that it carries; "" for every other message."""
        found = _ENVELOPE.match(self.content)
        return found[1] if found else ""


@dataclass(frozen=True, slots=True)
class Observation:
    """Everything that is judged."""

    said: Sequence[Said] = ()
    turns: Sequence[TurnSeen] = ()
    prompts: Sequence[PromptSeen] = ()
    #: In the order of the network.
    messages: Sequence[MessageSeen] = ()
    #: Message id → the bot's emoji on it.
    reactions: Mapping[str, Sequence[str]] = field(default_factory=dict)
    #: When brokers were killed, by the wall clock.
    deaths: Sequence[float] = ()
    #: Log lines that only a mistake in the code brings about.
    mistakes: Sequence[str] = ()
    #: Thread → the channel above.
    threads: Mapping[str, str] = field(default_factory=dict)
    spawns: Sequence[SpawnSeen] = ()
    bindings: Sequence[BindingSeen] = ()
    #: The keys of the sessions of named agents.
    sessions: Sequence[str] = ()
    handoffs: Sequence[HandoffSeen] = ()
    envelopes: Sequence[EnvelopeSeen] = ()

    def prompts_of(self, turn: TurnSeen) -> list[PromptSeen]:
        """The prompts that carry the turn's messages, in order."""
        mine = [prompt for prompt in self.prompts if set(prompt.tags) & set(turn.tags)]
        return sorted(mine, key=lambda prompt: prompt.at)

    def pieces_of(self, turn: TurnSeen) -> list[str] | None:
        """See `pieces`."""
        return pieces(turn, self.prompts_of(turn), self.deaths)

    def turns_in(self, conversation: str) -> list[TurnSeen]:
        """The turns of a conversation, in the order that they must be answered in."""
        here = [turn for turn in self.turns if turn.conversation == conversation]
        return sorted(here, key=lambda turn: turn.order)

    def home_of(self, turn: TurnSeen) -> str:
        """Where its answer belongs: its own conversation, or where a task was asked for if its own was given up."""
        spawn = next((one for one in self.spawns if one.turn == turn.id), None)
        if turn.source != "spawn" or spawn is None:
            return turn.conversation
        is_bound = any(
            one.session == spawn.session
            and one.place == turn.conversation
            and (not one.ended_at or one.ended_at > turn.answered_at)
            for one in self.bindings
        )
        return turn.conversation if is_bound else spawn.parent

    def answers_in(self, conversation: str) -> list[MessageSeen]:
        """The bot's messages there that are answers, in the network's order."""
        return [
            one
            for one in self.messages
            if one.conversation == conversation and not one.is_presentation and not one.event_id
        ]


def prompts_in(lines: Iterable[str]) -> list[PromptSeen]:
    """What an agent's log (of one or several processes) tells of prompts."""
    open_: dict[int, dict[str, Any]] = {}
    found: list[dict[str, Any]] = []
    for line in lines:
        if not line.endswith("}"):
            # The last line of a process that died while it wrote.
            continue
        entry = json.loads(line)
        pid, event, message = entry["pid"], entry["event"], entry["message"]
        if event == "start":
            open_.pop(pid, None)
        elif event == "in" and message.get("method") == "session/prompt":
            open_[pid] = _begun(entry)
            found.append(open_[pid])
        elif event == "out" and pid in open_:
            _note(open_[pid], entry)
    return [_seen(one) for one in found]


def _begun(entry: Mapping[str, Any]) -> dict[str, Any]:
    message = entry["message"]
    blocks = [str(block.get("text", "")) for block in message["params"]["prompt"]]
    asked = _REMINDED.sub("", "\n".join(blocks))
    return {
        "session": message["params"]["sessionId"],
        "pid": entry["pid"],
        "at": entry["at"],
        "until": entry["at"],
        "tags": _tags_of(asked, blocks),
        "text": [],
        "end": None,
        "request": message["id"],
    }


def _tags_of(asked: str, blocks: Sequence[str]) -> tuple[str, ...]:
    if blocks and blocks[-1].startswith(RESULT):
        return (f"t{_THREAD.findall(asked)[-1]}",)
    return tuple(dict.fromkeys(TAG.findall(asked)))


def _note(prompt: dict[str, Any], entry: Mapping[str, Any]) -> None:
    if prompt["end"] is not None:
        return
    message = entry["message"]
    prompt["until"] = entry["at"]
    update = message.get("params", {}).get("update", {})
    if update.get("sessionUpdate") == "agent_message_chunk":
        prompt["text"].append(update["content"]["text"])
    elif message.get("id") == prompt["request"]:
        prompt["end"] = message.get("result", {}).get("stopReason", "error")


def _seen(one: Mapping[str, Any]) -> PromptSeen:
    return PromptSeen(
        session=one["session"],
        pid=one["pid"],
        at=one["at"],
        until=one["until"],
        tags=one["tags"],
        text="".join(one["text"]),
        end=one["end"],
    )


def turn_of(row: Mapping[str, Any]) -> TurnSeen:
    """A row of `turns`, joined with its conversation's id on the network (`place`)."""
    batch, source = json.loads(row["batch"]), row["source"]
    # What a sub-agent is asked, and what its parent is told, is nobody's message.
    messages = () if source in {"spawn", "completion"} else batch
    tags = tuple(tag for one in batch for tag in TAG.findall(one["text"]))
    return TurnSeen(
        id=row["id"],
        conversation=row["place"],
        order=(row["order_key"], row["seq"]),
        state=row["state"],
        outcome=row["outcome"],
        attempt=row["attempt"],
        raw=bytes(row["raw"] or b"").decode("utf-8", "surrogatepass"),
        messages=tuple(str(one["record"]["message_id"]) for one in messages),
        tags=(f"t{row['place']}",) if source == "completion" else tags,
        trigger=row["trigger_message_id"],
        started_at=(row["started_at"] or 0) / 1e6,
        answered_at=(row["answered_at"] or 0) / 1e6,
        source=source,
        key=row["idempotency_key"],
    )


def pieces(
    turn: TurnSeen, prompts: Sequence[PromptSeen], deaths: Sequence[float] = ()
) -> list[str] | None:
    """The turn's raw text as what came of each of its prompts; None: it cannot be made of them.

    Of each prompt but the last, any beginning of what its agent said; of the last one the whole, where
    it was followed to its end, else any beginning, too.
    """
    last = prompts[-1] if prompts else None
    # Not since the prompt: an agent may read one only after the death of whoever wrote it.
    is_cut = any(turn.started_at <= death <= turn.answered_at for death in deaths)
    is_whole = turn.outcome == "completed" or (last and last.end is not None and not is_cut)
    return next(_cut(turn.raw, [prompt.text for prompt in prompts], is_whole=bool(is_whole)), None)


def _cut(raw: str, texts: Sequence[str], *, is_whole: bool) -> Iterator[list[str]]:
    if not texts:
        if not raw:
            yield []
        return
    first, rest = texts[0], texts[1:]
    longest = _common(raw, first)
    lengths = range(longest, -1, -1)
    if not rest:
        lengths = range(len(raw), len(raw) + 1)
        if longest < len(raw) or (is_whole and len(raw) < len(first)):
            return
    for length in lengths:
        for further in _cut(raw[length:], rest, is_whole=is_whole):
            yield [raw[:length], *further]


def _common(left: str, right: str) -> int:
    """How long the two begin alike."""
    for n, (one, other) in enumerate(zip(left, right, strict=False)):
        if one != other:
            return n
    return min(len(left), len(right))
