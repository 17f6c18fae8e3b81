"""Metrics of receivers: notices delivered, notices that wait, and since when."""

from __future__ import annotations

from typing import Final

from prometheus_client import CollectorRegistry

from quorate.ports.outbox_port import Waiting
from quorate.service.metrics import metric_table as m
from quorate.service.metrics.registering import counter, gauge

_MS: Final = 1_000


class DeliveryCounts:
    """The metrics of receivers of one kind; safe for several threads. ``begun`` adds a receiver."""

    def __init__(self, registry: CollectorRegistry, of: m.DeliveryMetrics) -> None:
        self._deliveries = counter(registry, of.deliveries)
        self._waiting = gauge(registry, of.waiting)
        self._oldest = gauge(registry, of.oldest)
        self._failing = gauge(registry, of.failing)
        self._up = gauge(registry, of.up)

    def begun(self, name: str) -> None:
        """Add the series of a receiver at 0, so that its first count is seen as an increase."""
        for result in m.DeliveryResult:
            self._deliveries.labels(name, result)
        self._up.labels(name).set(1)

    def ended(self, name: str) -> None:
        """Record that nothing more is sent to a receiver."""
        self._up.labels(name).set(0)

    def delivered(self, name: str) -> None:
        """Count a notice that was delivered."""
        self._deliveries.labels(name, m.DeliveryResult.DELIVERED).inc()

    def failed(self, name: str) -> None:
        """Count an attempt that failed."""
        self._deliveries.labels(name, m.DeliveryResult.FAILED).inc()

    def given_up(self, name: str) -> None:
        """Count a notice that will not be delivered."""
        self._deliveries.labels(name, m.DeliveryResult.GIVEN_UP).inc()

    def stands(self, name: str, waiting: Waiting, now_ms: int) -> None:
        """Record the waiting notices at ``now_ms``."""
        since_ms = now_ms if waiting.since_ms is None else waiting.since_ms
        self._waiting.labels(name).set(waiting.parcels)
        self._oldest.labels(name).set(max(0, now_ms - since_ms) / _MS)
        self._failing.labels(name).set(waiting.lines_failing)
