"""Every metric of the process, each declared once, in a registry of its own."""

import asyncio

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    generate_latest,
)

#: What `render` gives, for the HTTP header.
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

_TURN_SECONDS = (1, 3, 10, 30, 60, 120, 300, 600, 1800, 3600, 7200)
_LAG_SECONDS = (0.001, 0.005, 0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5)


class Metrics:
    """One process's numbers; each attribute is a metric. Labels are words from short lists, never ids."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        ProcessCollector(namespace="openab", registry=self._registry)
        self._declare_turns()
        self._declare_deliveries()
        self._declare_intake()
        self._declare_handoffs()
        self._declare_bindings()
        self._declare_gateway()
        self._declare_machine()

    def render(self) -> bytes:
        """All metrics in Prometheus' text form."""
        return generate_latest(self._registry)

    def _declare_turns(self) -> None:
        self.turns_started = self._counter("turns_started", "Turns handed to an agent")
        self.turns_ended = self._counter("turns_ended", "Turns that have an outcome", "outcome")
        self.turn_seconds = self._histogram("turn_seconds", "From claim to outcome", _TURN_SECONDS)
        about = "Running turns whose agent was gone, by what was decided and why"
        self.recoveries = self._counter("recoveries", about, "verdict", "reason")
        self.open_turns = self._gauge("open_turns", "Turns without an outcome", "state")
        self.leases_held = self._gauge("leases_held", "Conversations this process may act for")
        self.leases_lost = self._counter("leases_lost", "Leases that another process took")

    def _declare_deliveries(self) -> None:
        about = "Deliveries by what they were and how they ended"
        self.deliveries = self._counter("deliveries", about, "kind", "result")
        about = "Sends of which nobody knows whether they happened"
        self.deliveries_unknown = self._counter("deliveries_unknown", about, "kind")
        self.edits = self._counter("edits", "Live edits by how they ended", "outcome")

    def _declare_intake(self) -> None:
        about = "Channel events by what became of them"
        self.inbox_events = self._counter("inbox_events", about, "disposition", "reason")
        about = "Readings of what was said while nobody listened, by how they ended"
        self.backfills = self._counter("backfills", about, "result")
        self.backfill_running = self._gauge("backfill_running", "1 while history is being read")

    def _declare_handoffs(self) -> None:
        about = "Hand-offs by direction (in, out) and by what became of them: accepted, sent, or the reason word"
        self.handoffs = self._counter("handoffs", about, "direction", "reason")

    def _declare_bindings(self) -> None:
        about = "Conversations that talk to another session than their own, or are to be told of its end"
        self.bindings = self._gauge("bindings", about, "state")
        about = "Completions by whether a bound conversation was found for them (bound, fallback) and why"
        self.deliveries_routed = self._counter("deliveries_routed", about, "mode", "reason")

    def _declare_gateway(self) -> None:
        self.gateway_ready = self._gauge("gateway_ready", "1 while the gateway session is usable")
        self.identifies = self._counter("identifies", "IDENTIFYs, of which a day has 1000")
        about = "Requests that count towards the ban of this address"
        self.invalid_requests = self._counter("invalid_requests", about, "status")

    def _declare_machine(self) -> None:
        about = "This clock minus the database's or Discord's"
        self.clock_skew = self._gauge("clock_skew_seconds", about, "against")
        self.agent_processes = self._gauge("agent_processes", "Agent processes that run")
        self.agent_places = self._gauge("agent_places", "Agents that may live at once")
        about = "Turns that wait because every agent is busy elsewhere"
        self.turns_in_line = self._gauge("turns_in_line", about)
        about = "Agents ended to make room (full), after their time (idle) or by force (hung)"
        self.agents_evicted = self._counter("agents_evicted", about, "reason")
        self.database_errors = self._counter("database_errors", "Failed transactions", "kind")
        self.commits = self._counter("commits", "Committed transactions")
        about = "Finished rows that retention deleted"
        self.rows_deleted = self._counter("rows_deleted", about, "table")
        about = "Rows of each table; on Postgres what its last ANALYZE estimated"
        self.table_rows = self._gauge("table_rows", about, "table")
        self.database_bytes = self._gauge("database_bytes", "What the database takes on disk")
        self.database_well = self._gauge("database_well", "1 while the database does what is asked")
        about = "How late the event loop woke a sleeper"
        self.loop_lag = self._histogram("event_loop_lag_seconds", about, _LAG_SECONDS)

    def _counter(self, name: str, about: str, *labels: str) -> Counter:
        return Counter(name, about, labels, namespace="openab", registry=self._registry)

    def _gauge(self, name: str, about: str, *labels: str) -> Gauge:
        return Gauge(name, about, labels, namespace="openab", registry=self._registry)

    def _histogram(self, name: str, about: str, buckets: tuple[float, ...]) -> Histogram:
        return Histogram(name, about, namespace="openab", registry=self._registry, buckets=buckets)


async def measure_loop_lag(metrics: Metrics, interval: float = 1.0) -> None:
    """Record the event loop's lag every `interval` seconds, until cancelled."""
    clock = asyncio.get_running_loop().time
    while True:
        due = clock() + interval
        await asyncio.sleep(interval)
        metrics.loop_lag.observe(max(0.0, clock() - due))
