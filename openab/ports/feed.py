"""The turn feed: control tells what happens in a turn, and somebody may show it.

The two planes meet only here. A feed decides nothing: if every method did nothing, every turn
would still be answered. None of the methods raises and none of them waits for the network, but
`close`, which ends the showing and waits at most its deadline for the call in flight.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from openab.domain.agent_events import AgentEvent
from openab.domain.ids import ConversationRef, MessageRef, PlatformId, TurnId
from openab.text.tools import ToolCall


class Phase(StrEnum):
    """What a turn is doing, as far as people are told."""

    QUEUED = "queued"
    STARTING = "starting"
    WORKING = "working"
    WAITING_PERMISSION = "waiting_permission"
    #: The answer is there; the agent is asked for a shorter hand-off.
    SHORTENING = "shortening"
    CANCELLING = "cancelling"
    RECOVERING = "recovering"
    WAITING_DISCORD = "waiting_discord"
    UNREACHABLE = "unreachable"


def _unheard() -> None:
    """Nobody wants to know."""


@dataclass(frozen=True, slots=True)
class TurnOpening:
    """What a feed knows of a turn from its start."""

    turn: TurnId
    conversation: ConversationRef
    #: The message or interaction that asked; reactions go there.
    trigger: MessageRef
    agent_name: str
    #: stream | heartbeat | final: how much of it is shown.
    mode: str = "stream"
    #: Seconds the turn has run already (a recovered one).
    elapsed_seconds: float = 0.0
    #: Told when the placeholder cannot be edited any more (gone, too old, refused); never waits.
    on_lost: Callable[[], None] = _unheard
    #: Of a turn that goes on after its agent was lost: what people were told before, and its calls.
    said: str = ""
    tools: tuple[ToolCall, ...] = ()


@dataclass(frozen=True, slots=True)
class Shown:
    """What the feed left behind: enough to decide how the final is delivered."""

    #: An edit of the placeholder ended with an unknown outcome, so a late one may still land.
    edit_unknown: bool = False
    #: The placeholder cannot be edited any more (gone, too old, refused), or nothing shows that another one can.
    placeholder_lost: bool = False


class TurnFeed(Protocol):
    """One running turn's watcher."""

    def event(self, event: AgentEvent) -> None:
        """Something was reported by the agent."""
        ...

    def phase(self, phase: Phase, detail: str = "") -> None:
        """The turn is in this phase now."""
        ...

    def sub_agents(self, names: tuple[str, ...]) -> None:
        """These sub-agents work for the turn's session now, apart from the turn itself."""
        ...

    def placeholder(self, message_id: PlatformId) -> None:
        """The placeholder (another one after a replacement) is on the network with this id."""
        ...

    async def close(self, seconds: float) -> Shown:
        """Stop showing; waits up to `seconds` for the call in flight. Twice answers the same."""
        ...


class FeedSource(Protocol):
    """Opens feeds; the presentation plane behind it, or nothing."""

    def open(self, opening: TurnOpening) -> TurnFeed:
        """Begin to show a turn."""
        ...
