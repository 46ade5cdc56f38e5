"""What the control plane reports, as the metrics count it."""

from openab.control.pool import PoolCounters
from openab.control.services import Counters
from openab.control.settings import PoolSettings
from openab.observability.metrics import Metrics


def counters(metrics: Metrics) -> Counters:
    """Where the control plane reports turns, deliveries, edits, events and what retention deletes."""

    def turn_ended(outcome: str, seconds: float) -> None:
        metrics.turns_ended.labels(outcome).inc()
        metrics.turn_seconds.observe(seconds)

    def delivery(kind: str, result: str) -> None:
        metrics.deliveries.labels(kind, result).inc()
        if result == "unknown":
            metrics.deliveries_unknown.labels(kind).inc()

    def backfill(result: str) -> None:
        metrics.backfill_running.set(result == "started")
        if result != "started":
            metrics.backfills.labels(result).inc()

    return Counters(
        delivery=delivery,
        edit=lambda outcome: metrics.edits.labels(outcome).inc(),
        turn_started=metrics.turns_started.inc,
        turn_ended=turn_ended,
        lease_lost=metrics.leases_lost.inc,
        leases=metrics.leases_held.set,
        inbox=lambda disposition, reason: metrics.inbox_events.labels(disposition, reason).inc(),
        handoff=lambda direction, reason: metrics.handoffs.labels(direction, reason).inc(),
        routed=lambda mode, reason: metrics.deliveries_routed.labels(mode, reason).inc(),
        backfill=backfill,
        recovery=lambda verdict, reason: metrics.recoveries.labels(verdict, reason).inc(),
        deleted=lambda table, rows: metrics.rows_deleted.labels(table).inc(rows),
    )


def pool_counters(metrics: Metrics, pool: PoolSettings) -> PoolCounters:
    """Where the pool reports which agents it ended; how many places there are is told at once."""
    metrics.agent_places.set(pool.max_sessions)
    return PoolCounters(evicted=lambda reason: metrics.agents_evicted.labels(reason).inc())
