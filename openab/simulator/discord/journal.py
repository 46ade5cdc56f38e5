"""Everything that went over the wire: each request with its answer, each gateway event."""

from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import TypeVar

from openab.simulator.discord.clock import Clock
from openab.simulator.discord.errors import Json
from openab.simulator.discord.signals import PATIENCE, Signal

#: Routes whose body may carry text that people see.
CONTENT_ROUTES = frozenset(
    {
        "create_message",
        "edit_message",
        "execute_webhook",
        "edit_webhook_message",
        "answer_interaction",
    }
)
#: Routes that spend a channel's budget of message writes.
WRITE_ROUTES = frozenset({"create_message", "edit_message"})

Found = TypeVar("Found")


def _always(_: object) -> bool:
    return True


@dataclass(eq=False)
class Request:
    """One REST request; `status` is None until it is answered, 0 when the connection was cut."""

    number: int
    at: float
    wall: datetime
    method: str
    path: str
    #: The path with its parameters' names, such as `/channels/{channel_id}/messages`.
    template: str
    #: The route's word, such as `create_message`.
    route: str
    connection: int
    bot_id: str | None = None
    channel_id: str | None = None
    query: dict[str, str] = field(default_factory=dict)
    body: Json | list[Json] | None = None
    status: int | None = None
    code: int | None = None
    answered_at: float | None = None
    #: Whether the world was changed by it (False for a nonce hit).
    committed: bool = False
    #: Whether an earlier message was returned for its nonce.
    nonce_hit: bool = False
    message_id: str | None = None
    #: The scripted fault that hit it.
    fault: str | None = None

    @property
    def fields(self) -> Json:
        """The body when it is an object, else an empty one."""
        return self.body if isinstance(self.body, dict) else {}


@dataclass(frozen=True)
class GatewayEvent:
    """One dispatch that a session got, or the opcode it was told."""

    at: float
    wall: datetime
    bot_id: str
    session_id: str
    name: str
    sequence: int | None
    data: Json


@dataclass(frozen=True)
class GatewayConnection:
    """One step in a bot's gateway life: `identify`, `resume`, `close` …"""

    at: float
    bot_id: str | None
    step: str
    detail: Json


class Journal:
    """Append-only record; `wait_for` wakes whenever anything is added or answered."""

    def __init__(self, clock: Clock, changed: Signal) -> None:
        self._clock = clock
        self._changed = changed
        self.requests: list[Request] = []
        self.events: list[GatewayEvent] = []
        self.connections: list[GatewayConnection] = []
        #: Mistakes of the double itself; leaving its block raises them.
        self.broken: list[Exception] = []

    def begin(
        self,
        *,
        method: str,
        path: str,
        template: str,
        route: str,
        connection: int,
        query: dict[str, str],
    ) -> Request:
        """A request has arrived."""
        request = Request(
            len(self.requests) + 1,
            self._clock.monotonic(),
            self._clock.wall(),
            method,
            path,
            template,
            route,
            connection,
            query=query,
        )
        self.requests.append(request)
        self._changed.notify()
        return request

    def touch(self) -> None:
        """An entry changed: wake the waiters."""
        self._changed.notify()

    def end(self, request: Request, *, status: int, code: int | None) -> None:
        """A request was answered, or its connection cut (0)."""
        request.status = status
        request.code = code
        request.answered_at = self._clock.monotonic()
        self._changed.notify()

    def sent(
        self, bot_id: str, session_id: str, name: str, sequence: int | None, payload: Json
    ) -> None:
        """A session was told something."""
        at, wall = self._clock.monotonic(), self._clock.wall()
        self.events.append(GatewayEvent(at, wall, bot_id, session_id, name, sequence, payload))
        self._changed.notify()

    def connected(self, bot_id: str | None, step: str, **detail: object) -> None:
        """A gateway connection took a step."""
        self.connections.append(
            GatewayConnection(self._clock.monotonic(), bot_id, step, dict(detail))
        )
        self._changed.notify()

    def select(
        self,
        route: str | None = None,
        *,
        bot_id: str | None = None,
        channel_id: str | None = None,
        where: Callable[[Request], bool] = _always,
    ) -> list[Request]:
        """The requests that fit, in order of arrival."""
        return list(self._fitting(route, bot_id, channel_id, where))

    def _fitting(
        self,
        route: str | None,
        bot_id: str | None,
        channel_id: str | None,
        where: Callable[[Request], bool],
    ) -> Iterator[Request]:
        for request in self.requests:
            is_route = route in {None, request.route} and bot_id in {None, request.bot_id}
            if is_route and channel_id in {None, request.channel_id} and where(request):
                yield request

    def content_bodies(self, bot_id: str | None = None) -> list[tuple[Request, Json]]:
        """Every body that carries shown text, whichever way: create, edit, webhook, interaction."""
        bodies = [
            (one, one.fields.get("data") or {} if one.route == "answer_interaction" else one.fields)
            for one in self.select(bot_id=bot_id, where=lambda one: one.route in CONTENT_ROUTES)
        ]
        return [(one, body) for one, body in bodies if body.get("content")]

    def busiest(self, channel_id: str, seconds: float = 5.0, bot_id: str | None = None) -> int:
        """The most message creates and edits in a channel that began within any such span."""
        writes = self.select(
            bot_id=bot_id, channel_id=channel_id, where=lambda one: one.route in WRITE_ROUTES
        )
        starts = [one.at for one in writes]
        return max(
            (sum(start <= at < start + seconds for at in starts) for start in starts), default=0
        )

    def steps(self, step: str, *, bot_id: str | None = None) -> list[GatewayConnection]:
        """The gateway steps with this word."""
        return [
            one for one in self.connections if one.step == step and bot_id in {None, one.bot_id}
        ]

    def wait_for(
        self, predicate: Callable[["Journal"], Found | None], timeout: float = PATIENCE
    ) -> Awaitable[Found]:
        """Wait until `predicate(journal)` is truthy and return it; TimeoutError after `timeout`."""
        return self._changed.until(lambda: predicate(self), within=timeout, picture=self.tail)

    def wait_request(
        self, predicate: Callable[[Request], bool], timeout: float = PATIENCE
    ) -> Awaitable[Request]:
        """Wait for the first request, past or coming, that fits."""
        return self.wait_for(
            lambda journal: next(filter(predicate, journal.requests), None), timeout
        )

    def tail(self) -> str:
        """The last lines, for a failing test's message."""
        lines = [
            f"{one.method} {one.path} -> {one.status} {one.code or ''}"
            for one in self.requests[-12:]
        ]
        return " | ".join(lines) or "no request"
