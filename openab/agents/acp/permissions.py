"""The permission questions of one turn: asked in wire order, each settled exactly once."""

import asyncio
from collections.abc import Callable

from openab.agents.acp.translate import choose, options_of, tool_of
from openab.agents.acp.wire import Json
from openab.domain.agent_events import (
    AgentEvent,
    PermissionAsked,
    PermissionOption,
    PermissionSettled,
    ToolChanged,
)
from openab.domain.errors import Rejected

CANCELLED: Json = {"outcome": {"outcome": "cancelled"}}
#: What OpenAB answers an agent that offers no options at all.
_ASSUMED = PermissionOption("allow_always", "allow_always", None)


class NoSuchOption(Rejected):
    """The answer names an option that the agent did not offer."""


def selected(option_id: str) -> Json:
    """The answer that chooses an option."""
    return {"outcome": {"outcome": "selected", "optionId": option_id}}


class Questions:
    """Settles by kind at once, or (`asks_people`) waits for `answer`."""

    def __init__(self, prefix: str, record: Callable[[AgentEvent], None], *, asks_people: bool):
        self._prefix, self._record, self._asks_people = prefix, record, asks_people
        self._count = 0
        self._closed = False
        self._pending: dict[str, tuple[PermissionAsked, asyncio.Future[Json]]] = {}

    def ask(self, params: Json) -> asyncio.Future[Json]:
        """Record a question; the future has the agent's answer."""
        self._count += 1
        tool = tool_of(params.get("toolCall")) or ToolChanged(f"permission-{self._count}")
        options = options_of(params.get("options"))
        asked = PermissionAsked(f"{self._prefix}-{self._count}", tool, options)
        answer: asyncio.Future[Json] = asyncio.get_running_loop().create_future()
        self._record(asked)
        self._pending[asked.request_id] = (asked, answer)
        if self._closed:
            self._settle(asked.request_id, None)
        elif not self._asks_people:
            chosen = choose(options) if "options" in params else _ASSUMED
            self._settle(asked.request_id, chosen)
        return answer

    def answer(self, request_id: str, option_id: str | None) -> bool:
        """Settle a question; False if it was settled before; NoSuchOption leaves it open."""
        if request_id not in self._pending:
            return False
        offered = {option.option_id: option for option in self._pending[request_id][0].options}
        if option_id is not None and option_id not in offered:
            raise NoSuchOption(f"the agent offered no option {option_id!r}")
        self._settle(request_id, offered[option_id] if option_id is not None else None)
        return True

    def close(self) -> None:
        """Cancel every open question, and from now on each new one at once."""
        self._closed = True
        for request_id in tuple(self._pending):
            self._settle(request_id, None)

    def _settle(self, request_id: str, chosen: PermissionOption | None) -> None:
        _, answer = self._pending.pop(request_id)
        if not answer.done():
            answer.set_result(selected(chosen.option_id) if chosen else CANCELLED)
        self._record(
            PermissionSettled(
                request_id, chosen.option_id if chosen else None, chosen.kind if chosen else None
            )
        )
