"""Scripted faults: which requests and gateway events go wrong, how, and how often."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Literal

from openab.simulator.discord.errors import Json
from openab.simulator.discord.fault_kinds import RestFault
from openab.simulator.discord.journal import Request
from openab.simulator.discord.signals import PATIENCE, Signal

__all__ = ["Delivery", "DeliveryRule", "FaultHandle", "Faults", "RestFault"]

Delivery = Literal["never", "twice", "late"]


def _always(_: object) -> bool:
    return True


class FaultHandle:
    """One rule that was added: counts its hits, can be waited for, released and removed."""

    def __init__(self, fault: RestFault, times: int, changed: Signal) -> None:
        self.fault = fault
        self.hits = 0
        #: The requests it hit.
        self.requests: list[Request] = []
        self._left = times
        self._released = asyncio.Event()
        self._changed = changed

    @property
    def is_spent(self) -> bool:
        """Whether it hits no more."""
        return self._left == 0

    def hit(self, request: Request) -> None:
        """Count one request; a negative `times` never runs out."""
        self._left -= 1 if self._left > 0 else 0
        self.hits += 1
        self.requests.append(request)
        self._changed.notify()

    def remove(self) -> None:
        """Hit nothing more."""
        self._left = 0

    def release(self) -> None:
        """End the waits of hanging requests at once."""
        self._released.set()

    async def pause(self, seconds: float) -> None:
        """Wait that long, or until released."""
        if seconds <= 0:
            return
        try:
            async with asyncio.timeout(seconds):
                await self._released.wait()
        except TimeoutError:
            return

    def wait_hits(self, hits: int = 1, timeout: float = PATIENCE) -> Awaitable[bool]:
        """Wait until it has hit so often."""
        return self._changed.until(
            lambda: self.hits >= hits, within=timeout, picture=lambda: f"{self.hits} hits"
        )


@dataclass(eq=False)
class _RestRule:
    handle: FaultHandle
    bot_id: str | None
    method: str | None
    routes: frozenset[str]
    when: Callable[[Request], bool]
    skip: int

    def fits(self, request: Request) -> bool:
        return (
            not self.handle.is_spent
            and self.bot_id in {None, request.bot_id}
            and self.method in {None, request.method}
            and (not self.routes or request.route in self.routes)
            and self.when(request)
        )


@dataclass(eq=False)
class DeliveryRule:
    """How the gateway mistreats some events: not delivered, delivered twice, or after the next one."""

    how: Delivery
    bot_id: str | None
    event: str | None
    when: Callable[[Json], bool]
    left: int
    hits: int = 0

    def takes(self, bot_id: str, name: str, payload: Json) -> bool:
        """Whether it hits this event; counts it."""
        fits = self.bot_id in {None, bot_id} and self.event in {None, name}
        if self.left == 0 or not fits or not self.when(payload):
            return False
        self.left -= 1 if self.left > 0 else 0
        self.hits += 1
        return True


class Faults:
    """The rules in force; the first that fits a request hits it."""

    def __init__(self, changed: Signal) -> None:
        self._changed = changed
        self._rest: list[_RestRule] = []
        self._deliveries: list[DeliveryRule] = []
        self._refused_connections: list[int] = []
        self._identify_closes: list[tuple[str | None, int]] = []
        #: Bots whose heartbeats are not acknowledged.
        self.unacknowledged: set[str] = set()

    def add(
        self,
        fault: RestFault,
        *,
        bot_id: str | None = None,
        method: str | None = None,
        route: str | Iterable[str] = (),
        when: Callable[[Request], bool] = _always,
        times: int = 1,
        skip: int = 0,
    ) -> FaultHandle:
        """Hit the next `times` fitting requests (-1: all) after letting `skip` of them pass.

        `route` is a route's word (or several), `when` sees the request with its body.
        """
        handle = FaultHandle(fault, times, self._changed)
        routes = frozenset([route]) if isinstance(route, str) else frozenset(route)
        self._rest.append(_RestRule(handle, bot_id, method, routes, when, skip))
        return handle

    def match(self, request: Request) -> FaultHandle | None:
        """The rule that hits this request, counted; None: it goes well."""
        for rule in self._rest:
            if not rule.fits(request):
                continue
            if rule.skip > 0:
                rule.skip -= 1
                continue
            rule.handle.hit(request)
            request.fault = rule.handle.fault.name
            return rule.handle
        return None

    def clear(self) -> None:
        """End every rule and release what hangs."""
        for rule in self._rest:
            rule.handle.remove()
            rule.handle.release()
        self._rest.clear()
        self._deliveries.clear()
        self._refused_connections.clear()
        self._identify_closes.clear()
        self.unacknowledged.clear()

    def deliver(
        self,
        how: Delivery,
        *,
        bot_id: str | None = None,
        event: str | None = None,
        when: Callable[[Json], bool] = _always,
        times: int = 1,
    ) -> DeliveryRule:
        """Mistreat the next `times` fitting gateway events; REST history stays right."""
        rule = DeliveryRule(how, bot_id, event, when, times)
        self._deliveries.append(rule)
        return rule

    def delivery(self, bot_id: str, name: str, payload: Json) -> Delivery | None:
        """What happens to this event; None: delivered once."""
        rules = (one for one in self._deliveries if one.takes(bot_id, name, payload))
        return next((rule.how for rule in rules), None)

    def refuse_connections(self, times: int = 1, status: int = 503) -> None:
        """Answer the next gateway connections with this HTTP status; 0 cuts them."""
        self._refused_connections += [status] * times

    def take_refused_connection(self) -> int | None:
        """The status for this connection, if it is refused."""
        return self._refused_connections.pop(0) if self._refused_connections else None

    def close_on_identify(self, code: int, *, bot_id: str | None = None, times: int = 1) -> None:
        """Close the next connections that identify with this code."""
        self._identify_closes += [(bot_id, code)] * times

    def take_identify_close(self, bot_id: str) -> int | None:
        """The close code for this IDENTIFY, if it is to be closed."""
        for rule in self._identify_closes:
            if rule[0] in {None, bot_id}:
                self._identify_closes.remove(rule)
                return rule[1]
        return None
