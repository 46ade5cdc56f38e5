"""Metrics are declared once, carry no ids, and belong to one process object."""

import asyncio

import pytest
from prometheus_client.metrics import MetricWrapperBase
from prometheus_client.parser import text_string_to_metric_families

from openab.app.counting import counters
from openab.observability.metrics import Metrics, measure_loop_lag
from openab.ports.tasks import end, spawn

WORDS = {
    "outcome",
    "kind",
    "result",
    "disposition",
    "reason",
    "state",
    "status",
    "against",
    "direction",
    "verdict",
    "mode",
    "table",
}


def declared(metrics: Metrics) -> dict[str, MetricWrapperBase]:
    found = vars(metrics).items()
    return {name: one for name, one in found if isinstance(one, MetricWrapperBase)}


def test_two_processes_share_nothing() -> None:
    one, other = Metrics(), Metrics()
    one.turns_started.inc()
    assert b"openab_turns_started_total 1.0" in one.render()
    assert b"openab_turns_started_total 0.0" in other.render()


def test_labels_are_words_from_short_lists_never_ids() -> None:
    labels = {word for one in declared(Metrics()).values() for word in one._labelnames}
    assert labels == WORDS


def test_every_metric_is_rendered_with_our_prefix() -> None:
    metrics = Metrics()
    families = list(text_string_to_metric_families(metrics.render().decode()))
    assert {family.name for family in families} >= {one._name for one in declared(metrics).values()}
    assert all(family.name.startswith("openab_") and family.documentation for family in families)


def test_what_is_counted_is_shown() -> None:
    metrics = Metrics()
    metrics.turns_ended.labels(outcome="completed").inc()
    metrics.deliveries.labels(kind="final", result="sent").inc(2)
    shown = metrics.render().decode()
    assert 'openab_turns_ended_total{outcome="completed"} 1.0' in shown
    assert 'openab_deliveries_total{kind="final",result="sent"} 2.0' in shown


def test_what_the_control_plane_reports_of_a_completion_is_counted() -> None:
    metrics = Metrics()
    counters(metrics).routed("fallback", "no-active-binding")
    shown = metrics.render().decode()
    labels = 'mode="fallback",reason="no-active-binding"'
    assert f"openab_deliveries_routed_total{{{labels}}} 1.0" in shown


async def test_the_lag_of_the_loop_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    metrics, seen = Metrics(), asyncio.Queue[float]()
    monkeypatch.setattr(metrics.loop_lag, "observe", seen.put_nowait)
    sampler = spawn("lag", measure_loop_lag(metrics, interval=0.001))
    async with asyncio.timeout(5):
        lags = [await seen.get(), await seen.get()]
    await end(sampler)
    assert all(0 <= lag < 5 for lag in lags)
